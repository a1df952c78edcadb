"""The real command line in processes of its own, and the run that nothing has interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.runs_folder import RunsFolder
from benchmarks.store import CONFIG, EVALUATIONS, STEPS
from benchmarks.tracking import IGNORED, URI_VARIABLE, connect

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600.0
"""A loaded machine is no defect."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder is marked: as `soak` where it says so, else as `reliability`."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("soak") is None:
            item.add_marker("reliability")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    text: str


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder whose MLflow store has its tables; they take seconds to make."""
    folder = tmp_path_factory.mktemp("ready")
    with pytest.MonkeyPatch.context() as patch:
        for name in (URI_VARIABLE, *IGNORED):
            patch.delenv(name, raising=False)
        connect(RunsFolder(folder), "unused")
    return folder


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warm start that every real run begins with; built by the first command that needs it."""
    return tmp_path_factory.mktemp("warm")


def fresh(path: Path, ready: Path, warm: Path | None = None) -> RunsFolder:
    """A runs folder of its own."""
    folder = RunsFolder(path)
    folder.path.mkdir()
    shutil.copy(ready / "mlflow.db", folder.path / "mlflow.db")
    if warm is not None:
        folder.cache.symlink_to(warm)
    return folder


def command_line(*arguments: str, module: str = "benchmarks") -> subprocess.Popen[str]:
    """Start `python -m module` as the head of its own process group, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
    )


def wait_for(process: subprocess.Popen[str]) -> Ended:
    """The end of a command; whatever it leaves behind is ended too."""
    try:
        text, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        end_group(process)
    return Ended(process.returncode, text)


def end_group(process: subprocess.Popen[str]) -> None:
    """SIGKILL to every process of a command."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`command_line`, with an end to whatever a failed test leaves running."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, module: str = "benchmarks") -> subprocess.Popen[str]:
        started.append(command_line(*arguments, module=module))
        return started[-1]

    yield begin
    for process in started:
        end_group(process)
        if process.stdout is not None:
            process.stdout.close()


def fixed_bytes(folder: RunsFolder) -> dict[str, bytes]:
    """Every record file that one seed fixes, by run and name."""
    return {
        f"{run.name}/{name}": (run / name).read_bytes()
        for run in folder.runs()
        for name in (CONFIG, STEPS, EVALUATIONS)
    }
