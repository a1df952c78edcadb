"""5,000 random files: each is read right or refused by name, in one line and with exit code 2; nothing else happens."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.cli import main
from benchmarks.commands import Reports
from benchmarks.evaluation.generations import FILE as GENERATIONS
from benchmarks.evaluation.generations import Generation, read_generations
from benchmarks.metrics import sendable
from benchmarks.record import EvaluationRecord, StepRecord, StepTiming
from benchmarks.resume import go_back_to_checkpoint
from benchmarks.shown import read_values, record_metrics
from benchmarks.store import CONFIG, EVALUATIONS, OUTCOME, STEPS, TIMINGS, Tail, cut_records, read_run
from benchmarks.suite import Profile, load_profile
from reports import build, keep, sensitivity
from sagc.errors import ConfigError, SagcError
from tests.benchmarks.fake_engine import FAKES
from tests.reports.records import World, write

CONFIGS, RECORDS, LOGS = 2000, 1500, 1500
"""Cases; 5,000 in all."""
few = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
PROFILE = """name = "fuzz"
summary = "for tests"
engine = "fake"
seeds = 2
report = "reports"
rollouts_per_step = 64
batch_policy = "fixed_rollouts"
[[matrix]]
tasks = ["steady", "growing"]
algorithms = ["grpo"]
arms = ["static_8", "sagc", "shuffled_sagc"]
[horizon]
prompts = 24
rollouts = 384
[evaluation]
problems = 4
[controller]
budget = 0.2
candidates = [4, 8, 16]
threshold = 2.5
[training]
learning_rate = 1e-4
betas = [0.9, 0.99]
[engine_settings]
text = "x"
"""
TOKENS = (
    *("-1", "0", "1e400", "nan", "-inf", "true", "[]", "[[]]", "{}", "2020-01-01", "1979-05-27T07:32:00Z"),
    *('""', '"../../up"', '"/etc"', '"sagc"', "'x'", '"\\u0000"', "[2, 8]", '["sagc", "sagc"]'),
    *("9" * 30, "0x7fffffffffffffff", "[" * 3000),
)
"""What a line of a config may be made to hold."""
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["../x", "\0", "<b>"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
DEEP = b'{"a":' * 2000


@st.composite
def altered(draw: st.DrawFn, text: bytes) -> bytes:
    """`text` with bytes changed, cut out, put in or cut off; or nothing of it."""
    kind = draw(st.sampled_from(["bytes", "cut", "insert", "truncate", "foreign"]))
    place = draw(st.integers(0, len(text)))
    more = draw(st.binary(max_size=30))
    end = min(len(text), place + draw(st.integers(0, 40)))
    return {
        "bytes": text[:place] + more + text[place + len(more) :],
        "cut": text[:place] + text[end:],
        "insert": text[:place] + more + text[place:],
        "truncate": text[:place],
        "foreign": more,
    }[kind]


@st.composite
def configs(draw: st.DrawFn) -> bytes:
    """The profile above with some values, keys or bytes changed."""
    lines = PROFILE.split("\n")
    if draw(st.integers(0, 4)) == 0:
        return draw(altered(PROFILE.encode()))
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[number].partition(" = ")
        new = draw(st.sampled_from(TOKENS) | JSON_VALUES.map(lambda value: json.dumps(value)))
        other = draw(st.sampled_from([key, key + "s", "seeds", "x", "name", key.upper()]))
        lines[number] = f"{other if draw(st.booleans()) else key} = {new}" if equals else lines[number]
    return "\n".join(lines).encode()


@pytest.fixture(scope="module")
def profile_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "profile.toml"


def command(*arguments: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments, reports=Reports(build=build, keep=keep, sensitivity=sensitivity), engines=FAKES)
    return code, out.getvalue(), err.getvalue()


@settings(few, max_examples=CONFIGS)
@given(text=configs())
def test_a_config_is_planned_or_refused_in_one_line(profile_path: Path, text: bytes) -> None:
    profile_path.write_bytes(text)
    before = sorted(os.listdir(profile_path.parent))
    runs = profile_path.parent / "runs"
    code, out, err = command("reproduce", "--profile", str(profile_path), "--plan", "--runs", str(runs))
    if code == 0:
        profile = load_profile(str(profile_path), FAKES)
        assert isinstance(profile, Profile)
        assert f"profile {profile.name}: " in out
        assert err == ""
    else:
        assert code == 2
        assert err.startswith("error: ")
        assert err.count("\n") == 1
    assert sorted(os.listdir(profile_path.parent)) == before


WORLD = World(arms=("sagc",), algorithms=("grpo",), seeds=(0,), problems=4)
KINDS = {STEPS: StepRecord, TIMINGS: StepTiming, EVALUATIONS: EvaluationRecord}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[bytes]]]:
    """A run with few records, and the text of each of its files."""
    (folder,) = write(tmp_path_factory.mktemp("fuzz"), WORLD)
    texts = {}
    for name in (CONFIG, STEPS, TIMINGS, EVALUATIONS, OUTCOME):
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        texts[name] = lines[:3] if name.endswith(".jsonl") else [b"".join(lines)]
    return folder, texts


@st.composite
def changed_json(draw: st.DrawFn, line: bytes) -> bytes:
    """A JSON object with one field changed, missing or added, at any depth of it that is an object."""
    data = json.loads(line)
    place = data
    while True:
        key = draw(st.sampled_from(sorted(place))) if place else "x"
        if isinstance(place.get(key), dict) and draw(st.booleans()):
            place = place[key]
            continue
        break
    match draw(st.sampled_from(["value", "missing", "new"])):
        case "value":
            place[key] = draw(JSON_VALUES)
        case "missing":
            place.pop(key, None)
        case _:
            place[draw(st.text(max_size=8))] = draw(JSON_VALUES)
    return json.dumps(data).encode() + b"\n"


def reads_or_refuses(read: Callable[[], Any]) -> Any:
    """What `read` gives; None if it refuses, as nothing but the errors of this project does."""
    try:
        return read()
    except SagcError:
        return None


@settings(few, max_examples=RECORDS)
@given(data=st.data())
def test_records_are_read_or_refused(run: tuple[Path, dict[str, list[bytes]]], data: st.DataObject) -> None:
    folder, texts = run
    for name, lines in texts.items():
        (folder / name).write_bytes(b"".join(lines))
    name = data.draw(st.sampled_from(sorted(texts)))
    lines = list(texts[name])
    number = data.draw(st.integers(0, len(lines) - 1))
    change = changed_json(lines[number]) | altered(lines[number]) | st.just(DEEP) | st.just(b"\n")
    lines[number] = data.draw(change)
    (folder / name).write_bytes(b"".join(lines))

    found = reads_or_refuses(lambda: read_run(folder))
    if found is not None:  # then all that is made of records can be made of these
        for record in (*found.steps, *found.timings, *found.evaluations):
            good, _ = sendable(record_metrics(record))
            assert all(isinstance(value, float) for value in good.values())
        json.dumps(found.config)
    if name in KINDS:
        reads_or_refuses(lambda: Tail(folder / name, KINDS[name]).read())
        reads_or_refuses(lambda: read_values(folder, dict.fromkeys(KINDS, 0), None))
        cut_records(folder, 2)
        assert all(step.step <= 2 for step in reads_or_refuses(lambda: read_run(folder).steps) or [])
    said: list[str] = []
    assert go_back_to_checkpoint(folder, said.append) is None


@settings(few, max_examples=20)
@given(data=st.data())
def test_commands_that_read_a_run_refuse_it_in_one_line(
    run: tuple[Path, dict[str, list[bytes]]], data: st.DataObject
) -> None:
    folder, texts = run
    for name, lines in texts.items():
        (folder / name).write_bytes(b"".join(lines))
    name = data.draw(st.sampled_from([CONFIG, STEPS, OUTCOME]))
    (folder / name).write_bytes(data.draw(changed_json(texts[name][0])))
    plan = folder.parent / "reproduction-smoke" / "plan.json"
    plan.parent.mkdir(exist_ok=True)
    entry = {"name": "x", "run_id": folder.name, "state": "finished", "reason": "", "follows": None}
    asked: dict[str, Any] = {"seeds": None, "tasks": [], "algorithms": [], "arms": []}
    document = {"profile": "smoke", "suite": "x", "asked": asked, "provenance": {}, "started": {}, "runs": [entry]}
    whole = json.dumps(document).encode()
    plan.write_bytes(data.draw(st.just(whole) | changed_json(whole) | altered(whole)))
    where = ("--profile", "smoke", "--runs", str(folder.parent))
    for arguments in (("sweep", *where, "--arm", "sagc"),):
        code, _, err = command(*arguments)
        assert code in (0, 2)
        assert err.count("\n") == (code == 2)


GENERATION = Generation(
    set="aime-2024", problem="1", sample=0, seed=0, answer_type="integer", gold="7", permutation=(0, 1), prompt="ab",
    opens_thinking=True, text="so <b>7</b>", tokens=3, finish="stop",
)  # fmt: skip
LINE = json.dumps({name: getattr(GENERATION, name) for name in Generation.__dataclass_fields__}).encode() + b"\n"


@settings(few, max_examples=LOGS)
@given(data=st.data())
def test_a_rollout_log_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    line = data.draw(changed_json(LINE) | altered(LINE) | st.just(DEEP + b"\n"))
    (tmp_path / GENERATIONS).write_bytes(LINE + line)
    found = reads_or_refuses(lambda: read_generations(tmp_path))
    if found is not None:
        assert all(isinstance(generation.output, str) for generation in found)
        assert found[0] == GENERATION


def test_a_plan_that_names_a_folder_elsewhere_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "reproduction-smoke" / "plan.json"
    plan.parent.mkdir()
    asked: dict[str, Any] = {"seeds": None, "tasks": [], "algorithms": [], "arms": []}
    for escape in ("../other", "/etc", "..", ".logs", "a/b", "a\0b", ""):
        entry = {"name": "x", "run_id": escape, "state": "finished", "reason": "", "follows": None}
        document = {"profile": "smoke", "suite": "x", "asked": asked, "provenance": {}, "started": {}, "runs": [entry]}
        plan.write_text(json.dumps(document))
        code, _, err = command("sweep", "--profile", "smoke", "--runs", str(tmp_path))
        assert code == 2
        assert "name must be letters" in err or "got none in" in err, escape


def test_a_report_outside_the_checkout_is_refused(profile_path: Path) -> None:
    for escape in ("/tmp/x", "../x", "reports/../../x", 7, True):
        profile_path.write_text(PROFILE.replace('report = "reports"', f"report = {json.dumps(escape)}"))
        with pytest.raises(ConfigError, match="report must be a folder inside the checkout"):
            load_profile(str(profile_path), FAKES)
