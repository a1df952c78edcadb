"""The sensitivity sweep as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.sweep import REPEATS, SweepRow
from reports.markdown import NONE, table


def sensitivity(rows: Sequence[SweepRow]) -> str:
    """What each setting of a sweep does to SAGC.

    Args:
        rows: as `benchmarks.sweep.sweep` gives them.
    """
    cells = [
        [
            row.setting,
            f"{row.straggler_rate:.3f}",
            f"{row.straggler_rate - row.budget:+.3f}",
            f"{row.mean_group_size:.2f}",
            f"{row.utility:.3f}",
            NONE if row.mixture_lead is None else f"{row.mixture_lead:+.3f}",
            f"{row.switches_per_step:.2f}",
            f"{row.binding_share:.2f}",
        ]
        for row in rows
    ]
    headers = ["setting", "rate", "rate - budget", "mean G", "utility", "over mixture", "switches a step", "binds"]
    return f"{INTRO}\n{table(headers, cells)}"


INTRO = f"""\
# Sensitivity of SAGC

One setting at a time, replayed on recorded rollout lengths, mean over the runs and {REPEATS} draws of each; nothing is
trained. *Utility* is that of the recorded settings in every row. *Over mixture*: utility minus that of the best mixture
of static candidates at no higher straggler rate (`-`: every candidate has a higher rate). *Binds*: share of steps under
a price above 0.
"""
