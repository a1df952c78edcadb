"""The tables of arms, each from one comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reports.claims import BUDGET_AXES
from reports.curves import AXES
from reports.facts import (
    binding_share,
    counts,
    identity,
    idle_share,
    straggler_rate,
    straggler_rate_by_group,
)
from reports.hindsight import best_static, best_static_mixture
from reports.markdown import NONE, interval, spread, table, thousands
from reports.runs import Comparison, Run
from reports.statistics import PERCENT
from reports.undecidable import NotDecidable
from reports.verdict_tables import SHORT

SHOWN_AXES = (*BUDGET_AXES, "cpu_s")
Column = tuple[str, Callable[[Run], float], int]
"""(title, value of a finished run, digits)."""


def arms_accuracy(one: Comparison) -> str:
    """Accuracy of every arm at the matched budgets, mean and spread over seeds."""
    return _by_arm(
        one, [(SHORT[axis], _reading(one, "accuracy", axis), 3) for axis in SHOWN_AXES] + [("at its end", _final, 3)]
    )


def arms_length(one: Comparison) -> str:
    """Output length of every arm at matched budgets, and the share of truncated training rollouts."""
    axes = ("prompts", "rollouts", "updates")
    columns: list[Column] = [(SHORT[axis], _reading(one, "output_length_tokens", axis), 2) for axis in axes]
    columns += [
        ("truncated", lambda run: counts(run.data.steps).truncated_share, 4),
        ("overlong penalty", lambda run: counts(run.data.steps).overlong_penalty, 4),
    ]
    return _by_arm(one, columns)


def arms_cost(one: Comparison) -> str:
    """Modelled and measured time of every arm at the matched budgets, and what a whole run took."""

    def at(cost: str, axis: str) -> Callable[[Run], float]:
        return lambda run: run.curve.used_at(axis, one.budget(axis, run.key.seed), cost)

    columns: list[Column] = [
        (f"{name} s, {axis}", at(cost, axis), 1)
        for cost, name in (("modelled_s", "modelled"), ("cpu_s", "CPU"))
        for axis in ("prompts", "rollouts", "tokens")
    ]
    columns += [("CPU s, whole run", lambda run: run.curve.total("cpu_s"), 1)]
    columns += [("wall s, whole run", lambda run: run.curve.total("wall_s"), 1)]
    return _by_arm(one, columns)


def budgets(one: Comparison) -> str:
    """The matched budget of every axis and seed."""
    rows = []
    for axis in (*SHOWN_AXES, "updates"):
        cells = []
        for seed in one.seeds:
            try:
                amount = one.budget(axis, seed)
                cells.append(f"{amount:.1f}" if axis.endswith("_s") else thousands(amount))
            except NotDecidable:
                cells.append(NONE)
        rows.append([AXES[axis], *cells])
    return table(["matched budget", *(f"seed {seed}" for seed in one.seeds)], rows)


def stragglers(one: Comparison) -> str:
    """Straggler rate, group size, price and idle share of every arm over its whole run."""
    return _by_arm(
        one,
        [
            ("straggler rate", lambda run: straggler_rate(run.data.steps), 3),
            ("by group", lambda run: straggler_rate_by_group(run.data.steps), 3),
            ("mean G by step", lambda run: counts(run.data.steps).mean_group_size, 2),
            ("by group", lambda run: counts(run.data.steps).mean_group_size_by_group, 2),
            ("idle share", lambda run: idle_share(run.data.steps), 3),
            ("degenerate groups", lambda run: counts(run.data.steps).degenerate_share, 3),
            ("price binds", lambda run: binding_share(run.data.steps), 2),
        ],
    )


def work(one: Comparison) -> str:
    """Groups generated, filtered, trained and surplus, and barriers, per run."""
    return _by_arm(
        one,
        [
            ("steps", lambda run: counts(run.data.steps).steps, 0),
            ("groups generated", lambda run: counts(run.data.steps).groups_generated, 0),
            ("filtered", lambda run: counts(run.data.steps).groups_filtered, 0),
            ("trained", lambda run: counts(run.data.steps).groups_trained, 0),
            ("surplus", lambda run: counts(run.data.steps).groups_surplus, 0),
            ("barriers per step", lambda run: counts(run.data.steps).barriers_per_step, 2),
            ("refill bound reached", lambda run: counts(run.data.steps).refill_exhausted, 1),
        ],
    )


def budget_identity(one: Comparison) -> str:
    """Both sides of the price identity for every finished run that has a price."""
    rows = []
    for (arm, seed), run in sorted(one.runs.items()):
        if run.status != "finished":
            continue  # listed under what did not finish
        controller = run.spec["controller"]
        try:
            sides = identity(run.data.steps, controller)
        except NotDecidable:
            continue  # an arm without a price has no identity
        rows.append(
            [
                f"{arm} seed {seed}",
                f"{controller['budget']:g}",
                f"{sides.left:+.6f}",
                f"{sides.right:+.6f}",
                f"{abs(sides.left - sides.right):.0e}",
                f"{sides.first_price:.3f} -> {sides.last_price:.3f}",
                f"{sides.clipped:.3f}",
                str(sides.updates),
                f"{binding_share(run.data.steps):.2f}",
            ]
        )
    headers = ["run", "budget", "rate - budget", "from prices", "apart by", "price", "clipped", "T", "price binds"]
    return table(headers, rows)


def hindsight(one: Comparison) -> str:
    """SAGC against what someone could have picked who knew the results."""
    rows = []
    for make in (best_static, best_static_mixture):
        try:
            row = make(one)
        except NotDecidable as error:
            return f"Not decidable: {error}.\n"
        lead = [interval(row.lead), str(row.lead.n)]
        rows.append([row.name, row.made_of, f"{row.rate:.3f}", f"{row.sagc_rate:.3f}", *lead])
    headers = ["hindsight", "made of", "straggler rate", "SAGC's rate", f"accuracy, SAGC - it [{PERCENT}]", "seeds"]
    return table(headers, rows, left=2)


def _by_arm(one: Comparison, columns: Sequence[Column]) -> str:
    """One row an arm: how many of its planned seeds finished, and mean and spread over those."""
    rows = []
    for arm in one.arms:
        found = [one.runs[arm, seed] for seed in one.seeds if (arm, seed) in one.runs]
        finished = [run for run in found if run.status == "finished"]
        cells = [spread(_values(finished, value), digits) for _, value, digits in columns]
        rows.append([arm, f"{len(finished)}/{len(one.seeds)}", *cells])
    return table(["arm", "finished", *(title for title, _, _ in columns)], rows)


def _values(runs: Sequence[Run], value: Callable[[Run], float]) -> list[float]:
    """The value of every run; empty, so shown as `-`, unless all of them have one."""
    try:
        return [value(run) for run in runs]
    except NotDecidable:
        return []


def _reading(one: Comparison, measure: str, axis: str) -> Callable[[Run], float]:
    return lambda run: run.curve.reading(measure, axis, one.budget(axis, run.key.seed)).value


def _final(run: Run) -> float:
    return run.curve.reading("accuracy", "updates", run.curve.total("updates")).value
