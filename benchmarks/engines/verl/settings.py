"""What a profile says about verl itself: the model, the machine, the data, and verl's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from sagc.checks import real, whole
from sagc.errors import ConfigError, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlEngineSettings:
    """The table `[engine_settings]` of a profile whose engine is verl.

    Raises:
        ConfigError: on a number that is none.
    """

    hardware: str
    """``cpu`` or ``gpu``."""
    gpus_per_node: int
    """On a CPU one logical device."""
    nodes: int = 1
    """More than one: start the process on a node of a Ray cluster that is already there."""
    model: str = ""
    """Hub name or folder; empty: the task's own warm start."""
    train_files: tuple[str, ...] = ()
    """Parquet files as `benchmarks.engines.verl.data` writes them; empty: made from the task."""
    evaluation_files: tuple[str, ...] = ()
    evaluation_temperature: float = 1.0
    max_prompt_tokens: int
    max_response_tokens: int
    save_every: int = -1
    """Training steps between checkpoints; -1: none but the last, where it is switched on at all."""
    start_limit_s: float = 900.0
    """Most seconds from the start of the process to its first word [ours]; then it is started once more."""
    gpu_memory_gb: int = 0
    """Least memory of each GPU; the preflight checks it."""
    disk_gb: int = 0
    """Least free space for checkpoints; the preflight checks it."""
    gpu_hours_per_run: float = 0.0
    """Estimate, shown by a dry run; 0 on a CPU."""
    overrides: tuple[str, ...] = ()
    """verl's own command line, ``key=value`` each; ``+`` before a key that its config tree does not have."""

    def __post_init__(self) -> None:
        if self.hardware not in ("cpu", "gpu"):
            raise unknown_name("engine_settings.hardware", self.hardware, ("cpu", "gpu"))
        for name in ("gpus_per_node", "nodes", "max_prompt_tokens", "max_response_tokens"):
            whole(f"engine_settings.{name}", getattr(self, name))
        for line in self.overrides:
            if "=" not in str(line):
                raise ConfigError(
                    f"engine_settings.overrides must be lines of key=value, got {line!r}; write e.g. "
                    "'actor_rollout_ref.rollout.name=vllm'"
                )
        real("engine_settings.evaluation_temperature", self.evaluation_temperature, "at least 0", lambda x: x >= 0)

    @property
    def devices(self) -> int:
        """GPUs of all nodes."""
        return self.gpus_per_node * self.nodes

    @classmethod
    def from_mapping(cls, table: Mapping[str, Any]) -> VerlEngineSettings:
        """The settings that a TOML table describes.

        Raises:
            ConfigError: on an unknown key (the nearest is offered), a missing one or a bad value.
        """
        known = {item.name: item for item in fields(cls)}
        for key in table:
            if key not in known:
                raise unknown_name("engine setting", key, known)
        missing = [
            name
            for name, item in known.items()
            if item.default is MISSING and item.default_factory is MISSING and name not in table
        ]
        if missing:
            raise ConfigError(
                f"engine_settings must have {', '.join(missing)}, got {', '.join(table) or 'none'}; "
                "add them to the profile"
            )
        values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in table.items()}
        return cls(**values)
