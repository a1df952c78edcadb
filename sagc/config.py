"""The controller's settings, validated once, so that no later code has to doubt them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from sagc.checks import known_name, real, whole
from sagc.errors import ConfigError, unknown_name
from sagc.risk import RISK_MODELS, Prior
from sagc.stragglers import REFERENCES, Reference
from sagc.types import JsonDict
from sagc.utility import UTILITIES


@dataclass(frozen=True, slots=True, kw_only=True)
class SagcConfig:
    """Settings of the reference reading of SAGC (arXiv 2606.02218, whose numbers and equations are not public).

    The first three belong to the task and have no default. Every default below is [ours]: a sensitivity sweep
    covers it.

    Raises:
        ConfigError: on any setting that cannot be honoured, with the cure.

    Degenerate cases: a candidate of 1 is refused, because a group of one has no advantage; so is a candidate of
    2 with threshold >= 2 and reference ``"group"``, because such a group can never straggle.
    """

    candidates: tuple[int, ...]
    """g_1 < ... < g_K: group sizes to choose from; at least two, each >= 2; any order is taken, sorted is stored."""
    budget: float
    """delta in (0, 1): the straggler rate to hold in the long run."""
    threshold: float
    """tau > 1: a rollout of at least tau times its reference is a hit."""
    reference: Reference = "group"
    """Whose median is the reference: ``"group"`` (the source's reading) or ``"step"``."""
    risk_model: str = "per_rollout"  # [ours]
    """A key of `sagc.risk.RISK_MODELS`."""
    prior_hits: float = 2.0  # [ours]
    """Hits among `prior_rollouts` believed before any step, > 0."""
    prior_rollouts: float = 40.0  # [ours]
    """Weight of the prior in rollouts, > prior_hits."""
    forgetting: float = 0.9  # [ours]
    """gamma in [0, 1]: weight that a step's counts keep per later step (0.9: half after 6.6 steps)."""
    utility: str = "log"  # [ours]
    """A key of `sagc.utility.UTILITIES`."""
    dual_step_size: float = 0.5  # [ours]: 0.05 leaves the rate at .37 in 200 steps
    """eta > 0."""
    initial_price: float = 1.0  # [ours]: 0 starts every run at the largest G
    """lambda_1 >= 0."""
    initial_group_size: int = 8  # [ours]
    """G_1, one of the candidates."""
    hysteresis: float = 0.05  # [ours]
    """Gain in utility units that a change of G must exceed, >= 0."""
    min_dwell: int = 1  # [ours]
    """Steps to run at a group size before it may change, >= 1."""
    max_notches: int | None = None  # [ours]
    """Most candidates that one change may move by, >= 1; None: no limit."""
    infeasible_patience: int = 20  # [ours]
    """Steps with a rising price at the smallest candidate before the budget is called infeasible, >= 1."""
    rollouts_per_step: int | None = None
    """When given, every candidate must divide it (the effective batch is kept); None: not checked."""

    def __post_init__(self) -> None:
        self._set(candidates=_candidates(self.candidates))
        self._check_numbers()
        for kind, name, known in (
            ("reference", self.reference, REFERENCES),
            ("risk_model", self.risk_model, RISK_MODELS),
            ("utility", self.utility, UTILITIES),
        ):
            known_name(kind, name, known)
        self._check_together()

    def _check_numbers(self) -> None:
        self._set(
            budget=real("budget", self.budget, "inside (0, 1)", lambda x: 0 < x < 1),
            threshold=real("threshold", self.threshold, "above 1", lambda x: x > 1),
            prior_hits=real("prior_hits", self.prior_hits, "above 0", lambda x: x > 0),
            prior_rollouts=real("prior_rollouts", self.prior_rollouts, "above 0", lambda x: x > 0),
            forgetting=real("forgetting", self.forgetting, "in [0, 1]", lambda x: 0 <= x <= 1),
            dual_step_size=real("dual_step_size", self.dual_step_size, "above 0", lambda x: x > 0),
            initial_price=real("initial_price", self.initial_price, "at least 0", lambda x: x >= 0),
            hysteresis=real("hysteresis", self.hysteresis, "at least 0", lambda x: x >= 0),
            initial_group_size=whole("initial_group_size", self.initial_group_size),
            min_dwell=whole("min_dwell", self.min_dwell),
            infeasible_patience=whole("infeasible_patience", self.infeasible_patience),
        )
        for name in ("max_notches", "rollouts_per_step"):
            if getattr(self, name) is not None:
                self._set(**{name: whole(name, getattr(self, name))})

    def _check_together(self) -> None:
        """The rules that tie two settings together."""
        if self.prior_rollouts <= self.prior_hits:
            raise ConfigError(
                f"prior_rollouts must be above prior_hits ({self.prior_hits!r}), got {self.prior_rollouts!r}; "
                "the prior is hits among rollouts"
            )
        if self.initial_group_size not in self.candidates:
            raise ConfigError(
                f"initial_group_size must be one of the candidates {self.candidates}, "
                f"got {self.initial_group_size!r}; choose one of them"
            )
        if 2 in self.candidates and self.threshold >= 2 and self.reference == "group":
            raise ConfigError(
                f"candidates must be above 2 with threshold >= 2 and reference 'group', got {self.candidates} with "
                f"threshold {self.threshold!r}; the longer of two positive lengths is below twice their median "
                "(their mean), so a group of two can never straggle and the controller would only see it as free: "
                "drop the 2, set threshold below 2, or use reference 'step'"
            )
        if self.rollouts_per_step is None:
            return
        odd = [size for size in self.candidates if self.rollouts_per_step % size]
        if odd:
            nearest = math.lcm(*self.candidates)
            nearest *= max(1, round(self.rollouts_per_step / nearest))
            raise ConfigError(
                f"candidates must each divide rollouts_per_step ({self.rollouts_per_step}), got {odd} that do not; "
                f"drop them or set rollouts_per_step to {nearest}, which all of {self.candidates} divide"
            )

    def _set(self, **values: Any) -> None:
        """Store the canonical form of fields; the dataclass is frozen for everyone else."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> SagcConfig:
        """The config that a TOML table or JSON object describes.

        Raises:
            ConfigError: on an unknown key (the nearest one is offered), a missing one, or a bad value.
        """
        known = [field.name for field in fields(cls)]
        for key in mapping:
            if key not in known:
                raise unknown_name("setting", key, known)
        missing = [field.name for field in fields(cls) if field.default is MISSING and field.name not in mapping]
        if missing:
            raise ConfigError(
                f"settings must include {', '.join(missing)}, got {', '.join(mapping) or 'none'}; "
                "they belong to the task and have no default"
            )
        return cls(**mapping)

    def to_json(self) -> JsonDict:
        """Every setting; `from_mapping` of it gives an equal config."""
        return {**asdict(self), "candidates": list(self.candidates)}

    @property
    def fingerprint(self) -> str:
        """16 hex digits over every setting: a saved state names the config it belongs to."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def prior(self) -> Prior:
        """The prior of the risk posterior."""
        return Prior(hits=self.prior_hits, rollouts=self.prior_rollouts)


def _candidates(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"candidates must be a list of group sizes, got {value!r}; write e.g. [4, 8, 16, 32]")
    sizes = tuple(sorted(whole("each candidate", size) for size in value))
    if len(sizes) < 2:
        raise ConfigError(
            f"candidates must hold at least two group sizes, got {value!r}; to keep one size use StaticPolicy"
        )
    if len(set(sizes)) < len(sizes):
        raise ConfigError(f"candidates must be distinct, got {value!r}; name each group size once")
    if sizes[0] == 1:
        raise ConfigError(
            f"candidates must be at least 2, got {value!r}; a group of one has no advantage to learn from: drop the 1"
        )
    return sizes
