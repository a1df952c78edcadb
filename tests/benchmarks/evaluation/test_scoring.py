from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from benchmarks.evaluation import pool as pool_module
from benchmarks.evaluation.pool import ScorerError, ScoringPool, Worker
from benchmarks.evaluation.rules import Comparison, Verdict
from benchmarks.evaluation.scoring import score, score_in_this_process
from benchmarks.evaluation.symbolic import equivalent
from sagc.errors import ConfigError

ROOT = ("latex", r"\frac{\sqrt{3}}{3}", r"$\boxed{\frac{1}{\sqrt{3}}}$")
"""Needs math-verify, so it is right only where a worker can be reached."""
UP = [("latex", rf"\sqrt{{{n}}}", rf"\boxed{{{n}^{{1/2}}}}") for n in range(2, 12)]
"""Enough for both workers of a pool to start."""
TOWER = r"\boxed{9^{9^{9^{9}}}}"


ANSWERS = (
    r"\sqrt[3]{5}",
    r"x^2+2x+1",
    r"(1,2]",
    r"[1,\infty)",
    r"1\frac12",
    r"\binom{5}{2}",
    r"\begin{pmatrix}1\\2\end{pmatrix}",
    r"\log_2 8",
    r"x=1 \text{ or } x=2",
    r"12.5\%",
    r"\lfloor 3.5\rfloor",
    r"7 \bmod 5",
    r"e^{2\pi i/3}",
)


def in_thread(call: Callable[[], Verdict]) -> Verdict:
    results: queue.Queue[Verdict] = queue.Queue()
    thread = threading.Thread(target=lambda: results.put(call()))
    thread.start()
    thread.join()
    return results.get_nowait()


def in_task(call: Callable[[], Verdict]) -> Verdict:
    async def task() -> Verdict:
        return call()

    return asyncio.run(task())


@pytest.mark.parametrize("run", [lambda call: call(), in_thread, in_task], ids=["main", "thread", "asyncio"])
def test_scores_the_same_from_everywhere(run: Callable[[Callable[[], Verdict]], Verdict]) -> None:
    assert run(lambda: score(*ROOT)) == Verdict(True, "answered", ROOT[1])
    assert run(lambda: score("latex", ROOT[1], r"\boxed{\sqrt{2}}")).right is False
    assert run(lambda: score("latex", r"\frac{1}{3}", r"$\boxed{\frac{1}{3}}$")).right  # B32


def _report(results: multiprocessing.Queue[Verdict]) -> None:
    results.put(score(*ROOT))


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.parametrize("daemon", [False, True])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_scores_the_same_from_a_child_process(method: str, daemon: bool) -> None:
    """As in a Ray actor; a forked child must not share the parent's worker, and a daemon may start one too."""
    score(*ROOT)  # the parent has a worker already
    context = multiprocessing.get_context(method)
    results = context.Queue()
    child = context.Process(target=_report, args=(results,), daemon=daemon)  # type: ignore[attr-defined]
    child.start()
    assert results.get(timeout=60) == Verdict(True, "answered", ROOT[1])
    child.join(timeout=30)
    assert child.exitcode == 0
    assert score(*ROOT).right  # the parent's worker lives on


def test_leaves_the_callers_alarm_alone() -> None:
    fired = []
    before = signal.signal(signal.SIGALRM, lambda *_: fired.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        score(*ROOT)
        deadline = time.monotonic() + 5
        while not fired and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert fired


def test_in_this_process_it_needs_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "COMMAND", ("/nowhere",))
    assert score_in_this_process(*ROOT) == Verdict(True, "answered", ROOT[1])
    assert score("integer", "70", r"\boxed{70}").right


def test_a_hanging_answer_ends_at_its_limit_and_costs_its_neighbours_nothing() -> None:
    """verl#5839: [tower, 1, 2, 3] with two workers and a budget of 3 s."""
    items = [("latex", "70", TOWER), *UP[:3]]
    with ScoringPool(workers=2, limit_s=3) as pool:
        pool.score_many(UP)
        ended: list[float] = []
        began = time.monotonic()
        verdicts = pool.score_many(items, lambda count: ended.extend([time.monotonic() - began] * count))
        assert [verdict.right for verdict in verdicts] == [False, True, True, True]
        assert verdicts[0] == Verdict(False, "timeout", detail="stopped after 3 s")
        assert 3 <= ended[-1] < 4
        assert ended[-2] < 3  # the neighbours did not wait


def test_a_killed_worker_is_an_error_and_the_next_answer_is_scored() -> None:
    worker = Worker(limit_s=30)
    try:
        assert worker.compare(Comparison("1/2", "0.5")).right
        [child] = [c for c in psutil.Process().children() if _of(worker, c)]
        threading.Timer(0.5, child.kill).start()
        verdict = worker.compare(Comparison("70", r"9^{9^{9^{9}}}"))
        assert verdict == Verdict(False, "error", detail="the scoring worker ended with code -9")
        assert worker.compare(Comparison("1/2", "0.5")).right
    finally:
        worker.close()


def test_a_worker_that_died_while_idle_is_replaced() -> None:
    worker = Worker(limit_s=30)
    try:
        assert worker.compare(Comparison("1/2", "0.5")).right
        [child] = [c for c in psutil.Process().children() if _of(worker, c)]
        child.kill()
        child.wait(10)
        assert worker.compare(Comparison("1/2", "0.5")).right
    finally:
        worker.close()


def _of(worker: Worker, child: psutil.Process) -> bool:
    assert worker._process is not None
    return bool(child.pid == worker._process.pid)


def test_a_worker_that_cannot_start_is_a_loud_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    with ScoringPool(workers=1) as pool, pytest.raises(ScorerError, match="must start, got code 3; run"):
        pool.score_many([ROOT])


def test_a_hanging_worker_dies_with_its_killed_parent(tmp_path: Path) -> None:
    code = (
        "from benchmarks.evaluation.pool import Worker\nfrom benchmarks.evaluation.rules import Comparison\n"
        "w = Worker(2.0); w.compare(Comparison('1', '1.0')); print(w._process.pid, flush=True)\n"
        "w.compare(Comparison('70', '9^{9^{9^{9}}}'))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    worker.wait(timeout=10) if worker.is_running() else None
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_no_process_is_left_behind() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with ScoringPool(workers=2, limit_s=0.5) as pool:
        pool.score_many([("latex", "70", TOWER), ROOT, UP[0]])
        assert {child.pid for child in psutil.Process().children(recursive=True)} > before
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


def test_progress_counts_every_item_once(pool: ScoringPool) -> None:
    counts: list[int] = []
    items = [ROOT, ROOT, ("integer", "1", r"\boxed{1}"), ("choice", "A", "Answer: A")]
    assert all(verdict.right for verdict in pool.score_many(items, counts.append))
    assert sum(counts) == len(items)


def test_an_unreadable_gold_is_an_error_and_not_a_wrong_answer(pool: ScoringPool) -> None:
    items = [("integer", "seventy", r"\boxed{70}"), ("latex", " ", r"\boxed{70}"), ("choice", "E", "Answer: E")]
    assert [verdict.status for verdict in pool.score_many(items)] == ["error"] * 3


def test_what_a_library_prints_is_no_verdict() -> None:
    """antlr prints to stdout when its versions disagree."""
    code = "import os, sys\nfrom benchmarks.evaluation import symbolic, worker\n"
    code += "symbolic.equivalent = lambda *a: print('{\"right\": false}') or os.system('echo noise') or True\n"
    code += "sys.exit(worker.main())\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input='{"gold": "1", "content": "1", "limit_s": 5}\n',
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(pool_module.__file__).parents[2],
    )
    assert done.stdout.splitlines() == ['{"ready": true}', '{"right": true}']


@pytest.mark.parametrize(("workers", "limit_s"), [(0, 1.0), (1, 0.0), (1, float("nan"))])
def test_settings_out_of_range_are_refused(workers: int, limit_s: float) -> None:
    with pytest.raises(ConfigError, match="must be"):
        ScoringPool(workers=workers, limit_s=limit_s)


def test_an_unknown_answer_type_offers_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'integer'"):
        score("integers", "1", "1")


def test_tuples_are_equal_however_they_are_bracketed() -> None:
    """Qwen2.5-Math#29."""
    assert equivalent(r"(3, \frac{\pi}{2})", r"\left( 3, \frac{\pi}{2} \right)")


@pytest.mark.slow  # installs another antlr runtime
def test_verdicts_are_the_same_with_antlr_4_9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: ScoringPool
) -> None:
    """hydra, under verl, needs antlr 4.9."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    installed = subprocess.run([*command, "antlr4-python3-runtime==4.9.3"], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"antlr 4.9.3 could not be installed: {installed.stderr.strip()[-200:]}")
    from tests.benchmarks.evaluation.test_verdict_tables import ROWS

    items = [("latex", row.gold, row.output) for row in ROWS]
    items += [("latex", answer, rf"\boxed{{{answer}}}") for answer in ANSWERS]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with ScoringPool(workers=2) as old:
        assert old.score_many(items) == pool.score_many(items)
