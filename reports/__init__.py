"""The report: verdicts, tables and figures from run folders.

    runs        read run folders, sort them into comparisons, say what budget they are matched at
    curves      one run over prompts, rollouts, tokens, updates and time
    facts       one run's stragglers, idle time, price and counts
    contrasts   seed-paired contrasts between arms
    statistics  intervals; coverage: how often they cover
    claims      the table of claims; evidence: what each measures; verdicts: the rule; margins.toml: the numbers
    hindsight   what could have been picked afterwards
    sensitivity the sweep of `benchmarks.sweep` as a table
    archive     a reproduction packed for keeping; readme: its results in README.md
    document    RESULTS.md from tables, verdict_tables, wording, provenance, figures

`build` is the whole way from run folders to files. No clock, no torch, no server: the same records give the same
report.
"""

from __future__ import annotations

from reports.build import Report, build, keep
from reports.sensitivity import sensitivity
from reports.verdicts import Verdict

__all__ = ["Report", "Verdict", "build", "keep", "sensitivity"]
