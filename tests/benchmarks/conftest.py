"""A MLflow store that is ready: creating its tables takes seconds, so it is done once and copied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.runs_folder import RunsFolder
from benchmarks.tracking import IGNORED, URI_VARIABLE, connect


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with MLflow's tables."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        for name in (URI_VARIABLE, *IGNORED):
            patch.delenv(name, raising=False)
        connect(RunsFolder(folder), "unused")
    return folder / "mlflow.db"


@pytest.fixture
def runs_folder(empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunsFolder:
    """A runs folder whose store has its tables, and no variable that names another."""
    for name in (URI_VARIABLE, *IGNORED):
        monkeypatch.delenv(name, raising=False)
    folder = RunsFolder(tmp_path / "runs")
    folder.path.mkdir()
    shutil.copy(empty_store, folder.path / "mlflow.db")
    return folder
