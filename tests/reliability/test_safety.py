"""Nothing that a file holds is run, and nothing is open to other machines."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import noxfile
from benchmarks.checkpoint import CheckpointError, read_checkpoint
from benchmarks.cursor import Cursor, cursor_path, read_cursor
from benchmarks.runs_folder import RunsFolder
from sagc.errors import ConfigError

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path for name in ("sagc", "baselines", "benchmarks", "reports") for path in (ROOT / name).rglob("*.py")
)
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.getoutput"}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def settings(call: ast.Call) -> dict[str | None, str]:
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_unpickles_evaluates_or_asks_a_shell(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & UNSAFE_MODULES
    for name, call in calls(tree):
        assert name not in UNSAFE_CALLS, f"line {call.lineno}"
        if name in ("torch.load", "load") and "torch" in imported:
            assert settings(call).get("weights_only") == "True", f"line {call.lineno}"
        if name in ("np.load", "numpy.load"):
            assert settings(call).get("allow_pickle", "False") == "False", f"line {call.lineno}"
        assert settings(call).get("shell", "False") == "False", f"line {call.lineno}"
        assert settings(call).get("trust_remote_code", "False") == "False", f"line {call.lineno}"


class Bomb:
    """Would leave a file behind if anybody unpickled it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_checkpoint_made_of_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    fallen = tmp_path / "fallen"
    path = tmp_path / "00000005.0123456789abcdef.safetensors"
    for content in (pickle.dumps(Bomb(fallen)), save({"a": np.ones(2)}, metadata={"state": "[" * 100_000})):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="delete it"):
            read_checkpoint(path)
    assert not fallen.exists()
    pickle.loads(pickle.dumps(Bomb(fallen)))  # the bomb is a real one
    assert fallen.exists()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "..", ".cache", "a/b", "a\nb", "", "x" * 300, "\0"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    folder = RunsFolder(tmp_path)
    for place in (folder.run, folder.log, folder.reproduction, folder.shown):
        if place == folder.reproduction and name in (".cache", ".."):
            continue  # `reproduction-..` is a plain name
        with pytest.raises(ConfigError, match="name must be"):
            place(name)


@pytest.mark.parametrize("text", ["", "[]", '{"store": 1}', '{"store": "x", "sent": {}}', "[" * 100_000])
def test_a_cursor_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    folder = RunsFolder(tmp_path)
    with folder.lock():
        path = cursor_path(folder, "x", "run")
        path.parent.mkdir()
        path.write_text(text)
        assert read_cursor(folder, "x", "run") == Cursor("x")


class RecordedSession:
    """Takes down what a nox session would run."""

    def __init__(self, *posargs: str) -> None:
        self.posargs = list(posargs)
        self.commands: list[tuple[str, ...]] = []
        self.said: list[str] = []

    def log(self, text: str) -> None:
        self.said.append(text)

    def run(self, *command: str, **_: Any) -> None:
        self.commands.append(command)

    def error(self, text: str) -> None:
        raise AssertionError(text)


@pytest.mark.parametrize("more", [(), ("--host", "0.0.0.0"), ("--host=0.0.0.0", "--port", "5001")])
def test_the_ui_listens_on_this_machine_alone_whatever_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    (tmp_path / "mlflow.db").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setattr(noxfile, "environment_python", lambda session, name: "python")
    session = RecordedSession(*more)
    noxfile.ui.func(session)
    (command,) = session.commands
    assert command[-2:] == ("--host", "127.0.0.1")  # the last one counts
    assert any("http://127.0.0.1:" in line for line in session.said)
