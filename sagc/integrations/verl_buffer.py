"""verl's replay buffer, with eyes: it reports every group that leaves it and bounds the refills."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from sagc.errors import SagcError
from sagc.integrations.verl_ledger import Fate

Report = Callable[[Fate, set[str], dict[str, dict[str, Any]]], Any]
"""Takes a fate, the groups that meet it, and key -> tag of every rollout in the buffer."""
_TRAIN = "train"  # verl's partition of training rollouts


class StalledError(SagcError, RuntimeError):
    """Dynamic sampling found no informative group within its bound."""


class Stopwatch:
    """Seconds spent in this module's own code, verl's excluded."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started


class SagcReplayBuffer(ReplayBuffer):
    """verl's replay buffer that reports every group that leaves it and stops filtering at a bound.

    verl refills without limit. Here a step that has refilled its bound filters no more: what is still in flight
    fills it up, informative groups first. A step without any informative group raises `StalledError`.
    """

    def __init__(self, report: Report, exhausted: Callable[[], bool], watch: Stopwatch, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._report, self._exhausted, self._watch = report, exhausted, watch
        self._degenerate: set[str] = set()
        """Groups in the buffer whose rewards are all equal, at the latest look."""

    @classmethod
    def like(cls, stock: ReplayBuffer, **own: Any) -> SagcReplayBuffer:
        """The same buffer as `stock`: verl keeps every constructor argument under its name."""
        names = [name for name in inspect.signature(ReplayBuffer.__init__).parameters if name != "self"]
        return cls(**own, **{name: getattr(stock, name) for name in names})

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter[float]]:
        stale, filtered, failed, rewards = super()._terminal_eviction_reasons(global_steps, partition_id)
        if partition_id != _TRAIN:
            return stale, filtered, failed, rewards
        with self._watch:
            self._degenerate = filtered
            if filtered and self._exhausted():
                return stale, set(), failed, Counter()
        return stale, filtered, failed, rewards

    def _evict_terminal_groups(
        self,
        global_steps: int,
        partition_id: str,
        eviction_reasons: tuple[set[str], set[str], set[str], Counter[float]],
    ) -> tuple[set[str], int, int, dict[str, Any]]:
        if partition_id == _TRAIN:
            with self._watch:
                self._report("filtered", eviction_reasons[1], self.partitions[partition_id])
                self._report("failed", eviction_reasons[2], self.partitions[partition_id])
        return super()._evict_terminal_groups(global_steps, partition_id, eviction_reasons)

    def _clear_groups(self, partition_id: str, uids: set[str]) -> None:
        if partition_id == _TRAIN:
            with self._watch:  # what was evicted has been reported; the rest is surplus
                self._report("surplus", uids, self.partitions[partition_id])
        super()._clear_groups(partition_id, uids)

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        if partition_id == _TRAIN:
            with self._watch:
                informative = sampleable_keys - self._degenerate
                if self.filter_groups_metric is not None and not informative:
                    raise StalledError(
                        f"dynamic sampling must find an informative group, got none in {len(sampleable_keys)} groups "
                        "after its last refill; raise trainer.sagc.max_refill_rounds or choose easier or harder prompts"
                    )
                spare = sorted(sampleable_keys & self._degenerate)[: max(0, batch_size - len(informative))]
                sampleable_keys = informative.union(spare)
        return super()._select_prompt_uids(partition_id, sampleable_keys, batch_size)

    def _materialize_batch(
        self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: dict[str, dict[str, Any]]
    ) -> Any:
        if partition_id == _TRAIN:
            with self._watch:
                self._report("trained", set(selected_prompt_uids), partition_snapshot)
        return super()._materialize_batch(partition_id, selected_prompt_uids, partition_snapshot)
