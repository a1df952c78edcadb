"""How samples are drawn: named protocols, and the seed of each sample."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from sagc.errors import ConfigError, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of one set's samples."""

    temperature: float
    """0 takes the likeliest token."""
    top_p: float
    """Share of the probability that the likeliest tokens kept hold together, in (0, 1]."""
    max_tokens: int
    """Most tokens of a completion."""
    samples: int
    """Completions per problem, n."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature must be 0 or more, got {self.temperature!r}; 0 takes the likeliest token")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, got {self.top_p!r}; 1 keeps every token")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens must be at least 1, got {self.max_tokens!r}; leave room for an answer")
        if self.samples < 1:
            raise ConfigError(f"samples must be at least 1, got {self.samples!r}; ask for a completion")
        if self.temperature == 0 and self.samples > 1:
            raise ConfigError(
                f"samples must be 1 at temperature 0, got {self.samples!r}; repeats would all be the same"
            )


PROTOCOLS: dict[str, Sampling] = {
    # DeepSeek-R1's settings, which open-r1 and Qwen3 (thinking) share; 16 samples [ours]: +-1.5 points on AIME from
    # run to run, against 6 to 9 from problem to problem. R1 itself reports 64 on AIME.
    "r1": Sampling(temperature=0.6, top_p=0.95, max_tokens=32768, samples=16),
    # DAPO's and verl's validation settings.
    "dapo": Sampling(temperature=1.0, top_p=0.7, max_tokens=20480, samples=32),
    # Qwen2.5-Math's: one greedy answer.
    "greedy": Sampling(temperature=0.0, top_p=1.0, max_tokens=8192, samples=1),
    # [ours]: how training samples, with room for the longest response of every task.
    "chain": Sampling(temperature=1.0, top_p=1.0, max_tokens=160, samples=4),
    # [ours]: what the toy sets need, on a CPU.
    "toy": Sampling(temperature=0.6, top_p=0.95, max_tokens=32, samples=4),
}
"""Name -> settings."""


def settings(protocol: str, **changes: Any) -> Sampling:
    """The settings of a protocol, with those of `changes` that are not None in their place.

    Raises:
        ConfigError: on an unknown protocol or a setting out of range.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    return replace(PROTOCOLS[protocol], **{name: value for name, value in changes.items() if value is not None})


def sample_seed(run_seed: int, set_name: str, problem_id: str, sample: int) -> int:
    """The seed of one sample, 0 ... 2**63 - 1.

    A hash of all four, so neighbouring runs, problems and samples share nothing. (Engines that count up from a run
    seed give sample 1 of run 0 and sample 0 of run 1 the same completion.)
    """
    digest = hashlib.sha256(f"{run_seed}|{set_name}|{problem_id}|{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
