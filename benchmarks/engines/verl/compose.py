"""Runs in the verl environment, on any machine: whether verl itself takes a command line.

    python -m benchmarks.engines.verl.compose < runs.jsonl > verdicts.jsonl

A line in is ``{"name": ..., "overrides": [...]}``, a line out ``{"name": ..., "error": ""}``. Each command line is
composed with verl's real Hydra tree, validated by verl's own validator, and read by `sagc`'s checks.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Sequence
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from sagc.integrations.verl_settings import read_settings


def composed(overrides: Sequence[str]) -> Any:
    """verl's whole config under these overrides; Hydra must be initialised."""
    return compose(config_name="ppo_trainer", overrides=list(overrides))


def verdict(overrides: Sequence[str]) -> str:
    """Why verl or `sagc` would refuse to start; empty if neither does."""
    try:
        config = composed(overrides)
        critic = need_critic(config)
        validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=critic)
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
        read_settings(plain, uses_critic=critic)
    except Exception as error:  # of any kind: that is the answer
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def main() -> None:
    """Answer every line of standard input."""
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        for line in sys.stdin:
            run = json.loads(line)
            with contextlib.redirect_stdout(io.StringIO()):  # the validator prints
                error = verdict(run["overrides"])
            print(json.dumps({"name": run["name"], "error": error}), flush=True)


if __name__ == "__main__":
    main()
