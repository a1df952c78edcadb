"""Where the runs of a report come from, and what in that should make a reader careful."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from benchmarks.engines import CHECKPOINTS
from reports.markdown import table
from reports.runs import Run

UNKNOWN = "not recorded"


def section(runs: Sequence[Run]) -> str:
    """Warnings, then what the runs were made with; nothing here is read from a clock or from this machine."""
    facts: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("commit", _commit),
        ("python", lambda source: str(source.get("python", UNKNOWN))),
        ("packages", lambda source: _pairs(source.get("packages"))),
        ("machine", lambda source: _pairs(source.get("machine"))),
        ("command", lambda source: str(source.get("command", UNKNOWN))),
    ]
    rows = []
    for name, read in facts:
        for value, count in sorted(Counter(value for run in runs for value in set(map(read, _sources(run)))).items()):
            rows.append([name, value, str(count)])
    sources = list(chain.from_iterable(map(_sources, runs)))
    times = sorted(source[moment]["time"] for source in sources for moment in ("started", "ended") if moment in source)
    if times:
        rows.append(
            ["first start, last end", f"{times[0]} to {times[-1]}", str(sum(bool(_sources(run)) for run in runs))]
        )
    resumed = Counter(run.data.config["spec"]["engine"] for run in runs if _earlier(run))
    rows += [
        ["interrupted, went on from a checkpoint", engine, str(count)] for engine, count in sorted(resumed.items())
    ]
    loads = [timing.load_average for run in runs for timing in run.data.timings]
    if loads:
        rows.append(["load average over all steps", f"{min(loads):.1f} to {max(loads):.1f}", str(len(runs))])
    warned = "".join(f"**Warning: {text}**\n\n" for text in warnings(runs))
    return warned + table(["what", "value", "runs"], rows, left=2)


def one_line(runs: Sequence[Run]) -> str:
    """Runs, seeds, commit and machine in one sentence."""
    sources = list(chain.from_iterable(map(_sources, runs)))
    commits = ", ".join(sorted({_commit(source) for source in sources})) or UNKNOWN
    machines = {str((source.get("machine") or {}).get("cpu", UNKNOWN)) for source in sources}
    seeds = sorted({run.key.seed for run in runs})
    return f"{len(runs)} runs, seeds {', '.join(map(str, seeds))}, commit {commits}, on {', '.join(sorted(machines))}."


def warnings(runs: Sequence[Run]) -> list[str]:
    """Why the runs may not belong together, or may not be reproducible."""
    sources = list(chain.from_iterable(map(_sources, runs)))
    commits = {str(source.get("commit")) for source in sources}
    found = []
    if len(commits) > 1:
        found.append(f"the runs come from {len(commits)} commits, so their differences may be differences of code.")
    if any(source.get("commit") is None for source in sources):
        found.append("some runs do not know their commit, so nobody can get their code back.")
    if dirty := sum(any(source.get("dirty") for source in _sources(run)) for run in runs):
        found.append(f"{dirty} of {len(runs)} runs come from a checkout with uncommitted changes.")
    packages = {json.dumps(source.get("packages"), sort_keys=True) for source in sources}
    if len(packages) > 1:
        found.append("the runs were made with different package versions.")
    machines = {json.dumps(source.get("machine"), sort_keys=True) for source in sources}
    if len(machines) > 1:
        found.append("the runs were made on different machines: compare modelled time, not measured time.")
    inexact = [run for run in runs if _earlier(run) and run.data.config["spec"]["engine"] in CHECKPOINTS]
    if inexact:
        found.append(
            f"{len(inexact)} of {len(runs)} runs were interrupted and went on from a checkpoint of their framework, "
            "which draws other rollouts than it would have without the interruption."
        )
    return found


def _sources(run: Run) -> list[dict[str, Any]]:
    """The provenance of every process that has worked on a run; none without an outcome."""
    return [*_earlier(run), run.data.outcome.provenance] if run.data.outcome else []


def _earlier(run: Run) -> list[dict[str, Any]]:
    """The processes that were interrupted."""
    provenance = run.data.outcome.provenance if run.data.outcome else {}
    earlier: list[dict[str, Any]] = provenance.get("earlier_sittings", [])
    return earlier


def _commit(source: dict[str, Any]) -> str:
    commit = source.get("commit")
    if commit is None:
        return f"{UNKNOWN}: {source.get('commit_reason', 'no reason given')}"
    return f"{commit}{' with uncommitted changes' if source.get('dirty') else ''}"


def _pairs(data: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(data.items())) if data else UNKNOWN
