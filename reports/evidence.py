"""What each claim is decided from: contrasts between arms, as estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reports.contrasts import BestStatic, Contrast, against_best_static, cost_ratio, difference, idle_difference
from reports.coverage import best_static_coverage
from reports.curves import AXES
from reports.facts import binding_share, straggler_rate
from reports.runs import SAGC, SHUFFLED, STATIC_ARMS, Comparison, Run
from reports.statistics import Estimate, estimate
from reports.undecidable import NotDecidable
from reports.verdicts import Evidence, margins

Members = Mapping[str, Comparison]
"""The comparisons that a verdict is decided from, by algorithm: one, or all of a task."""
LARGEST = STATIC_ARMS[-1]


def _evidence(contrast: Contrast, label: str, *, log: bool = False, beside: Sequence[Estimate] = ()) -> Evidence:
    return Evidence(
        estimates=(_estimate(contrast, label, log),),
        run_ids=_ids(contrast.runs),
        beside=tuple(beside),
    )


def _estimate(contrast: Contrast, label: str, log: bool = False) -> Estimate:
    return estimate(label, contrast.differences, problems=contrast.problems, log=log)


def _ids(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(sorted({run.run_id for run in runs}))


def _measured(contrast: Callable[[], Contrast], label: str, log: bool = False) -> tuple[Estimate, ...]:
    """The same contrast by the clock; nothing where the engine did not measure it."""
    try:
        return (_estimate(contrast(), f"{label}, {AXES['cpu_s']}", log),)
    except NotDecidable:
        return ()


def cost(one: Comparison, axis: str) -> Evidence:
    """C1: modelled cost, largest static / SAGC; CPU-seconds beside it."""
    label = f"{LARGEST} / SAGC"
    beside = _measured(lambda: cost_ratio(one, "cpu_s", axis, LARGEST, SAGC), label, log=True)
    return _evidence(cost_ratio(one, "modelled_s", axis, LARGEST, SAGC), label, log=True, beside=beside)


def against(arm: str, label: str) -> Callable[[Comparison, str], Evidence]:
    """C2a: accuracy, SAGC - an arm; at modelled time with CPU-seconds beside it."""

    def evidence(one: Comparison, axis: str) -> Evidence:
        found = difference(one, "accuracy", axis, SAGC, arm)
        beside: tuple[Estimate, ...] = ()
        if axis == "modelled_s":
            beside = _measured(lambda: difference(one, "accuracy", "cpu_s", SAGC, arm), label)
        return _evidence(found, label, beside=beside)

    return evidence


def against_best(one: Comparison, axis: str) -> Evidence:
    """C2b: accuracy, SAGC - best static; the coverage of the interval is measured and noted."""
    label = "SAGC - best static"
    best = against_best_static(one, "accuracy", axis, SAGC)
    beside: tuple[Estimate, ...] = ()
    if axis == "modelled_s":
        beside = _measured(lambda: against_best_static(one, "accuracy", "cpu_s", SAGC).contrast, label)
    found = _evidence(best.contrast, label, beside=beside)
    coverage = best_static_coverage(best.values, best.sagc)
    return Evidence(
        found.estimates,
        found.run_ids,
        beside,
        f"best on the other seeds: {_chosen(best, one)}; measured coverage of this interval {100 * coverage:.1f} %",
    )


def _chosen(best: BestStatic, one: Comparison) -> str:
    return ", ".join(f"{arm} for seed {seed}" for arm, seed in zip(best.chosen, one.seeds, strict=True))


def dapo_minus_grpo(here: Members, axis: str) -> Evidence:
    """C2c: the lead over the best static under DAPO minus that under GRPO, by seed."""
    for algorithm in ("dapo", "grpo"):
        if algorithm not in here:
            raise NotDecidable(f"algorithm {algorithm} is missing")
    dapo, grpo = here["dapo"], here["grpo"]
    if dapo.seeds != grpo.seeds:
        raise NotDecidable(f"DAPO has the seeds {dapo.seeds} and GRPO {grpo.seeds}; they are paired")
    a, b = (against_best_static(one, "accuracy", axis, SAGC).contrast for one in (dapo, grpo))
    problems = [x[: len(y)] - y[: len(x)] for x, y in zip(a.problems, b.problems, strict=True)]
    differences = tuple(x - y for x, y in zip(a.differences, b.differences, strict=True))
    both = Contrast(differences, tuple(problems), (*a.runs, *b.runs))
    return _evidence(both, "(SAGC - best static) under DAPO - under GRPO")


def lengths(one: Comparison, axis: str) -> Evidence:
    """C3: output tokens, SAGC - largest static and SAGC - best static."""
    measure = "output_length_tokens"
    largest = difference(one, measure, axis, SAGC, LARGEST)
    best = against_best_static(one, measure, axis, SAGC)
    return Evidence(
        (_estimate(largest, f"SAGC - {LARGEST}"), _estimate(best.contrast, "SAGC - best static")),
        _ids((*largest.runs, *best.contrast.runs)),
        note=f"best by accuracy on the other seeds: {_chosen(best, one)}",
    )


def rate_over_budget(one: Comparison, _: str) -> Evidence:
    """C4: straggler rate - budget over whole runs whose price binds; the others are noted."""
    least = margins()["C4"]["binding_share"]
    runs = one.all_seeds([SAGC])[SAGC]
    shares = {run.run_id: binding_share(run.data.steps) for run in runs}
    bound = [run for run in runs if shares[run.run_id] >= least]
    loose = [f"{run} ({shares[run]:.2f} of steps)" for run in shares if shares[run] < least]
    note = "not binding: " + ", ".join(loose) if loose else "the price binds in every run"
    if len(runs) < 2:
        raise NotDecidable("one seed gives no interval")
    if len(bound) < 2:
        raise NotDecidable(f"{len(bound)} of {len(runs)} runs have a binding price, 2 are needed; {note}")
    excess = tuple(straggler_rate(run.data.steps) - run.spec["controller"]["budget"] for run in bound)
    found = _evidence(Contrast(excess, (), tuple(bound)), "rate - budget")
    return Evidence(found.estimates, found.run_ids, note=note)


def against_shuffle(one: Comparison, axis: str) -> Evidence:
    """C5: accuracy, SAGC - the shuffle of the very same run."""
    runs = one.all_seeds([SAGC, SHUFFLED])
    for sagc, shuffle in zip(runs[SAGC], runs[SHUFFLED], strict=True):
        if shuffle.spec["schedule_source"] != sagc.run_id:
            raise NotDecidable(f"{shuffle.run_id} shuffles {shuffle.spec['schedule_source']}, not {sagc.run_id}")
    return against(SHUFFLED, "SAGC - its shuffle")(one, axis)


def idle(one: Comparison, _: str) -> Evidence:
    """C6: idle share over whole runs, SAGC - largest static."""
    return _evidence(idle_difference(one, SAGC, LARGEST), f"SAGC - {LARGEST}")
