"""verl's whole V1 stack trains the tiny model on a CPU: Ray, TransferQueue, FSDP2 on gloo, weight sync, checkpoints."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.checkpoint import FOLDER as CHECKPOINTS
from benchmarks.engines.verl.faults import FAULTS
from sagc.controller import SagcPolicy
from sagc.group_size import GroupSizeController
from sagc.integrations.verl_state import STATE_FILE, state_text
from sagc.types import Observation
from tests.verl.conftest import Trained
from tests.verl.harness import NEEDS_VERL, changes_of_size

torch = pytest.importorskip("torch", reason=NEEDS_VERL)
pytest.importorskip("verl", reason=NEEDS_VERL)
pytestmark = pytest.mark.slow  # each fixture is a minute or two of verl

RUNS = ("grpo", "dapo", "fixed_prompts")


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Trained:
    trained = request.getfixturevalue(request.param)
    assert isinstance(trained, Trained)
    return trained


def test_the_controller_moves_at_least_twice(run: Trained) -> None:
    assert changes_of_size(run.steps) >= 2


def test_enough_steps_were_taken_and_each_is_there_once(run: Trained) -> None:
    assert [record.step for record in run.steps] == list(range(1, len(run.steps) + 1))
    assert len(run.steps) >= (8 if run.spec.batch_policy == "fixed_rollouts" else 4)
    assert run.outcomes[-1].steps == len(run.steps)
    assert run.outcomes[-1].rollouts == sum(record.rollouts_generated for record in run.steps)


def test_rows_padding_and_optimizer_steps_are_as_planned(run: Trained) -> None:
    assert len(run.metrics) == len(run.steps)
    for record, metrics in zip(run.steps, run.metrics, strict=True):
        prompts = 32 // record.group_size if run.spec.batch_policy == "fixed_rollouts" else 4
        assert record.num_prompts == record.groups_trained == prompts
        assert record.rollouts_trained == metrics["sagc/trained_rows"] == prompts * record.group_size
        assert metrics["sagc/padded_rows"] == metrics["sagc/lone_rollouts"] == metrics["sagc/unseen_groups"] == 0
        assert record.optimizer_steps == 2


def test_adam_counts_two_steps_for_every_training_step(run: Trained) -> None:
    folder = run.folder / CHECKPOINTS / f"global_step_{run.steps[-1].step}"
    if not folder.exists():
        pytest.skip("this run kept no checkpoint of its last step")
    state = torch.load(folder / "actor" / "optim_world_size_1_rank_0.pt", weights_only=False)["state"]
    assert {float(entry["step"]) for entry in state.values()} == {2.0 * len(run.steps)}


def test_trainer_and_rollouts_agree_on_every_probability(run: Trained) -> None:
    worst = [metrics["training/rollout_probs_diff_max"] for metrics in run.metrics]
    print(f"largest difference of probabilities: {max(worst):.1e}")
    assert max(worst) < 1e-5
    assert all(record.ratio_deviation_max < 1e-4 for record in run.steps if record.ratio_deviation_max is not None)


def test_the_decisions_replayed_through_sagc_alone_are_those_of_the_run(run: Trained) -> None:
    policy = SagcPolicy(run.spec.controller)
    decision, state = policy.init()
    for record in run.steps:
        assert record.group_size == decision.group_size
        assert record.controller == policy.describe(state)
        decision, state = policy.update(state, Observation(record.lengths))
        assert record.controller_next == policy.describe(state)
        assert record.decision["group_size"] == decision.group_size


def test_every_group_is_accounted_for_with_its_own_size(run: Trained) -> None:
    for record in run.steps:
        assert all(len(group) == record.group_size for group in record.lengths)
        assert record.groups_generated == record.groups_trained + record.groups_filtered + record.groups_surplus
        assert record.rollouts_generated == record.groups_generated * record.group_size == sum(record.barrier_rollouts)
        assert record.generated_tokens == sum(map(sum, record.lengths)) == record.row_steps
        assert all(0 < length <= 112 for group in record.lengths for length in group)


def test_the_prompts_follow_the_file_without_gap_or_repeat(run: Trained) -> None:
    events = run.events("step")
    assert [row for event in events for row in event["rows"]] == list(
        range(sum(len(event["rows"]) for event in events))
    )
    assert [event["rows"][0] for event in events] == [record.first_prompt for record in run.steps]


def test_the_record_says_which_faults_of_verl_were_met(run: Trained) -> None:
    (started, *_) = run.events("started")
    assert (started["verl"], started["faults"]) == ("0.9.1", FAULTS)


def test_dynamic_sampling_filters_refills_and_discards(dapo: Trained) -> None:
    assert sum(record.groups_filtered for record in dapo.steps) > 0
    assert sum(record.barriers - 1 for record in dapo.steps) > 0
    for record, metrics in zip(dapo.steps, dapo.metrics, strict=True):
        assert record.groups_filtered == metrics.get("training/filter_groups/evicted_samples", 0)
        assert record.groups_surplus == metrics.get("training/filter_groups/discarded_surplus_samples", 0)
        assert record.groups_filtered == record.degenerate_groups
        # verl asks for two prompts for each group it drops, as far as there is room
        assert metrics["sagc/refilled_prompts"] <= 2 * record.groups_filtered
        assert record.groups_generated == record.num_prompts + metrics["sagc/refilled_prompts"]


def test_a_run_that_is_asked_to_stop_ends_after_its_step_with_a_checkpoint(dapo: Trained) -> None:
    (outcome,) = dapo.outcomes
    last = dapo.steps[-1].step
    assert (outcome.status, outcome.reason) == ("killed", f"asked to stop after step {last}")
    assert last in (22, 23)  # it was asked when the record of step 22 was there
    assert (dapo.folder / CHECKPOINTS / f"global_step_{last}" / STATE_FILE).exists()


def test_a_killed_process_is_told_from_one_that_ended(grpo: Trained) -> None:
    killed, finished = grpo.outcomes
    assert killed.status == "failed"
    assert "without a word" in killed.reason
    assert (finished.status, finished.reason) == ("finished", "")


def test_a_resumed_run_goes_on_from_the_saved_state_byte_for_byte(grpo: Trained) -> None:
    (resumed,) = grpo.events("resumed")
    assert resumed["step"] == 4
    saved = Path(grpo.folder, CHECKPOINTS, "global_step_4", STATE_FILE).read_text()
    assert state_text(resumed["state"]) == saved


def test_the_first_decision_after_a_resume_is_the_one_of_sagc_alone(grpo: Trained) -> None:
    (resumed,) = grpo.events("resumed")
    alone = GroupSizeController(grpo.spec.controller)
    alone.load_state_dict(resumed["state"]["policy"])
    assert grpo.sinks[1].steps[0].step == 5
    assert grpo.sinks[1].steps[0].group_size == alone.group_size


def test_a_run_is_evaluated_before_and_at_its_horizon(grpo: Trained) -> None:
    records = [*grpo.sinks[0].evaluations, *grpo.sinks[1].evaluations]
    assert [(record.step, record.milestone, record.final) for record in records] == [
        (0, 0, False),
        (len(grpo.steps), 1, True),
    ]
    for record in records:
        assert (record.set, record.samples, len(record.right)) == ("steady", 1, 32)
        assert set(record.right) <= {0, 1}
        assert all(0 < tokens <= 112 for tokens in record.output_tokens)


def test_the_final_model_is_one_that_transformers_loads(grpo: Trained) -> None:
    transformers = pytest.importorskip("transformers", reason=NEEDS_VERL)
    model = transformers.AutoModelForCausalLM.from_pretrained(grpo.folder / "model")
    assert sum(parameter.numel() for parameter in model.parameters()) < 200_000


def test_our_own_code_is_under_one_percent_of_a_step(dapo: Trained) -> None:
    assert len(dapo.metrics) >= 20
    shares = [metrics["sagc/own_s"] / metrics["timing_s/step"] for metrics in dapo.metrics]
    records = [metrics["sagc/records_s"] / metrics["timing_s/step"] for metrics in dapo.metrics]
    print(
        f"own code: median {statistics.median(shares):.3%} of a step of "
        f"{statistics.median(metrics['timing_s/step'] for metrics in dapo.metrics):.2f} s; records beside it "
        f"{statistics.median(records):.3%}"
    )
    assert statistics.median(shares) < 0.01
