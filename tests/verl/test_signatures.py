"""What the integration relies on in verl: a change of it fails here, by name."""

from __future__ import annotations

import pytest

from tests.verl.harness import NEEDS_VERL

pytest.importorskip("verl", reason=NEEDS_VERL)

from verl import __version__
from verl.trainer.ppo.v1 import PPOTrainerSync, get_trainer_cls
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from sagc.integrations import verl as integration
from sagc.integrations.verl_buffer import SagcReplayBuffer


def test_this_is_the_version_that_the_integration_was_written_for() -> None:
    assert __version__ == "0.9.1"


def test_every_method_that_is_overridden_takes_what_it_took() -> None:
    assert integration.changed_signatures() == []


def test_a_changed_method_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**integration.RELIES_ON, "PPOTrainerSync._step_once": ("self", "metrics"), "ReplayBuffer.gone": ("self",)}
    monkeypatch.setattr(integration, "RELIES_ON", wrong)
    changed = integration.changed_signatures()
    assert len(changed) == 2
    assert changed[0].startswith("PPOTrainerSync._step_once takes ('self', 'metrics', 'timing_raw'")
    assert changed[1].startswith("ReplayBuffer.gone takes None")


@pytest.mark.parametrize(
    ("ours", "theirs"), [(integration.SagcTrainer, PPOTrainerSync), (SagcReplayBuffer, ReplayBuffer)]
)
def test_nothing_is_overridden_that_is_not_pinned(ours: type, theirs: type) -> None:
    overridden = {name for name, value in vars(ours).items() if callable(value) and hasattr(theirs, name)}
    overridden -= {"__init__", "__doc__", "__module__"}
    pinned = {name.split(".")[1] for name in integration.RELIES_ON if name.startswith(theirs.__name__)}
    assert overridden <= pinned


def test_the_trainer_is_found_under_its_name() -> None:
    assert get_trainer_cls("sagc") is integration.SagcTrainer
