"""What a rollout is worth, shared by training and evaluation on verl; imports no verl.

    reward = right + overlong penalty,   right in {0, 1},   penalty in [-1, 0]

The tiny tasks are verified on token ids by the task itself, everything else on text by the scorer of
`benchmarks.evaluation`. verl's own overlong penalty has no floor; `benchmarks.advantages` has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.advantages import overlong_penalty
from benchmarks.engines.protocol import Prompt
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import EOS, ChainTask

ANSWER_TYPE = "answer_type"
"""Key of a row's `extra_info` that names the rule of `benchmarks.evaluation.scoring`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """One rollout, scored."""

    right: float
    penalty: float
    tokens: int
    truncated: bool
    problem: int
    """Number of the row in its set."""
    failed: bool
    """The scorer was stopped at its limit or failed: counted apart from wrong answers."""

    @property
    def total(self) -> float:
        """What the policy is trained on."""
        return self.right + self.penalty

    def extras(self) -> dict[str, float]:
        """What verl keeps beside the reward; `acc` is its own word for right."""
        return {
            "acc": self.right,
            "overlong_penalty": self.penalty,
            "response_tokens": float(self.tokens),
            "truncated": float(self.truncated),
            "scorer_failed": float(self.failed),
            "problem": float(self.problem),
        }


def reward(
    data_source: str,
    gold: str,
    tokens: Sequence[int],
    text: str,
    *,
    extra: dict[str, Any],
    eos: int,
    cap: int,
    buffer: int,
) -> Reward:
    """Score one rollout.

    Args:
        data_source: a key of `benchmarks.tasks.TASKS`, or the name of a data set of questions.
        gold: the right answer.
        tokens: the response, its end token included.
        text: the same, decoded.
        extra: the row's `extra_info`.
        eos: the end token, for data sets of questions; a tiny task knows its own.
        cap: most tokens of a response.
        buffer: tokens over which the overlong penalty grows; 0: no penalty.

    Degenerate cases: an empty response is wrong and not truncated.
    """
    task = TASKS.get(data_source)
    right, failed, end = (
        (_chain(task, gold, tokens), False, EOS)
        if task
        else (*_answer(extra.get(ANSWER_TYPE, "latex"), gold, text), eos)
    )
    return Reward(
        right=right,
        penalty=float(overlong_penalty(len(tokens), cap, buffer)),
        tokens=len(tokens),
        truncated=len(tokens) >= cap and tokens[-1] != end,
        failed=failed,
        problem=int(extra.get("index", 0)),
    )


def _chain(task: ChainTask, gold: str, tokens: Sequence[int]) -> float:
    return task.verify(Prompt(index=0, tokens=(), answer=int(gold)), tokens)


def _answer(answer_type: str, gold: str, text: str) -> tuple[float, bool]:
    from benchmarks.evaluation.scoring import score  # not needed for the tiny tasks

    verdict = score(answer_type, gold, text)
    return float(verdict.right), verdict.status in ("timeout", "error")
