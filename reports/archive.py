"""A reproduction packed for keeping: its records in one file, the digests that another run of it can be held against.

    <folder>/records.tar.xz    every run's records and the plan, as they stand in a runs folder; no models
    <folder>/SHA256SUMS        digests of what one seed fixes; `sha256sum --check` in a runs folder compares

Timings and outcomes hold clocks, so they are in the archive and not among the digests.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.store import CONFIG, EVALUATIONS, OUTCOME, STEPS, TIMINGS
from sagc.errors import ConfigError

ARCHIVE, DIGESTS = "records.tar.xz", "SHA256SUMS"
KEPT = (CONFIG, STEPS, TIMINGS, EVALUATIONS, OUTCOME)
"""Files of a run that are packed."""
FIXED = (CONFIG, STEPS, EVALUATIONS)
"""Files that are byte-identical for one seed on one type of processor."""


def pack(run_folders: Sequence[Path], plan: Path, out: Path) -> tuple[Path, Path]:
    """Write the archive and the digests of `run_folders`, whose names are kept; the same records give the same bytes.

    Args:
        run_folders: runs that have ended.
        plan: the reproduction's plan.json, kept in a folder of its name.
        out: folder to write into; made if it is missing.

    Raises:
        ConfigError: if a run lacks a file, since a partial run must not pass for a whole one, or `out` cannot be
            written; nothing is written then.
    """
    folders = sorted(run_folders, key=lambda folder: folder.name)
    for folder in folders:
        if missing := [name for name in KEPT if not (folder / name).exists()]:
            raise ConfigError(f"runs must have ended, got {folder.name} without {missing[0]}; run it again first")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"out must be a folder that can be written, got {str(out)!r} ({error}); name another"
        ) from error
    with tarfile.open(out / ARCHIVE, "w:xz", preset=6) as archive:
        _add(archive, f"{plan.parent.name}/{plan.name}", plan.read_bytes())
        for folder in folders:
            for name in KEPT:
                _add(archive, f"{folder.name}/{name}", (folder / name).read_bytes())
    lines = [f"{_digest(folder / name)}  {folder.name}/{name}\n" for folder in folders for name in FIXED]
    (out / DIGESTS).write_text("".join(lines), encoding="utf-8")
    return out / ARCHIVE, out / DIGESTS


def unpack(archive: Path, into: Path) -> list[Path]:
    """Unpack an archive into a runs folder and return its run folders, in order of their names."""
    with tarfile.open(archive, "r:xz") as packed:
        packed.extractall(into, filter="data")  # refuses every name that would leave the folder
        names = sorted(packed.getnames())
    return [into / Path(name).parent for name in names if Path(name).name == CONFIG]


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)  # no time, owner or mode of this machine
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
