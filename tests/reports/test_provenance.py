from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.store import OUTCOME, read_outcome, write_outcome
from reports.provenance import section, warnings
from reports.runs import Run, load
from tests.reports.records import World, write

WORLD = World(arms=("static_8", "sagc"), algorithms=("grpo",), seeds=(0,))


def runs(folder: Path, **changed: Any) -> list[Run]:
    """Two runs, the second with other provenance."""
    folders = write(folder, WORLD)
    outcome = read_outcome(folders[1])
    assert outcome is not None
    write_outcome(folders[1], replace(outcome, provenance={**outcome.provenance, **changed}))
    return list(load(folders).runs.values())


def test_runs_of_one_clean_commit_need_no_warning(tmp_path: Path) -> None:
    found = runs(tmp_path)
    assert warnings(found) == []
    text = section(found)
    assert "0123456789abcdef0123456789abcdef01234567" in text
    assert "numpy 2.4.6, torch 2.13.0" in text
    assert "load average over all steps | 1.5 to 1.5" in text
    assert "2026-11-29T10:00:00+00:00 to 2026-11-29T10:00:30+00:00" in text


@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        ({"commit": "f" * 40}, "the runs come from 2 commits"),
        ({"dirty": True}, "1 of 2 runs come from a checkout with uncommitted changes"),
        ({"commit": None, "dirty": None, "commit_reason": "git is not installed"}, "do not know their commit"),
        ({"packages": {"numpy": "1.26.0"}}, "different package versions"),
        ({"machine": {"cpu": "another"}}, "different machines: compare modelled time"),
    ],
)
def test_what_should_make_a_reader_careful_is_said(tmp_path: Path, changed: dict[str, Any], warning: str) -> None:
    found = runs(tmp_path, **changed)
    assert any(warning in text for text in warnings(found))
    assert "**Warning: " in section(found)


def test_a_commit_that_is_not_known_says_why(tmp_path: Path) -> None:
    text = section(runs(tmp_path, commit=None, commit_reason="git is not installed"))
    assert "not recorded: git is not installed" in text


def test_a_run_without_an_outcome_has_no_provenance_and_does_no_harm(tmp_path: Path) -> None:
    folders = write(tmp_path, WORLD)
    (folders[0] / OUTCOME).unlink()
    assert warnings(list(load(folders).runs.values())) == []


@pytest.mark.parametrize("engine", ["torch_cpu", "verl"])
def test_an_interrupted_run_says_so_and_brings_what_it_was_first_made_with(tmp_path: Path, engine: str) -> None:
    earlier: dict[str, Any] = {"commit": "e" * 40, "packages": {}, "machine": {}, "resumed_at": None}
    found = runs(tmp_path, earlier_sittings=[earlier], resumed_at=3)
    for run in found:
        run.data.config["spec"]["engine"] = engine
    text = section(found)
    assert f"interrupted, went on from a checkpoint | {engine} | 1" in " ".join(text.split())
    assert "the runs come from 2 commits" in text
    assert text.count("e" * 40) == 1
    assert ("1 of 2 runs were interrupted and went on from a checkpoint of their framework" in text) == (
        engine == "verl"
    )
