"""The committed reproduction: what README says of it, and fakes planted in copies of its records.

Each fake goes through `python -m benchmarks report`, in both directions for each claim, and must change exactly the
verdicts that hang on what it altered. Words are those of the committed reproduction: another one may have others.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.cli import main
from benchmarks.commands import Reports
from benchmarks.store import read_json
from reports import build, keep, sensitivity
from reports.archive import ARCHIVE, unpack
from reports.claims import BUDGET_AXES, decide_claims
from reports.readme import BEGIN, END, results, with_results
from reports.runs import load
from tests.reports import alterations as alter
from tests.reports.alterations import Alteration

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "reports" / "data" / "cpu"
Key = tuple[str, str, str, str]
"""(claim, task, algorithm, axis)."""
LEAD = "dapo - grpo"


@dataclass(frozen=True)
class Fake:
    """Alter the runs of an arm, and what must then read otherwise."""

    task: str
    algorithm: str
    arm: str
    alteration: Alteration
    flips: dict[Key, str]


def on(claim: str, algorithm: str, word: str, *axes: str, task: str = "steady") -> dict[Key, str]:
    return {(claim, task, algorithm, axis): word for axis in axes or BUDGET_AXES}


OFF_PROMPTS = tuple(axis for axis in BUDGET_AXES if axis != "prompts")
FAKES: dict[str, Fake] = {
    "C1 against: static 32 made cheap": Fake(
        "steady",
        "grpo",
        "static_32",
        alter.scale_cost(0.15),
        {
            **on("C1", "grpo", "contradicted", "prompts"),
            # made cheap it also gets further in the same modelled time
            **on("C2a", "grpo", "contradicted", "modelled_s"),
            **on("C2b", "grpo", "contradicted", "modelled_s"),
            **on("C2c", LEAD, "supported", "modelled_s"),
        },
    ),
    "C1 for: static 32 made dear": Fake(
        "steady", "grpo", "static_32", alter.scale_cost(4.0), on("C1", "grpo", "supported", "rollouts", "tokens")
    ),
    "C2a against: static 32 more accurate": Fake(
        "steady",
        "grpo",
        "static_32",
        alter.shift_accuracy(0.15),
        {
            **on("C2a", "grpo", "contradicted", *OFF_PROMPTS),
            **on("C2b", "grpo", "contradicted", *OFF_PROMPTS),  # it is the best static arm now
            **on("C2c", LEAD, "supported"),
        },
    ),
    "C2a for: static 32 less accurate": Fake(
        "steady",
        "dapo",
        "static_32",
        alter.shift_accuracy(-0.25),
        {
            **on("C2a", "dapo", "inconclusive", "prompts"),
            **on("C2a", "dapo", "supported", "tokens", "modelled_s"),
            **on("C2b", "dapo", "inconclusive", "prompts"),
        },
    ),
    "C2b and C2c: static 8 more accurate": Fake(
        "steady",
        "grpo",
        "static_8",
        alter.shift_accuracy(0.2),
        {**on("C2b", "grpo", "contradicted", *OFF_PROMPTS), **on("C2c", LEAD, "supported", *OFF_PROMPTS)},
    ),
    "C2 for: SAGC more accurate under DAPO": Fake(
        "steady",
        "dapo",
        "sagc",
        alter.shift_accuracy(0.25),
        {
            **on("C2a", "dapo", "inconclusive", "prompts"),
            **on("C2a", "dapo", "supported", "tokens", "modelled_s"),
            **on("C2b", "dapo", "inconclusive", "prompts"),
            **on("C2b", "dapo", "supported", "rollouts", "modelled_s"),
            **on("C2c", LEAD, "supported"),
            **on("C5", "dapo", "supported", "rollouts"),
        },
    ),
    "C2 against: SAGC less accurate under DAPO": Fake(
        "steady",
        "dapo",
        "sagc",
        alter.shift_accuracy(-0.25),
        {
            **on("C2a", "dapo", "contradicted", *OFF_PROMPTS),
            **on("C2b", "dapo", "contradicted", *OFF_PROMPTS),
            **on("C2c", LEAD, "contradicted"),
            **on("C5", "dapo", "contradicted", "rollouts"),
        },
    ),
    "C3 against: SAGC's outputs longer": Fake(
        "steady", "grpo", "sagc", alter.lengthen_outputs(5), on("C3", "grpo", "contradicted", "updates")
    ),
    "C3 for: SAGC's outputs cut": Fake(
        "steady", "grpo", "sagc", alter.lengthen_outputs(-6), on("C3", "grpo", "supported", "prompts", "updates")
    ),
    "C4 against: SAGC's rate up": Fake(
        "growing",
        "grpo",
        "sagc",
        alter.move_rate(0.1),
        on("C4", "grpo", "contradicted", "whole run", task="growing"),
    ),
    "C4 for: SAGC's rate down": Fake(
        "growing", "grpo", "sagc", alter.move_rate(-0.1), on("C4", "grpo", "supported", "whole run", task="growing")
    ),
    "C4: a price that never binds": Fake(
        "steady", "dapo", "sagc", alter.free_price(), on("C4", "dapo", "not decidable", "whole run")
    ),
    "C5 against: the shuffle more accurate": Fake(
        "growing",
        "grpo",
        "shuffled_sagc",
        alter.shift_accuracy(0.15),
        on("C5", "grpo", "contradicted", "rollouts", task="growing"),
    ),
    "C5 for: the shuffle less accurate": Fake(
        "growing",
        "grpo",
        "shuffled_sagc",
        alter.shift_accuracy(-0.15),
        on("C5", "grpo", "supported", "rollouts", task="growing"),
    ),
    "C6 against: SAGC's barriers longer": Fake(
        "steady", "grpo", "sagc", alter.stretch_barriers(1.5), on("C6", "grpo", "contradicted", "whole run")
    ),
    "C6 for: barriers of static 32 longer": Fake(
        "steady", "grpo", "static_32", alter.stretch_barriers(1.5), on("C6", "grpo", "supported", "whole run")
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed reproduction as a runs folder."""
    folder = tmp_path_factory.mktemp("reference")
    unpack(REFERENCE / ARCHIVE, folder)
    return folder


def verdicts(runs: Path, out: Path) -> dict[Key, str]:
    """What `python -m benchmarks report` says of a runs folder."""
    reports = Reports(build=build, keep=keep, sensitivity=sensitivity)
    assert main(["report", "--runs", str(runs), "--out", str(out)], reports=reports) == 0
    return {(v["claim"], v["task"], v["algorithm"], v["axis"]): v["verdict"] for v in read_json(out / "claims.json")}


def test_the_committed_report_follows_from_the_committed_records(runs: Path, tmp_path: Path) -> None:
    verdicts(runs, tmp_path)
    for name in ("RESULTS.md", "claims.json"):
        assert (tmp_path / name).read_bytes() == (REFERENCE / name).read_bytes()


def test_the_results_in_readme_are_those_of_the_committed_records(runs: Path) -> None:
    folders = sorted(path.parent for path in runs.glob("*/config.json"))
    reproduction = load(folders, None)
    link = (REFERENCE / "RESULTS.md").relative_to(ROOT).as_posix()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count(BEGIN) == readme.count(END) == 1
    assert readme == with_results(readme, results(reproduction, decide_claims(reproduction), link))


@pytest.mark.slow  # a whole report for each fake
@pytest.mark.parametrize("name", FAKES)
def test_a_fake_flips_exactly_what_hangs_on_it(runs: Path, tmp_path: Path, name: str) -> None:
    fake, copy = FAKES[name], tmp_path / "runs"
    copy.mkdir()
    altered = 0
    for folder in runs.iterdir():
        if folder.name.startswith(f"{fake.task}-{fake.algorithm}-{fake.arm}-"):
            fake.alteration(Path(shutil.copytree(folder, copy / folder.name)))
            altered += 1
        else:
            (copy / folder.name).symlink_to(folder)
    assert altered == 3
    before, after = verdicts(runs, tmp_path / "before"), verdicts(copy, tmp_path / "after")
    assert {key: after[key] for key in before if after[key] != before[key]} == fake.flips
