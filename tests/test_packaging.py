"""The wheel is the controller alone: it installs with numpy and nothing else, and imports nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROBE = """
import json, sys
import numpy  # what it loads is its own
before = set(sys.modules)
import sagc
controller = sagc.GroupSizeController(sagc.SagcConfig(candidates=(4, 8, 16, 32), budget=0.25, threshold=2.0))
controller.observe([[10, 10, 10, 10, 10, 10, 10, 90]] * 8)
loaded = {name.split(".")[0] for name in set(sys.modules) - before}
print(json.dumps({"file": sagc.__file__, "version": sagc.__version__, "loaded": sorted(loaded)}))
"""
# Each builds with the declared backend, fetched by pip, and fills a virtual environment.
pytestmark = pytest.mark.slow


def command(*arguments: str, cwd: Path = ROOT) -> str:
    ended = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_sagc_typed_and_licensed_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"sagc", f"sagc-{wheel.name.split('-')[1]}.dist-info"}
    assert "sagc/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    checkout = {str(path.relative_to(ROOT)) for path in (ROOT / "sagc").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == checkout


def test_it_imports_with_numpy_alone_and_loads_nothing_heavy(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    command(python, "-m", "pip", "install", "--quiet", str(wheel))
    rows = json.loads(command(python, "-m", "pip", "list", "--format", "json"))
    assert {row["name"] for row in rows} - {"pip", "setuptools"} == {"numpy", "sagc"}

    seen = json.loads(command(python, "-I", "-c", PROBE, cwd=tmp_path))
    assert Path(seen["file"]).is_relative_to(tmp_path)
    assert seen["version"] == wheel.name.split("-")[1]
    assert set(seen["loaded"]) <= sys.stdlib_module_names | {"sagc", "numpy"}
