"""The verl process: how it is started, followed and stopped."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from sagc.errors import ConfigError

PYTHON_VARIABLE = "SAGC_VERL_PYTHON"
"""Names the interpreter of the verl environment; without it, the one that runs this where verl is installed in it."""
ROOT = Path(__file__).parents[3]
GRACE_S = 30.0
"""How long a process may take to end after it was asked to [ours]."""
LOG = "verl.log"
METRICS = "verl-metrics.jsonl"
_TRAINER = "benchmarks.engines.verl.trainer"
_CPU_PLATFORM = "benchmarks.engines.verl.cpu.platform"


def verl_python(environ: Mapping[str, str] = os.environ) -> str:
    """The interpreter that has verl.

    Raises:
        ConfigError: if none is named and this one has no verl, or the named one is not there.
    """
    named = environ.get(PYTHON_VARIABLE)
    if named is None:
        if importlib.util.find_spec("verl") is None:
            raise ConfigError(
                f"{PYTHON_VARIABLE} must name the Python of an environment with verl, got nothing; "
                'install one with pip install ".[verl]" -c constraints/verl-cpu.txt and set it'
            )
        return sys.executable
    found = shutil.which(named)
    if found is None:
        raise ConfigError(f"{PYTHON_VARIABLE} must name a Python, got {named!r}; give the path of its executable")
    return found


def child_environment(environ: Mapping[str, str], folder: Path, ray_folder: Path, hardware: str) -> dict[str, str]:
    """What the verl process finds in its environment.

    MLFLOW_* is taken out: the parent alone writes MLflow, and a leaked MLFLOW_RUN_ID would write into somebody's run.

    Args:
        environ: of the parent.
        folder: of the run.
        ray_folder: for Ray's sockets, whose paths must be short.
        hardware: ``cpu`` or ``gpu``.
    """
    env = {name: value for name, value in environ.items() if not name.startswith("MLFLOW_")}
    paths = [str(ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    env |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "VERL_USE_EXTERNAL_MODULES": _TRAINER,
        "VERL_FILE_LOGGER_PATH": str(folder / METRICS),
        "RAY_TMPDIR": str(ray_folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "HYDRA_FULL_ERROR": "1",
    }
    if hardware == "cpu":
        env |= {
            "VERL_USE_EXTERNAL_MODULES": f"{_CPU_PLATFORM},{_TRAINER}",
            "VERL_PLATFORM": "cpu",
            "VERL_ENGINE_DEVICE": "cuda",  # verl registers FSDP for accelerators only; its code is device-neutral
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
        }
    return env


class VerlProcess:
    """One verl process with everything that it starts.

    Args:
        python: interpreter of the verl environment.
        overrides: verl's command line.
        folder: of the run; its log goes there.
        hardware: ``cpu`` or ``gpu``.
    """

    def __init__(self, python: str, overrides: Sequence[str], folder: Path, hardware: str) -> None:
        self._ray_folder = Path(tempfile.mkdtemp(prefix="sagc-"))
        self._log = (folder / LOG).open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            [python, "-m", "verl.trainer.main_ppo", *overrides],
            env=child_environment(os.environ, folder, self._ray_folder, hardware),
            cwd=folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the parent's Ctrl-C is not the child's
            preexec_fn=_end_with_the_parent,
        )

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """End it, if it still runs, with all its children; give back what it held."""
        tree = self._tree()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)  # Ray's own clean-up runs
        _wait(tree, GRACE_S if tree else 0.0)
        for process in tree:
            if process.is_running():
                process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._ray_folder, ignore_errors=True)

    def _tree(self) -> list[psutil.Process]:
        """The process and its descendants; those of a dead process have been ended by Ray already."""
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def _end_with_the_parent() -> None:
    """Have the kernel end this process when its parent dies, however it dies (Linux)."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _wait(processes: Sequence[psutil.Process], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and any(_alive(process) for process in processes):
        time.sleep(0.1)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
