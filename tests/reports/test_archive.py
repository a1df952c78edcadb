from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from benchmarks.store import OUTCOME, read_run
from reports.archive import ARCHIVE, DIGESTS, FIXED, pack, unpack
from sagc.errors import ConfigError
from tests.reports.records import World, write

SMALL = World(arms=("static_8", "sagc"), algorithms=("grpo",), seeds=(0, 1))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "reproduction-test" / "plan.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return path


def test_what_is_packed_comes_back_and_the_same_records_give_the_same_bytes(tmp_path: Path, plan: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    archive, _ = pack(folders, plan, tmp_path / "a")
    back = unpack(archive, tmp_path / "back")
    assert [read_run(folder).steps for folder in back] == [read_run(folder).steps for folder in sorted(folders)]
    assert (tmp_path / "back" / plan.parent.name / plan.name).read_bytes() == plan.read_bytes()
    pack(list(reversed(folders)), plan, tmp_path / "b")
    for name in (ARCHIVE, DIGESTS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_digests_are_of_what_a_seed_fixes(tmp_path: Path, plan: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    _, digests = pack(folders, plan, tmp_path / "out")
    lines = [line.split("  ") for line in digests.read_text().splitlines()]
    assert len(lines) == len(folders) * len(FIXED)
    for digest, name in lines:
        assert hashlib.sha256((tmp_path / "runs" / name).read_bytes()).hexdigest() == digest


def test_a_run_that_has_not_ended_is_refused(tmp_path: Path, plan: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    (folders[0] / OUTCOME).unlink()
    with pytest.raises(ConfigError, match=folders[0].name):
        pack(folders, plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.xz", "w:xz") as archive:
        archive.addfile(tarfile.TarInfo("../evil"), io.BytesIO())
    with pytest.raises(tarfile.FilterError):
        unpack(tmp_path / "evil.tar.xz", tmp_path / "into")
