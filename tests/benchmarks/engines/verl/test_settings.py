from __future__ import annotations

from typing import Any

import pytest

from benchmarks.engines.verl.settings import VerlEngineSettings
from sagc.errors import ConfigError

TABLE: dict[str, Any] = {"hardware": "gpu", "gpus_per_node": 8, "max_prompt_tokens": 512, "max_response_tokens": 1024}


def test_the_defaults_are_one_node_and_no_checkpoints() -> None:
    settings = VerlEngineSettings.from_mapping(TABLE)
    assert (settings.devices, settings.save_every) == (8, -1)
    assert VerlEngineSettings.from_mapping({**TABLE, "nodes": 2}).devices == 16


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"hardwear": "gpu"}, "did you mean 'hardware'"),
        ({"hardware": "tpu"}, "engine_settings.hardware must be a known name, got 'tpu'"),
        ({"overrides": ["trainer.device"]}, "must be lines of key=value, got 'trainer.device'"),
        ({"nodes": 0}, "engine_settings.nodes must be a whole number from 1"),
        ({"evaluation_temperature": -1.0}, "evaluation_temperature must be a finite number at least 0"),
    ],
)
def test_bad_settings_say_what_to_do(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        VerlEngineSettings.from_mapping({**TABLE, **change})


def test_missing_settings_are_named() -> None:
    with pytest.raises(
        ConfigError, match="must have gpus_per_node, max_prompt_tokens, max_response_tokens, got hardware"
    ):
        VerlEngineSettings.from_mapping({"hardware": "cpu"})
