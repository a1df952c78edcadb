from __future__ import annotations

from pathlib import Path

import pytest

from sagc import GroupSizeController, SagcConfig
from sagc.errors import StateError
from sagc.integrations.verl_state import end_as_failed, read_state, state_text, write_state

STATE = {"format": 1, "policy": {"price": 0.1 + 0.2}, "decision": {"group_size": 8}, "totals": {"steps": 3}}


def test_a_state_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "global_step_3" / "sagc.json"
    write_state(path, STATE)
    assert state_text(read_state(path)) == path.read_text()
    assert not list(path.parent.glob("*.tmp"))


def test_a_controller_goes_on_from_the_file_as_if_nothing_had_happened(tmp_path: Path) -> None:
    config = SagcConfig(candidates=(4, 8, 16), budget=0.25, threshold=2.0)
    steps = [[[5, 6, 5, 30]] * 8, [[7, 7, 8, 9]] * 8, [[3, 4, 12, 3]] * 8]
    whole, stopped = GroupSizeController(config), GroupSizeController(config)
    for lengths in steps[:2]:
        whole.observe(lengths)
        stopped.observe(lengths)
    write_state(tmp_path / "sagc.json", {**STATE, "policy": stopped.state_dict()})
    resumed = GroupSizeController(config)
    resumed.load_state_dict(read_state(tmp_path / "sagc.json")["policy"])
    assert resumed.decision == whole.decision
    assert resumed.observe(steps[2]) == whole.observe(steps[2])
    assert resumed.state_dict() == whole.state_dict()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "policy": {}}', "\0"])
def test_a_damaged_state_is_refused_with_a_cure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sagc.json"
    path.write_text(text)
    with pytest.raises(StateError, match=r"resume from a checkpoint that the sagc trainer wrote, or start anew"):
        read_state(path)


def test_a_checkpoint_of_another_trainer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="No such file"):
        read_state(tmp_path / "sagc.json")


@pytest.mark.slow  # MLflow makes a store of its own: over 10 s
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own
def test_a_crashed_run_is_failed_in_mlflow_even_when_verl_then_ends_it_its_own_way(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = mlflow.start_run()
    end_as_failed({"console": None, "mlflow": None})
    mlflow.end_run()  # what verl's tracker does when it is finished
    assert mlflow.get_run(run.info.run_id).info.status == "FAILED"


def test_without_mlflow_nothing_is_ended() -> None:
    end_as_failed({"console": None, "file": None})
