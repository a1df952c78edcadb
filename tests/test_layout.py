"""The tree keeps its promises: one-way imports, numpy alone in sagc, readable modules, tests that mirror it."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("sagc", "baselines", "benchmarks", "reports")
LINTER = "from importlinter.cli import lint_imports_command; lint_imports_command()"
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module)


def test_sagc_imports_numpy_and_the_standard_library_alone() -> None:
    allowed = sys.stdlib_module_names | {"numpy", "sagc"}
    core = [path for path in MODULES if path.is_relative_to(ROOT / "sagc") and path.parent.name != "integrations"]
    assert len(core) > 5
    foreign = [(path.name, name) for path in core for name in imported(path) if name.split(".")[0] not in allowed]
    assert foreign == []


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    # From a copy, whose packages shadow the installed ones because the linter puts its folder first on the path.
    command = [sys.executable, "-c", LINTER, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def copied_tree(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "data"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_import_contract_holds(copied_tree: Path) -> None:
    ended = lint_imports(copied_tree)
    assert ended.returncode == 0, ended.stdout
    assert "0 broken" in ended.stdout


def test_every_contract_is_broken_by_a_file_that_violates_it(copied_tree: Path) -> None:
    violations = {
        "sagc/violation.py": "import baselines.arms, torch, mlflow, matplotlib, datasets, sagc.integrations",
        "baselines/violation.py": "import benchmarks.spec, verl",
        "benchmarks/violation.py": "def late() -> None:\n    import reports",
    }
    for name, text in violations.items():
        (copied_tree / name).write_text(text + "\n")
    ended = lint_imports(copied_tree)
    assert ended.returncode == 1
    assert "0 kept" in ended.stdout
    for lower, upper in (("sagc", "baselines.arms"), ("baselines", "benchmarks.spec"), ("benchmarks", "reports")):
        assert f"{lower}.violation -> {upper}" in ended.stdout


@pytest.mark.parametrize(
    ("package", "most"), [("sagc", 250), ("baselines", 350), ("benchmarks", 350), ("reports", 350)]
)
def test_modules_stay_readable_in_one_sitting(package: str, most: int) -> None:
    paths = [path for path in MODULES if path.is_relative_to(ROOT / package)]
    long = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {name: lines for name, lines in long.items() if lines > most} == {}


def test_folders_of_packages_are_packages() -> None:
    modules = [path for path in MODULES if not path.name.startswith("bench_")]  # pytest files, as tests are
    assert [str(path) for path in modules if not (path.parent / "__init__.py").exists()] == []


def test_tests_mirror_the_tree() -> None:
    tests = ROOT / "tests"
    mirrored = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    mirrored.remove(Path("reliability"))  # breaks the whole, not one of its modules
    mirrored.remove(Path("verl"))  # what needs verl is tested in an environment of its own, under fewer conftests
    assert [str(folder) for folder in mirrored if not (ROOT / folder).is_dir()] == []
