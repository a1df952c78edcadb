from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.evaluation.metrics import (
    Sample,
    Votes,
    avg,
    count_votes,
    estimate,
    maj_at_k,
    pass_at_k,
    set_metrics,
)
from benchmarks.evaluation.rules import Verdict
from sagc.errors import ConfigError

RIGHT = Verdict(True, "answered", "70")
WRONG = Verdict(False, "answered", "71")
BLANK = Verdict(False, "no_answer", None)


def sample(verdict: Verdict, tokens: int = 1, truncated: bool = False, text: str = "") -> Sample:
    return Sample(verdict, tokens, truncated, text)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        *((4, 1, 2, 0.5), (16, 3, 8, 0.9), (64, 1, 32, 0.5), (5, 2, 3, 0.9), (8, 0, 4, 0), (10, 5, 1, 0.5)),
        *((64, 32, 64, 1), (4, 1, 1, 0.25), (4, 1, 3, 0.75)),
        *((4, 1, 4, 1), (8, 2, 4, 0.785714)),  # B34: a bootstrap gives .683594 for both
    ],
)
def test_pass_at_k_is_the_unbiased_estimate(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(Votes(c, (), n - c), k) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("metric", [pass_at_k, maj_at_k])
@pytest.mark.parametrize("k", [0, 3, 5, -1])
def test_k_beyond_the_samples_is_refused_and_never_one(metric: object, k: int) -> None:
    with pytest.raises(ConfigError, match=f"at most the 2 samples of a problem, got {k}"):
        metric(Votes(0, (2,)), k)  # type: ignore[operator]


def test_fewer_completions_than_asked_are_refused() -> None:
    """lighteval#771: 8 completions, 4 right, n = 16 asked gave 0.25."""
    problem = [sample(RIGHT)] * 4 + [sample(WRONG)] * 4
    assert set_metrics([problem], [8])["avg_at_8"] == 0.5
    with pytest.raises(ConfigError, match="at most the 8 samples"):
        set_metrics([problem], [16])


def test_problems_with_different_numbers_of_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"equally many samples, got \[1, 2\]"):
        set_metrics([[sample(RIGHT)], [sample(RIGHT)] * 2], [1])
    with pytest.raises(ConfigError, match="equally many samples"):
        set_metrics([], [1])


def test_every_repeat_counts() -> None:
    """lm-eval#3297: with repeats only the first was scored."""
    assert set_metrics([[sample(v) for v in (WRONG, RIGHT, RIGHT, RIGHT)]], [1])["avg_at_4"] == 0.75


def brute_force_majority(answers: list[str | None], k: int) -> float:
    """Mean credit over every subset, by counting."""
    credits = []
    for subset in itertools.combinations(answers, k):
        tally = {answer: subset.count(answer) for answer in set(subset) if answer is not None}
        winners = [answer for answer, count in tally.items() if count == max(tally.values())]
        credits.append(("right" in winners) / len(winners) if winners else 0.0)
    return sum(credits) / len(credits)


@given(
    st.lists(st.sampled_from(["right", "a", "b", "c", None]), min_size=1, max_size=9),
    st.integers(min_value=1, max_value=9),
)
def test_majority_equals_the_mean_over_all_subsets(answers: list[str | None], k: int) -> None:
    k = min(k, len(answers))
    others = [answers.count(name) for name in ("a", "b", "c")]
    votes = Votes(answers.count("right"), tuple(size for size in others if size), answers.count(None))
    assert maj_at_k(votes, k) == pytest.approx(brute_force_majority(answers, k), abs=1e-12)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (Votes(2, (2,)), 0.5),
        (Votes(1, (1, 1)), 1 / 3),
        (Votes(3, (2,), 9), 1.0),
        (Votes(0, (), 4), 0.0),
        (Votes(1), 1.0),
    ],
)
def test_majority_of_all_samples_gives_ties_their_expected_credit(votes: Votes, expected: float) -> None:
    assert maj_at_k(votes, votes.total) == pytest.approx(expected)


def test_majority_with_many_answers_equals_the_mean_over_random_subsets() -> None:
    sizes = (20, *(1,) * 30, *(4,) * 10, *(10,) * 3)  # right first
    answers = np.array([number for number, size in enumerate(sizes) for _ in range(size)] + [len(sizes)] * 14)
    rng = np.random.default_rng(0)
    credits = []
    for _ in range(4000):
        tally = np.bincount(rng.choice(answers, 64, replace=False), minlength=len(sizes) + 1)[:-1]
        credits.append((tally[0] == tally.max()) / np.count_nonzero(tally == tally.max()))
    exact = maj_at_k(Votes(sizes[0], sizes[1:], 14), 64)
    assert exact == pytest.approx(np.mean(credits), abs=4 * np.std(credits) / math.sqrt(4000))


def test_standard_error_is_clustered_by_problem() -> None:
    problems = [Votes(8), Votes(0, (8,)), Votes(4, (4,))]
    result = estimate(avg, problems, 1)
    assert result.value == 0.5
    assert result.standard_error == pytest.approx(0.5 / math.sqrt(3))
    assert result.run_deviation == pytest.approx(math.sqrt(0.25 / 7) / 3)


def test_one_problem_has_no_standard_error_and_one_sample_no_run_deviation() -> None:
    assert estimate(avg, [Votes(1, (1,))], 1).standard_error is None
    assert estimate(avg, [Votes(1), Votes(0, (1,))], 1).run_deviation is None
    assert estimate(pass_at_k, [Votes(1, (1,))], 2).run_deviation is None  # k = n


def test_run_deviation_is_that_of_repeated_runs() -> None:
    """Against 4,000 simulated runs of 40 problems with 8 samples; the pass@4 jackknife errs on the large side."""
    rng = np.random.default_rng(0)
    chances = rng.beta(0.4, 0.8, size=40)
    runs = rng.binomial(8, chances, size=(4000, 40))
    for metric, k, tolerance in ((avg, 1, 0.05), (pass_at_k, 4, 0.35)):
        table = {c: metric(Votes(c, (), 8 - c), k) for c in range(9)}
        true = np.vectorize(table.get)(runs).mean(axis=1).std()
        claimed = [
            estimate(metric, [Votes(int(c), (), 8 - int(c)) for c in run], k).run_deviation for run in runs[:200]
        ]
        assert np.mean([value for value in claimed if value is not None]) == pytest.approx(true, rel=tolerance)


def test_equal_right_answers_vote_together_and_failures_not_at_all() -> None:
    timeout, error = Verdict(False, "timeout"), Verdict(False, "error")
    other = Verdict(False, "answered", "72")
    assert count_votes([sample(v) for v in (RIGHT, RIGHT, WRONG, other, WRONG, BLANK, timeout, error)]) == Votes(
        2, (1, 2), 3
    )


def test_rates_and_lengths() -> None:
    timeout, error = Verdict(False, "timeout"), Verdict(False, "error")
    problem = [
        sample(RIGHT, 10),
        sample(BLANK, 20, truncated=True),
        sample(timeout, 30, text="x"),
        sample(error, 100, text="x"),
    ]
    numbers = set_metrics([problem], [1])
    rates = {name: value for name, value in numbers.items() if name.endswith("_frac")}
    assert rates == dict.fromkeys(["truncated_frac", "no_answer_frac", "timeout_frac", "error_frac"], 0.25)
    assert (numbers["output_tokens_mean"], numbers["output_tokens_median"], numbers["problems"]) == (40, 25, 1)
    assert numbers["output_tokens_p95"] == pytest.approx(np.percentile([10, 20, 30, 100], 95))
    assert numbers["duplicate_completions"] == 2


def test_names_are_legal_in_mlflow() -> None:
    names = set_metrics([[sample(RIGHT), sample(WRONG)]], [1, 2])
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for name in names)
    assert {"avg_at_2", "pass_at_1", "pass_at_2", "maj_at_1_se", "maj_at_2_run_sd"} <= names.keys()
