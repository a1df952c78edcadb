from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.store import CONFIG, OUTCOME, RecordError, read_outcome, write_outcome
from benchmarks.sweep import SweepRow
from reports import Report, build
from reports.claims import CLAIMS
from reports.sensitivity import sensitivity
from sagc.errors import ConfigError
from tests.reports.records import World, plan, write

Planted = tuple[World, list[Path]]
Built = tuple[Report, str]
"""A report and its text."""
SMALL = World(arms=("static_8", "sagc", "shuffled_sagc"), algorithms=("grpo",))


@pytest.fixture(scope="module")
def built_equal(equal: Planted, tmp_path_factory: pytest.TempPathFactory) -> Built:
    world, folders = equal
    out = tmp_path_factory.mktemp("equal_report")
    return build(folders, out, plan(world)), results(out)


@pytest.fixture(scope="module")
def built_unfavourable(unfavourable: Planted, tmp_path_factory: pytest.TempPathFactory) -> Built:
    world, folders = unfavourable
    out = tmp_path_factory.mktemp("out") / "deep" / "unfavourable_report"
    return build(folders, out, plan(world)), results(out)


def results(folder: Path) -> str:
    return (folder / "RESULTS.md").read_text(encoding="utf-8")


def part(text: str, title: str) -> str:
    """One section of the report."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def test_the_report_is_written_with_its_figures_and_verdicts(built_unfavourable: Built) -> None:
    report, text = built_unfavourable
    assert [file.name for file in report.files] == [
        "RESULTS.md",
        "claims.json",
        "group_size_and_price.png",
        "accuracy_over_time.png",
    ]
    assert all(file.stat().st_size > 0 for file in report.files)
    stored = json.loads(report.files[1].read_text())
    assert stored == json.loads(json.dumps([asdict(verdict) for verdict in report.verdicts]))
    assert text.startswith("# Results\n\n42 of 42 runs finished")
    assert list(re.findall(r"^## (.*)$", text, re.MULTILINE))[:2] == ["Claims", "What came out against the method"]
    for file in report.files[2:]:
        assert f"]({file.name})" in text
    assert report.headline.startswith("42 of 42 runs finished")
    assert "| C6    | steady dapo" in report.headline


def test_the_same_records_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    copies = [Path(shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)) for folder in folders]
    first = build(folders, tmp_path / "a")
    second = build(copies[::-1], tmp_path / "b")
    for one, other in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_what_came_out_against_the_method_is_listed_with_its_numbers(built_unfavourable: Built) -> None:
    report, whole = built_unfavourable
    text = part(whole, "What came out against the method")
    against = {(v.claim, v.verdict) for v in report.verdicts if v.verdict in {"contradicted", "inconclusive"}}
    assert {(claim, word) for claim, word in re.findall(r"\*\*(C\w+) (\w+)\*\*", text)} == against
    lines = [v for v in report.verdicts if v.verdict in {"contradicted", "inconclusive"} for _ in v.estimates]
    assert text.count(", n = 3, margin ") == len(lines)
    assert "Some static group size, picked without looking at the seed it is tested on, beats SAGC" in text


def test_nothing_against_the_method_is_said_too(tmp_path: Path) -> None:
    world = World(algorithms=("grpo",), arms=("sagc",))
    build(write(tmp_path / "runs", world), tmp_path / "out")  # C4 alone can be decided, and is supported
    text = part(results(tmp_path / "out"), "What came out against the method")
    assert text.strip() == "Nothing: no decided claim is contradicted or inconclusive."


def test_every_claim_and_every_arm_has_its_row(built_equal: Built) -> None:
    _, text = built_equal
    for claim in CLAIMS:
        assert re.search(rf"^\| {claim} ", part(text, "Claims"), re.MULTILINE), claim
    for title in (
        "Arms at matched budgets: accuracy",
        "Arms at matched budgets: time",
        "Stragglers, group sizes and idle time",
        "Output length",
        "Groups and barriers",
    ):
        for arm in World().arms:
            assert part(text, title).count(f"| {arm} ") == 2, (title, arm)  # GRPO and DAPO
    assert "The straggler rate of static_2 is 0 by arithmetic" in text
    assert "best static mixture in hindsight" in part(text, "Hindsight")


def test_both_sides_of_the_price_identity_are_shown(unfavourable: Planted, tmp_path: Path) -> None:
    world, folders = unfavourable
    build(folders, tmp_path, plan(world))
    rows = re.findall(
        r"^\| sagc seed \d.*$", part(results(tmp_path), "Straggler rate against the budget"), re.MULTILINE
    )
    assert len(rows) == 6
    for row in rows:
        _, _, _, left, right, *_ = (cell.strip() for cell in row.split("|"))
        assert left == right
        assert float(left) > 0.1


def test_measured_coverage_stands_beside_c2b(built_equal: Built) -> None:
    notes = re.findall(r"^- C2b, .*measured coverage of this interval (\d+\.\d) %", built_equal[1], re.MULTILINE)
    assert len(notes) == 8
    assert all(85 < float(share) <= 100 for share in notes)


def test_a_partial_run_is_a_row_and_never_shown_as_whole(tmp_path: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    diverged = next(folder for folder in folders if "-sagc-torch_cpu-s1" in folder.name)
    outcome = read_outcome(diverged)
    assert outcome is not None
    write_outcome(diverged, replace(outcome, status="diverged", reason="the loss is nan at step 7"))
    died = next(folder for folder in folders if "static_8-torch_cpu-s2" in folder.name)
    (died / OUTCOME).unlink()
    shuffled = next(folder for folder in folders if "shuffled" in folder.name)
    report = build([folder for folder in folders if folder != shuffled], tmp_path / "out", plan(SMALL))
    text = results(tmp_path / "out")
    assert text.startswith("# Results\n\n6 of 9 runs finished")
    rows = part(text, "What did not finish")
    assert re.search(r"steady/grpo/sagc/torch_cpu/s1 +\| diverged +\| the loss is nan at step 7", rows)
    assert re.search(r"steady/grpo/static_8/torch_cpu/s2 +\| unfinished", rows)
    assert re.search(r"steady/grpo/shuffled_sagc/torch_cpu/s0 +\| missing", rows)
    assert re.search(r"^\| sagc +\| +2/3 \|", text, re.MULTILINE)
    assert "sagc seed 1" not in part(text, "Straggler rate against the budget")
    assert "sagc seed 2" in part(text, "Straggler rate against the budget")
    assert {v.verdict for v in report.verdicts} == {"not decidable"}


def test_a_plan_of_which_nothing_has_run_can_be_reported(tmp_path: Path) -> None:
    report = build([], tmp_path, plan(SMALL))
    assert {v.verdict for v in report.verdicts} == {"not decidable"}
    assert results(tmp_path).startswith("# Results\n\n0 of 9 runs finished")


def test_what_was_not_measured_is_not_shown_as_zero(tmp_path: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    for folder in folders:
        (folder / "timings.jsonl").unlink()
    build(folders, tmp_path / "out")
    rows = re.findall(r"^\| sagc .*$", part(results(tmp_path / "out"), "Arms at matched budgets: time"), re.MULTILINE)
    assert [cell.strip() for cell in rows[0].split("|")[6:-1]] == ["-"] * 5


def test_a_report_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="out must be a folder that can be written, got"):
        build(folders, tmp_path / "file")


def test_a_damaged_record_stops_the_report_before_anything_is_written(tmp_path: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    (folders[0] / CONFIG).write_text("{")
    with pytest.raises(RecordError, match="delete the run folder to run it again"):
        build(folders, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_engines_are_kept_apart_and_named(tmp_path: Path) -> None:
    folders = write(tmp_path / "runs", SMALL)
    other = [Path(shutil.copytree(folder, tmp_path / "verl" / folder.name)) for folder in folders]
    for folder in other:
        (folder / CONFIG).write_text((folder / CONFIG).read_text().replace('"torch_cpu"', '"verl"'))
    build([*folders, *other], tmp_path / "out")
    text = results(tmp_path / "out")
    assert "| steady grpo torch_cpu" in text
    assert "| steady grpo verl" in text
    assert "### steady, grpo, verl" in text


def test_a_sweep_is_a_table_in_which_a_missing_mixture_is_not_zero() -> None:
    row = SweepRow(
        setting="budget = 0.1",
        straggler_rate=0.12,
        budget=0.1,
        mean_group_size=4.5,
        utility=0.43,
        mixture_lead=None,
        switches_per_step=0.05,
        binding_share=1.0,
    )
    line = sensitivity([row]).splitlines()[-1]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == [
        "budget = 0.1",
        "0.120",
        "+0.020",
        "4.50",
        "0.430",
        "-",
        "0.05",
        "1.00",
    ]
