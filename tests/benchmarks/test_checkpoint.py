"""Checkpoints: damage is found, named and survived."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.checkpoint import FOLDER, Checkpoint, CheckpointError, read_checkpoint, saved_steps, write_checkpoint


def refuse(path: Path) -> None:
    raise AssertionError(f"{path} must be whole")


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(
        step=step,
        arrays={"w": np.full((2, 3), step, np.float32), "count": np.array(step)},
        state={"step": step, "policy": {"price": 0.1}},
    )


def test_an_empty_or_missing_folder_has_none(tmp_path: Path) -> None:
    assert next(saved_steps(tmp_path, damaged=refuse), None) is None
    assert next(saved_steps(tmp_path / "none", damaged=refuse), None) is None


def test_the_newest_comes_back_bit_for_bit_and_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 10, 100):
        write_checkpoint(tmp_path / FOLDER, checkpoint(step))
    saved = next(saved_steps(tmp_path, damaged=refuse))
    found = read_checkpoint(saved.path)
    assert saved.step == 100
    assert (found.step, found.state) == (100, checkpoint(100).state)
    for name, array in checkpoint(100).arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage", [flip_a_bit, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(path.read_bytes()[:-7])]
)
def test_a_damaged_file_is_named_and_the_one_before_it_is_used(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    write_checkpoint(tmp_path / FOLDER, checkpoint(5))
    newest = write_checkpoint(tmp_path / FOLDER, checkpoint(10))
    damage(newest)
    named: list[Path] = []
    assert next(saved_steps(tmp_path, damaged=named.append)).step == 5
    assert named == [newest]


def test_a_half_written_file_of_a_killed_writer_is_passed_over(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / FOLDER, checkpoint(5))
    (tmp_path / FOLDER / "00000010.0123456789abcdef.tmp").write_bytes(b"half")
    assert next(saved_steps(tmp_path, damaged=refuse)).step == 5


def test_same_state_same_bytes(tmp_path: Path) -> None:
    first = write_checkpoint(tmp_path / "a", checkpoint(3))
    second = write_checkpoint(tmp_path / "b", checkpoint(3))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"cos\nsystem\n(S'true'\ntR."])
def test_a_foreign_file_is_refused_and_never_unpickled(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "00000005.0123456789abcdef.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="delete it"):
        read_checkpoint(path)
