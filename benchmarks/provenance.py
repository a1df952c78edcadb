"""Where a result comes from: commit, packages, machine and command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sagc", "numpy", "torch", "transformers", "safetensors", "mlflow", "verl", "vllm", "trl", "openrlhf")
"""Packages whose version can change a result; one that is not installed is left out."""


def provenance() -> dict[str, Any]:
    """Everything that is the same for all runs of one command, as JSON."""
    return {
        **commit(ROOT),
        "packages": package_versions(),
        "python": platform.python_version(),
        "machine": machine(),
        "command": shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]),
    }


def commit(root: Path) -> dict[str, Any]:
    """The commit of the checkout at `root`, and whether it was changed since.

    Returns:
        ``commit`` and ``dirty``, both None with the reason in ``commit_reason`` where there is none: never a word
        that looks like a commit.
    """
    try:
        top = _git(root, "rev-parse", "--show-toplevel")
        if Path(top).resolve() != root.resolve():
            return _no_commit("the folder is not the root of a git checkout")
        return {"commit": _git(root, "rev-parse", "HEAD"), "dirty": bool(_git(root, "status", "--porcelain"))}
    except FileNotFoundError:
        return _no_commit("git is not installed")
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        return _no_commit(lines[0] if lines else f"git ended with {error.returncode}")


def _no_commit(reason: str) -> dict[str, Any]:
    return {"commit": None, "dirty": None, "commit_reason": reason}


def _git(root: Path, *arguments: str) -> str:
    # GIT_DIR and its kin would point git at another checkout, as they do inside a git hook
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout.strip()


def package_versions() -> dict[str, str]:
    """Version of each of `PACKAGES` that is installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def machine() -> dict[str, Any]:
    """The machine that a result was measured on, without its name."""
    return {
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
    }


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The processor's name; None where the system does not tell."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def moment() -> dict[str, Any]:
    """Now, in UTC, and the load averages of the machine."""
    return {"time": datetime.now(UTC).isoformat(timespec="seconds"), "load": list(os.getloadavg())}
