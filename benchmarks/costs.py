"""Modelled time: what a run would cost on one fixed machine, free of noise and the same everywhere."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

COSTS = Path(__file__).with_name("costs.toml")


def modelled_seconds(decode_steps: float, row_steps: float, trained_tokens: float) -> float:
    """Seconds = (2.27 ms x decode steps + 0.0266 ms x row-steps + 0.11 ms x trained tokens) / 1000.

    Args:
        decode_steps: decode steps of all barriers, 0 or more.
        row_steps: rows decoded, summed over decode steps, 0 or more.
        trained_tokens: tokens of trained rollouts with a non-zero advantage, 0 or more.

    Returns:
        Seconds of rollout and update; prefill, reward and controller are not in the model.
    """
    cost = _constants()
    milliseconds = (
        cost["decode_step_ms"] * decode_steps
        + cost["row_step_ms"] * row_steps
        + cost["trained_token_ms"] * trained_tokens
    )
    return float(milliseconds / 1e3)


def expected_cpu_seconds(engine: str, rollouts: float, responses: float) -> float | None:
    """A guess of the process CPU-seconds of a run before it runs; None for an engine that was never measured.

    Args:
        engine: name of the engine.
        rollouts: that it will train on.
        responses: sampled in its evaluations.
    """
    cost = _constants()["expected"].get(engine)
    return None if cost is None else float(cost["rollout_ms"] * rollouts + cost["response_ms"] * responses) / 1e3


@cache
def _constants() -> dict[str, Any]:
    with COSTS.open("rb") as file:
        return tomllib.load(file)
