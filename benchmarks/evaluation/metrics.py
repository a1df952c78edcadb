"""Numbers from one pool of n samples per problem: avg@n, pass@k, maj@k, lengths and rates.

Two uncertainties, never added: the *standard error* says how far another draw of problems would move a number
(problems are the clusters; 6 to 9 points with 30 problems, whatever n is), the *run deviation* how far another
run on the same problems would.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.evaluation.rules import Verdict
from sagc.errors import ConfigError


class Sample(NamedTuple):
    """One scored completion."""

    verdict: Verdict
    tokens: int
    """Generated tokens, the end token included."""
    truncated: bool
    text: str


@dataclass(frozen=True, slots=True)
class Votes:
    """How the samples of one problem voted."""

    right: int
    others: tuple[int, ...] = ()
    """Samples behind each wrong answer."""
    blank: int = 0
    """Samples without an answer; they are in n and vote for nothing."""

    @property
    def total(self) -> int:
        """n, the samples of the problem."""
        return self.right + sum(self.others) + self.blank

    def without_one(self) -> Iterator[tuple[int, Votes]]:
        """The votes with one sample left out, each with the number of samples that it stands for."""
        if self.right:
            yield self.right, Votes(self.right - 1, self.others, self.blank)
        if self.blank:
            yield self.blank, Votes(self.right, self.others, self.blank - 1)
        for size, answers in Counter(self.others).items():
            rest = list(self.others)
            rest.remove(size)
            yield size * answers, Votes(self.right, tuple(sorted([*rest, size - 1] if size > 1 else rest)), self.blank)


class Estimate(NamedTuple):
    """A number with its two uncertainties; None is "not measured"."""

    value: float
    standard_error: float | None
    """Clustered by problem; None for one problem."""
    run_deviation: float | None
    """None where it would take more samples than there are."""


def count_votes(samples: Sequence[Sample]) -> Votes:
    """The votes of one problem's samples; a time-out or an error is a blank vote."""
    wrong = Counter(sample.verdict.answer for sample in samples if not sample.verdict.right and sample.verdict.answer)
    right = sum(sample.verdict.right for sample in samples)
    return Votes(right, tuple(sorted(wrong.values())), len(samples) - right - wrong.total())


def avg(votes: Votes, k: int) -> float:
    """Share of right samples; `k` takes part in the signature alone."""
    return votes.right / votes.total


def pass_at_k(votes: Votes, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the chance that k of the n samples, drawn at random, hold a right one.

    Raises:
        ConfigError: if k is not in 1 ... n. The common code returns 1 for k > n, whatever c is.

    Source: Chen et al. 2021, arXiv 2107.03374.
    """
    _check_k(k, votes.total)
    return 1 - math.comb(votes.total - votes.right, k) / math.comb(votes.total, k)


@lru_cache(maxsize=4096)
def maj_at_k(votes: Votes, k: int) -> float:
    """Expected credit of the majority among k of the n samples, over all draws of k; exact.

    A draw earns 1 where the right answer has the most votes, 1 / w where it shares the first place with w - 1 others,
    else 0; so does a draw without any vote.

    Raises:
        ConfigError: if k is not in 1 ... n.
    """
    _check_k(k, votes.total)
    draws, credit = math.comb(votes.total, k), 0.0
    for score in range(1, min(votes.right, k) + 1):
        rivals = [size for size in votes.others if size >= score]  # the others cannot reach `score`, like blanks
        free = votes.blank + sum(size for size in votes.others if size < score)
        for (used, ties), ways in _ways(rivals, score, k - score).items():
            draws_here = math.comb(votes.right, score) * ways * math.comb(free, k - score - used)
            credit += draws_here / (draws * (1 + ties))
    return credit


def _ways(rivals: Sequence[int], score: int, room: int) -> dict[tuple[int, int], int]:
    """Ways to give each rival at most `score` votes, at most `room` in all, by (votes given, rivals with `score`)."""
    ways = {(0, 0): 1}
    for size in rivals:
        grown: Counter[tuple[int, int]] = Counter()
        for (used, ties), count in ways.items():
            for votes in range(min(score, room - used) + 1):
                grown[used + votes, ties + (votes == score)] += count * math.comb(size, votes)
        ways = dict(grown)
    return ways


def _check_k(k: int, samples: int) -> None:
    if not 1 <= k <= samples:
        raise ConfigError(
            f"k must be at least 1 and at most the {samples} samples of a problem, got {k!r}; sample more"
        )


def estimate(metric: Callable[[Votes, int], float], problems: Sequence[Votes], k: int) -> Estimate:
    """Mean of `metric` over problems.

    standard error = sd_i(m_i) / sqrt(P); run deviation = sqrt(sum_i v_i) / P with v_i the delete-one jackknife variance
    of m_i, which for avg is p (1 - p) / (n - 1).

    Args:
        metric: from votes and k to [0, 1].
        problems: at least one.
        k: samples drawn per problem, 1 ... n.
    """
    values = [metric(votes, k) for votes in problems]
    variances = [_jackknife(metric, votes, k) for votes in problems]
    count = len(values)
    return Estimate(
        value=math.fsum(values) / count,
        standard_error=float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else None,
        run_deviation=None if None in variances else math.sqrt(math.fsum(v for v in variances if v)) / count,
    )


def _jackknife(metric: Callable[[Votes, int], float], votes: Votes, k: int) -> float | None:
    samples = votes.total
    if samples - 1 < k:
        return None
    left_out = [(times, metric(rest, k)) for times, rest in votes.without_one()]
    mean = math.fsum(times * value for times, value in left_out) / samples
    return (samples - 1) / samples * math.fsum(times * (value - mean) ** 2 for times, value in left_out)


def set_metrics(problems: Sequence[Sequence[Sample]], ks: Sequence[int]) -> dict[str, float | None]:
    """Every number of one set under a name that MLflow accepts; None is "not measured".

    Args:
        problems: the samples of each problem, equally many for each.
        ks: the k of pass@k and maj@k, each at most the samples of a problem.

    Raises:
        ConfigError: on a k out of range, no problems, or problems with different numbers of samples.
    """
    sizes = sorted({len(samples) for samples in problems})
    if len(sizes) != 1 or sizes == [0]:
        raise ConfigError(f"problems must have equally many samples, got {sizes}; finish the sampling first")
    votes = [count_votes(samples) for samples in problems]
    estimates = {f"avg_at_{sizes[0]}": estimate(avg, votes, 1)}
    for k in ks:
        estimates |= {f"pass_at_{k}": estimate(pass_at_k, votes, k), f"maj_at_{k}": estimate(maj_at_k, votes, k)}
    numbers: dict[str, float | None] = {}
    for name, (value, standard_error, run_deviation) in estimates.items():
        numbers |= {name: value, f"{name}_se": standard_error, f"{name}_run_sd": run_deviation}
    return (
        numbers
        | _sample_metrics([sample for samples in problems for sample in samples])
        | {
            "problems": float(len(problems)),
            "duplicate_completions": float(sum(map(count_duplicates, problems))),
        }
    )


def _sample_metrics(samples: Sequence[Sample]) -> dict[str, float | None]:
    tokens = np.array([sample.tokens for sample in samples])
    status = Counter(sample.verdict.status for sample in samples)
    return {
        "output_tokens_mean": float(tokens.mean()),
        "output_tokens_median": float(np.median(tokens)),
        "output_tokens_p95": float(np.percentile(tokens, 95)),
        "truncated_frac": sum(sample.truncated for sample in samples) / len(samples),
        "no_answer_frac": status["no_answer"] / len(samples),
        "timeout_frac": status["timeout"] / len(samples),
        "error_frac": status["error"] / len(samples),
    }


def count_duplicates(samples: Sequence[Sample]) -> int:
    """Samples of one problem whose text an earlier sample already had."""
    return len(samples) - len({sample.text for sample in samples})
