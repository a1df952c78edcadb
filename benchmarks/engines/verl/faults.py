"""Faults of verl 0.9.1 that would spoil a comparison, and where each is met; every run's record carries the table."""

from __future__ import annotations

FAULTS: dict[str, str] = {
    "a group of one is trained on its raw reward": "met: the trainer sets its advantage to 0 and counts it",
    "dynamic sampling keeps groups of one": "met: their advantage is 0; group size 1 is refused",
    "the overlong penalty has no floor": "met: the suite's own has one; verl settings that would need one are refused",
    "refills have no limit": "met: after max_refill_rounds a step filters no more, or ends the run as stalled",
    "rows are padded up to a multiple": "met: batch sizes that need it are refused; padding for failures is counted",
    "one metric that is no number loses MLflow's step": "met: it is left out, with a warning and a count",
    "a crashed run is FINISHED in MLflow": "met: the trainer ends it as FAILED; here the parent alone writes MLflow",
    "the loss of a fully masked batch is NaN": "named: verl skips that step; only rejection sampling masks all",
    "a failed rollout shrinks its group": "named: the group is trained with what it has; failures are counted",
    "the log file is truncated on resume": "met: records are a file of their own, which is appended to",
}
