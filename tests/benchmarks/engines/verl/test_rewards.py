from __future__ import annotations

import pytest

from benchmarks.engines.verl.rewards import reward
from benchmarks.tasks.modular_chain import EOS, encode

RESPONSE = encode(["4", "a", "+3", "7", "#", "7", "$"])


def test_a_tiny_task_is_verified_on_its_tokens() -> None:
    right = reward("steady", "7", RESPONSE, "", extra={"index": 3}, eos=0, cap=12, buffer=0)
    assert (right.right, right.penalty, right.total, right.tokens, right.truncated) == (1.0, 0.0, 1.0, 7, False)
    assert right.extras()["acc"] == 1.0
    assert right.extras()["problem"] == 3.0
    wrong = reward("steady", "8", RESPONSE, "", extra={}, eos=0, cap=12, buffer=0)
    assert wrong.total == 0.0


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(10, 0.0), (12, 0.0), (13, -0.25), (14, -0.5), (15, -0.75), (16, -1.0), (17, -1.0), (20, -1.0)],
)
def test_the_overlong_penalty_never_falls_below_minus_one(length: int, penalty: float) -> None:
    scored = reward("steady", "7", [1] * length, "", extra={}, eos=EOS, cap=16, buffer=4)
    assert scored.penalty == penalty
    assert scored.total == penalty


def test_only_a_response_at_the_cap_without_its_end_is_truncated() -> None:
    def truncated(tokens: list[int]) -> bool:
        return reward("steady", "7", tokens, "", extra={}, eos=0, cap=4, buffer=0).truncated

    assert truncated([1, 2, 3, 4])
    assert not truncated([1, 2, 3, EOS])
    assert not truncated([1, 2, 3])
    assert not truncated([])


def test_questions_are_scored_by_the_scorer_of_the_evaluation() -> None:
    def right(text: str, answer_type: str, gold: str) -> float:
        extra = {"answer_type": answer_type}
        return reward("dapo_math", gold, [5, 6, 2], text, extra=extra, eos=2, cap=9, buffer=0).right

    assert right(r"so the answer is \boxed{070}.", "integer", "70") == 1.0
    assert right(r"so the answer is \boxed{71}.", "integer", "70") == 0.0
    assert right(r"\boxed{B}", "choice", "B") == 1.0
    assert right("the answer is 70", "integer", "70") == 0.0  # no box is no answer


def test_a_gold_that_cannot_be_read_is_a_failure_and_not_a_wrong_answer() -> None:
    scored = reward("dapo_math", "seven", [2], r"\boxed{7}", extra={"answer_type": "integer"}, eos=2, cap=9, buffer=0)
    assert scored.failed
    assert scored.extras()["scorer_failed"] == 1.0
