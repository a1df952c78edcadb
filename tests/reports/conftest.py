from __future__ import annotations

from pathlib import Path

import pytest

from tests.reports.records import World, write


@pytest.fixture(scope="session")
def favourable(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[Path]]:
    """Records in which the method does well."""
    world = World(
        accuracy={"sagc": 0.64, "shuffled_sagc": 0.58},
        dapo_lead=0.05,
        output_length={"sagc": 20.0},
    )
    return world, write(tmp_path_factory.mktemp("favourable"), world)


@pytest.fixture(scope="session")
def unfavourable(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[Path]]:
    """Records in which the method does badly, wherever it can."""
    world = World(
        accuracy={"sagc": 0.50, "static_32": 0.62, "shuffled_sagc": 0.54},
        dapo_lead=-0.05,
        output_length={"sagc": 24.0},
        rate={**World().rate, "sagc": 0.40},
        cost={"static_32": 0.4},
    )
    return world, write(tmp_path_factory.mktemp("unfavourable"), world)


@pytest.fixture(scope="session")
def equal(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[Path]]:
    """Records in which all arms are the same but for the noise of their seeds."""
    world = World()
    return world, write(tmp_path_factory.mktemp("equal"), world)
