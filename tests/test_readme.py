from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import noxfile
from sagc import GroupSizeController

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_two_commands_stand_on_the_first_screen() -> None:
    first = "\n".join(README.splitlines()[:20])
    assert "    python -m pip install nox && nox -s reproduce " in first
    assert "    nox -s tests\n" in first


def test_the_example_loop_runs_and_reacts_to_stragglers() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    shapes: list[tuple[int, int]] = []

    def train_one_step(num_prompts: int, group_size: int) -> list[list[int]]:
        shapes.append((num_prompts, group_size))
        return [[10] * (group_size - 1) + [100]] * num_prompts

    names: dict[str, Any] = {"num_steps": 6, "rollouts_per_step": 64, "train_one_step": train_one_step}
    exec(example, names)
    assert all(prompts * size == 64 for prompts, size in shapes)
    assert shapes[-1][1] < shapes[0][1]
    controller = names["controller"]
    restored = GroupSizeController(controller.config)
    restored.load_state_dict(controller.state_dict())
    assert restored.group_size == controller.group_size


def test_the_layout_names_every_folder_of_the_tree() -> None:
    (tree,) = re.findall(r"## Layout\n\n```\n(.*?)```", README, re.DOTALL)
    listed: set[Path] = set()
    parent = Path()
    for line in tree.splitlines():
        name = line.split()[0].rstrip("/")
        parent = parent if line.startswith(" ") else Path(name)
        listed.add(parent / name if line.startswith(" ") else parent)
    packages = {
        path.parent.relative_to(ROOT)
        for top in ("sagc", "baselines", "benchmarks", "reports")
        for path in (ROOT / top).rglob("__init__.py")
    }
    assert {path for path in packages if len(path.parts) <= 2} <= listed
    assert [str(path) for path in listed if not (ROOT / path).is_dir()] == []


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md"])
def test_every_session_that_is_named_exists(file: str) -> None:
    named = set(re.findall(r"nox -s (\w+)", (ROOT / file).read_text(encoding="utf-8")))
    assert named
    assert [name for name in sorted(named) if not hasattr(noxfile, name)] == []


def test_links_to_files_lead_somewhere() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    assert linked
    assert [name for name in linked if not (ROOT / name).exists()] == []
