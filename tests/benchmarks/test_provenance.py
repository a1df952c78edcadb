"""Where a result comes from is said, or it is said that it cannot be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.provenance import commit, cpu_model, package_versions, provenance


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_a_clean_checkout_has_a_commit_and_is_not_dirty(checkout: Path) -> None:
    assert commit(checkout) == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}


@pytest.mark.parametrize("name", ["file", "untracked"])
def test_a_changed_or_added_file_makes_it_dirty(checkout: Path, name: str) -> None:
    (checkout / name).write_text("b")
    assert commit(checkout)["dirty"] is True


def test_outside_git_the_commit_is_none_with_a_reason(tmp_path: Path) -> None:
    found = commit(tmp_path)
    assert found["commit"] is None
    assert found["dirty"] is None
    assert "git" in found["commit_reason"]


def test_a_checkout_without_a_commit_has_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    found = commit(tmp_path)
    assert found["commit"] is None
    assert found["commit_reason"]


def test_a_folder_inside_another_checkout_does_not_borrow_its_commit(checkout: Path) -> None:
    inside = checkout / "copy"
    inside.mkdir()
    assert commit(inside)["commit"] is None
    assert "not the root" in commit(inside)["commit_reason"]


def test_variables_of_a_git_hook_do_not_point_at_another_checkout(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(checkout))
    assert commit(tmp_path_factory.mktemp("elsewhere"))["commit"] is None


def test_without_git_the_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(tmp_path)["commit_reason"] == "git is not installed"


def test_packages_that_are_not_installed_are_left_out() -> None:
    versions = package_versions()
    assert "numpy" in versions
    assert "openrlhf" not in versions


def test_an_unknown_processor_is_none(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\n")
    assert cpu_model(cpuinfo) is None
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n")
    assert cpu_model(cpuinfo) == "Some CPU @ 2.0GHz"


def test_provenance_is_json() -> None:
    facts = provenance()
    assert json.loads(json.dumps(facts)) == facts
    assert {"commit", "dirty", "packages", "python", "machine", "command"} <= facts.keys()
