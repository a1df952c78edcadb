"""The two figures, drawn without a display and free of dates, so that the same records give the same picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from baselines.arms import ARMS
from reports.curves import Floats
from reports.runs import SAGC, SHUFFLED, STATIC_SIZES, Comparison, Run

CONTROL, QUALITY = "group_size_and_price.png", "accuracy_over_time.png"
WINDOW = 15
"""Steps of the running mean of the straggler rate."""
CAPTIONS = {
    CONTROL: "Group size and price of SAGC with its straggler rate over training steps, one line a seed; the rate is "
    f"a running mean of {WINDOW} steps, the dashed line is the budget.",
    QUALITY: "Accuracy on held-out problems over modelled time: mean over seeds, band from the lowest to the highest "
    "seed, each arm as far as all its seeds go.",
}
_SEED_COLOURS = ("#0b5394", "#e07b00", "#38761d", "#8e44ad", "#7f6000")
_STATIC_COLOURS = ("#a8cbe6", "#74acd5", "#3f87c0", "#1f5f9c", "#0b2f5c")
_ARM_COLOURS = {SAGC: "#d62728", SHUFFLED: "#f0a202"}


def draw(comparisons: Sequence[Comparison], folder: Path) -> list[tuple[str, str]]:
    """Write both figures into `folder`; returns (file name, caption) of each.

    Degenerate cases: a comparison without a finished run keeps its empty panel, which says so.
    """
    _save(_control(comparisons), folder / CONTROL)
    _save(_quality(comparisons), folder / QUALITY)
    return list(CAPTIONS.items())


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})  # type: ignore[no-untyped-call]


def _panels(comparisons: Sequence[Comparison], rows: int, height: float) -> tuple[Figure, list[list[Axes]]]:
    columns = len(comparisons)
    figure = Figure(figsize=(1.2 + 4.2 * columns, height), dpi=120, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row", sharex="col")
    for axes, one in zip(grid[0], comparisons, strict=True):
        axes.set_title(f"{one.algorithm.upper()} on {one.task}", fontsize=11, fontweight="bold")
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=9)
    return figure, grid.tolist()


def _control(comparisons: Sequence[Comparison]) -> Figure:
    figure, (sizes, prices, rates) = _panels(comparisons, 3, 7.2)
    for column, one in enumerate(comparisons):
        runs = _finished(one, SAGC)
        if not runs:
            _say_empty(sizes[column])
        for run, colour in zip(runs, _cycle(_SEED_COLOURS, len(runs)), strict=True):
            steps = [record.step for record in run.data.steps]
            label = f"seed {run.key.seed}"
            group_sizes = [record.group_size for record in run.data.steps]
            sizes[column].step(steps, group_sizes, where="mid", color=colour, linewidth=1.1, alpha=0.85, label=label)
            price = [record.controller.get("dual_variable", np.nan) for record in run.data.steps]
            prices[column].plot(steps, price, color=colour, linewidth=1.3)
            rates[column].plot(*_running_rate(run), color=colour, linewidth=1.3)
        if runs:
            rates[column].axhline(runs[0].spec["controller"]["budget"], color="black", linestyle="--", linewidth=1)
        rates[column].set_xlabel("training step", fontsize=10)
    for axes, text in ((sizes[0], "group size G"), (prices[0], "price"), (rates[0], "straggler rate")):
        axes.set_ylabel(text, fontsize=10)
    sizes[0].set_yscale("log", base=2)
    sizes[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    prices[0].set_ylim(bottom=0)
    rates[0].set_ylim(0, 1)
    _legend(figure, sizes)
    return figure


def _running_rate(run: Run) -> tuple[Floats, Floats]:
    """(middle steps, running mean of the straggler rate); steps without a counted group are left out."""
    counted = [record for record in run.data.steps if record.straggler_rate is not None]
    width = min(WINDOW, len(counted))
    if not width:
        return np.empty(0), np.empty(0)
    mean = np.ones(width) / width
    steps = np.convolve([float(record.step) for record in counted], mean, mode="valid")
    return steps, np.convolve([float(record.straggler_rate or 0) for record in counted], mean, mode="valid")


def _quality(comparisons: Sequence[Comparison]) -> Figure:
    figure, (row,) = _panels(comparisons, 1, 4.6)
    for axes, one in zip(row, comparisons, strict=True):
        for arm in one.arms:
            band = _band(_finished(one, arm))
            if band is None:
                continue
            seconds, low, mean, high = band
            adaptive = arm in _ARM_COLOURS
            colour = _colours(one)[arm]
            axes.fill_between(seconds, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(
                seconds,
                mean,
                color=colour,
                linewidth=2.2 if adaptive else 1.5,
                linestyle="--" if arm == SHUFFLED else "-",
                zorder=3 if adaptive else 2,
                label=arm.replace("_", " "),
            )
        if not axes.lines:
            _say_empty(axes)
        axes.set_xlabel("modelled seconds", fontsize=10)
    row[0].set_ylabel("accuracy, held-out problems", fontsize=10)
    _legend(figure, row)
    return figure


def _band(runs: Sequence[Run]) -> tuple[Floats, Floats, Floats, Floats] | None:
    """(seconds, lowest, mean, highest accuracy) where all runs have been evaluated; None without runs."""
    if not runs:
        return None
    end = min(run.curve.total("modelled_s") for run in runs)
    seconds = np.linspace(0, end, 61)
    values = np.array([[run.curve.reading("accuracy", "modelled_s", at).value for at in seconds] for run in runs])
    return seconds, values.min(axis=0), values.mean(axis=0), values.max(axis=0)


def _finished(one: Comparison, arm: str) -> list[Run]:
    """Finished runs of an arm that were evaluated, by seed."""
    runs = [one.runs[arm, seed] for seed in one.seeds if (arm, seed) in one.runs]
    return [run for run in runs if run.status == "finished" and run.curve.evaluations]


def _colours(one: Comparison) -> Mapping[str, str]:
    statics = dict(zip(STATIC_SIZES, _STATIC_COLOURS, strict=True))
    return {arm: _ARM_COLOURS.get(arm) or statics.get(arm, "#555555") for arm in one.arms}


def _cycle(colours: Sequence[str], count: int) -> list[str]:
    return [colours[i % len(colours)] for i in range(count)]


def _say_empty(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no finished run", ha="center", va="center", transform=axes.transAxes, color="#777777")


def _legend(figure: Figure, row: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    entries = {text: line for axes in row for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    entries = {text: entries[text] for text in sorted(entries, key=_legend_order)}
    columns = min(len(entries), 4 * len(row))  # what fits under the panels
    if entries:
        figure.legend(
            entries.values(), entries.keys(), loc="outside lower center", ncols=columns, fontsize=9, frameon=False
        )


def _legend_order(text: str) -> tuple[int, str]:
    names = [arm.replace("_", " ") for arm in ARMS]
    return (names.index(text) if text in names else 0), text
