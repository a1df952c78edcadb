"""The replay buffer on a real TransferQueue: what leaves is reported, refills end, a lone rollout trains nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.verl.harness import NEEDS_VERL

pytest.importorskip("verl", reason=NEEDS_VERL)

import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from sagc.integrations.verl import no_advantage
from sagc.integrations.verl_buffer import SagcReplayBuffer, StalledError, Stopwatch
from sagc.integrations.verl_ledger import StepLedger

G, P = 4, 3


@pytest.fixture(scope="module")
def queue() -> Iterator[None]:
    storage = {"total_storage_size": 1000, "num_data_storage_units": 1}
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    tq.init(OmegaConf.create({"backend": {"storage_backend": "SimpleStorage", "SimpleStorage": storage}}))
    yield
    tq.close()
    ray.shutdown()


class Source:
    """Stands where the rollout engine is: every prompt is answered at once, with rewards as told."""

    def __init__(self, informative: Callable[[int], bool]) -> None:
        self.ledger, self._informative, self._numbers = StepLedger(), informative, itertools.count()

    def send(self, count: int) -> int:
        numbers = [next(self._numbers) for _ in range(count)]
        self.ledger.drew([f"u{number}" for number in numbers])
        for number in numbers:
            rewards = [1.0, *[0.0] * (G - 1)] if self._informative(number) else [0.0] * G
            scores = torch.nested.as_nested_tensor([torch.tensor([reward]) for reward in rewards], layout=torch.jagged)
            tq.kv_batch_put(
                keys=[f"u{number}_{session}_0" for session in range(G)],
                partition_id="train",
                fields=TensorDict({"rm_scores": scores}, batch_size=G),
                tags=[{"response_len": 10 * number + session + 1} for session in range(G)],
            )
            tag = {"is_prompt": True, "status": "finished", "global_steps": 1}
            tq.kv_batch_put(keys=[f"u{number}"], partition_id="train", tags=[tag])
        return count


def sample(source: Source, rounds: int) -> tuple[Any, dict[str, Any]]:
    stock = ReplayBuffer(
        trainer_mode="sync",
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
        sampler_kwargs=OmegaConf.create({}),
        poll_interval=0.01,
        refill_fn=source.send,
        filter_groups_metric="reward",
        train_batch_size=P,
        gen_batch_size=1,
    )
    buffer = SagcReplayBuffer.like(
        stock,
        report=source.ledger.left,
        exhausted=lambda: source.ledger.refilled >= rounds * P,
        watch=Stopwatch(),
    )
    source.send(P)
    try:
        batch, metrics = buffer.sample(global_steps=1, partition_id="train", batch_size=P)
        tq.kv_clear(keys=batch.keys, partition_id="train")
    finally:
        left = list((tq.kv_list("train") or {}).get("train", {}))
        if left:
            tq.kv_clear(keys=left, partition_id="train")
    return batch, metrics


def test_filtered_and_surplus_groups_reach_the_controller(queue: None) -> None:
    source = Source(informative=lambda number: number not in (0, 2))
    batch, metrics = sample(source, rounds=4)
    ledger = source.ledger
    assert metrics["training/filter_groups/evicted_samples"] == ledger.count("filtered") == 2
    assert metrics.get("training/filter_groups/discarded_surplus_samples", 0) == ledger.count("surplus")
    assert ledger.count("trained") == P
    assert ledger.unseen == 0
    assert ledger.lengths == [[10 * n + s + 1 for s in range(G)] for n in range(len(ledger.groups))]
    trained = {uid for uid, group in ledger.groups.items() if group.fate == "trained"}
    assert {key.split("_")[0] for key in batch.keys} == trained
    assert not trained & {"u0", "u2"}


def test_refills_end_at_the_bound_and_the_informative_groups_go_first(queue: None) -> None:
    source = Source(informative=lambda number: number == 5)
    sample(source, rounds=2)
    ledger = source.ledger
    assert ledger.refilled >= 2 * P
    assert len(ledger.groups) <= P + 2 * P + 2 * P  # the bound, and what was already owed
    assert ledger.count("trained") == P
    assert ledger.groups["u5"].fate == "trained"


def test_a_step_without_an_informative_group_ends_the_run_by_name(queue: None) -> None:
    with pytest.raises(StalledError, match=r"raise trainer\.sagc\.max_refill_rounds"):
        sample(Source(informative=lambda number: False), rounds=2)


def test_a_lone_rollout_gets_no_advantage_and_its_neighbours_keep_theirs(queue: None) -> None:
    keys = ["a_0_0", "b_0_0", "b_1_0"]
    values = torch.nested.as_nested_tensor(
        [torch.full((2,), 0.999999), torch.full((3,), 0.7), torch.full((1,), -0.7)], layout=torch.jagged
    )
    fields = TensorDict({"advantages": values, "returns": values.clone()}, batch_size=3)
    tq.kv_batch_put(keys=keys, partition_id="train", fields=fields, tags=[{}, {}, {}])
    no_advantage(["a_0_0"], "train")
    data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["advantages", "returns"])
    for name in ("advantages", "returns"):
        rows = [row.tolist() for row in data[name].unbind()]
        assert rows[0] == [0.0, 0.0]
        assert rows[1] == pytest.approx([0.7] * 3)
        assert rows[2] == pytest.approx([-0.7])
    tq.kv_clear(keys=keys, partition_id="train")
