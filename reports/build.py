"""Run folders in, report out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.spec import RunSpec
from benchmarks.store import write_json
from reports.archive import pack
from reports.claims import decide_claims
from reports.document import document, headline
from reports.figures import draw
from reports.readme import results, update_readme
from reports.runs import load
from reports.verdicts import Verdict
from sagc.errors import ConfigError

RESULTS, CLAIMS_FILE = "RESULTS.md", "claims.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was built."""

    verdicts: tuple[Verdict, ...]
    headline: str
    """Short Markdown: how many runs finished, and the verdicts at a glance."""
    files: tuple[Path, ...]
    """Everything written, the report first."""


def keep(
    run_folders: Sequence[Path], out: Path, planned: Sequence[RunSpec] | None, plan: Path, readme: Path | None
) -> Report:
    """Build the report into `out` beside the packed records, and put the results into a README.

    Args:
        run_folders: as for `build`; all must have ended.
        out: folder to keep them in.
        planned: as for `build`.
        plan: the reproduction's plan.json.
        readme: file with the two markers of `reports.readme`; None: no README is changed.

    Raises:
        ConfigError: as for `build` and `pack`, or if the README lacks its markers.
    """
    packed = pack(run_folders, plan, out)
    report = build(run_folders, out, planned)
    if readme is not None:
        link = Path(os.path.relpath(out / RESULTS, readme.parent)).as_posix()
        update_readme(readme, results(load(run_folders, planned), report.verdicts, link))
    return replace(report, files=(*report.files, *packed))


def build(run_folders: Sequence[Path], out: Path, planned: Sequence[RunSpec] | None = None) -> Report:
    """Decide every claim from records and write RESULTS.md, claims.json and the figures.

    Args:
        run_folders: one per run, finished or not.
        out: folder to write into; made if it is missing.
        planned: the runs that should be there; None: all found arms times all found seeds of each comparison.

    Raises:
        ConfigError: if there is nothing to report, two folders hold the same run, or `out` cannot be written.
        RecordError: if a record cannot be read; nothing is written then.
    """
    reproduction = load(run_folders, planned)
    verdicts = tuple(decide_claims(reproduction))
    try:
        out.mkdir(parents=True, exist_ok=True)
        figures = draw(reproduction.comparisons, out)
        write_json(out / CLAIMS_FILE, [asdict(verdict) for verdict in verdicts])
        (out / RESULTS).write_text(document(reproduction, verdicts, figures), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"out must be a folder that can be written, got {str(out)!r} ({error}); name another"
        ) from error
    names = (RESULTS, CLAIMS_FILE, *(name for name, _ in figures))
    return Report(
        verdicts=verdicts, headline=headline(reproduction, verdicts), files=tuple(out / name for name in names)
    )
