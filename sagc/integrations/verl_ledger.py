"""What one verl training step drew and what became of it, from TransferQueue's keys and tags. Imports no verl.

A prompt is known by its `uid`; its rollouts have the keys ``{uid}_{session}_{output}`` and carry `response_len` in
their tag. A rollout is a session: one whose agent loop gives several outputs is as long as all of them together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sagc.types import JsonDict

Fate = Literal["trained", "filtered", "failed", "surplus"]
"""filtered: all rewards equal; failed: no rollout came back; surplus: informative, but beyond the step's P."""


@dataclass(slots=True)
class DrawnGroup:
    """One prompt of the step with its rollouts."""

    wave: int
    """0 for the step's first prompts, then one more for each refill."""
    fate: Fate | None = None
    """None until the group has left the replay buffer."""
    lengths: list[int] = field(default_factory=list)
    """Tokens of each rollout that came back, by session."""


class StepLedger:
    """Every group of one training step, in the order in which the prompts were drawn."""

    def __init__(self) -> None:
        self.groups: dict[str, DrawnGroup] = {}
        self.waves = 0

    def drew(self, uids: Iterable[str]) -> None:
        """Prompts were sent to the rollout engine."""
        self.groups.update({uid: DrawnGroup(self.waves) for uid in uids})
        self.waves += 1

    def left(self, fate: Fate, uids: Iterable[str], tags: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Groups leave the replay buffer; the first fate that is reported of a group stays.

        Args:
            fate: what became of them.
            uids: the groups.
            tags: key -> tag of every rollout in the buffer.

        Returns:
            Those of the groups that were still there, in draw order.
        """
        leaving = set(uids)
        new = [uid for uid, group in self.groups.items() if group.fate is None and uid in leaving]
        lengths = rollout_lengths(tags, set(new))
        for uid in new:
            self.groups[uid].fate = fate
            self.groups[uid].lengths = lengths.get(uid, [])
        return new

    @property
    def refilled(self) -> int:
        """Prompts drawn after the first wave."""
        return sum(group.wave > 0 for group in self.groups.values())

    @property
    def lengths(self) -> list[list[int]]:
        """Tokens of every rollout that the step waited for, by group, in draw order; a failed group is empty."""
        return [group.lengths for group in self.groups.values()]

    def count(self, fate: Fate) -> int:
        """Groups with that fate."""
        return sum(group.fate == fate for group in self.groups.values())

    @property
    def unseen(self) -> int:
        """Groups that were drawn and never seen to leave: their lengths are missing from `lengths`."""
        return sum(group.fate is None for group in self.groups.values())

    @property
    def rollouts(self) -> int:
        """Rollouts that came back."""
        return sum(map(len, self.lengths))

    @property
    def tokens(self) -> int:
        """Response tokens of all of them."""
        return sum(map(sum, self.lengths))


@dataclass(slots=True)
class Totals:
    """How far a run is; part of its checkpoint."""

    steps: int = 0
    prompts: int = 0
    rollouts: int = 0
    tokens: int = 0

    def add(self, ledger: StepLedger) -> None:
        """Take in one training step."""
        self.steps += 1
        self.prompts += len(ledger.groups)
        self.rollouts += ledger.rollouts
        self.tokens += ledger.tokens


def rollout_lengths(tags: Mapping[str, Mapping[str, Any]], uids: set[str]) -> dict[str, list[int]]:
    """Tokens of every rollout of these groups, by session number."""
    sessions: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for key, tag in tags.items():
        uid, session = split_key(key)
        if uid in uids:
            sessions[uid][session] += int(tag["response_len"])
    return {uid: [by_session[number] for number in sorted(by_session)] for uid, by_session in sessions.items()}


def split_key(key: str) -> tuple[str, int]:
    """(uid, session) of a rollout's key ``{uid}_{session}_{output}``."""
    uid, session, _ = key.rsplit("_", 2)
    return uid, int(session)


def real_rows(keys: Sequence[str], tags: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of a batch that are rollouts and not padding."""
    return [key for key, tag in zip(keys, tags, strict=True) if not tag.get("is_padding", False)]


def lone_rows(keys: Sequence[str], tags: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows whose group has one rollout left: verl would train them on their raw reward."""
    sessions: dict[str, set[int]] = defaultdict(set)
    rows = real_rows(keys, tags)
    for key in rows:
        uid, session = split_key(key)
        sessions[uid].add(session)
    return [key for key in rows if len(sessions[split_key(key)[0]]) == 1]


def step_counters(ledger: StepLedger, keys: Sequence[str], tags: Sequence[Mapping[str, Any]]) -> JsonDict:
    """Counts of one training step, with the words of a log."""
    rows = len(real_rows(keys, tags))
    return {
        "prompts": len(ledger.groups),
        "rollouts": ledger.rollouts,
        "generated_tokens": ledger.tokens,
        "trained_groups": ledger.count("trained"),
        "trained_rows": rows,
        "padded_rows": len(keys) - rows,
        "filtered_groups": ledger.count("filtered"),
        "failed_groups": ledger.count("failed"),
        "surplus_groups": ledger.count("surplus"),
        "unseen_groups": ledger.unseen,
        "refilled_prompts": ledger.refilled,
    }
