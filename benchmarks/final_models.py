"""The models that a reproduction has trained, through the harness that evaluates pretrained ones.

Sampler and scorer are other code than the run's own evaluation used, and the problems are the same: the two
accuracies differ by the noise of sampling, or one of the two is wrong.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.evaluation.pool import ScoringPool
from benchmarks.evaluation.problems import LoadOptions, load_problems
from benchmarks.evaluation.protocols import settings
from benchmarks.evaluation.results import read_verdicts, score_folder
from benchmarks.evaluation.run import Evaluation, Part, claimed, sample_missing
from benchmarks.evaluation.samplers import SAMPLERS
from benchmarks.evaluation.sets import SETS
from benchmarks.runner import Run
from benchmarks.runs_folder import RunsFolder
from benchmarks.store import MODEL, read_run

SEED = 0
"""Training seed whose models are asked [ours]: every arm once, in the time that a reproduction has for it."""
FINAL_MODELS = "FINAL_MODELS.md"
ENGINE = "transformers"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalModel:
    """What became of one model."""

    name: str
    """Of the run."""
    folder: Path
    """Of the evaluation."""
    problems: int
    samples: int
    accuracy: float
    own: float | None
    """What the run's own last evaluation found on the same problems; None if it did not ask all of them."""
    difference_se: float | None
    """Standard error of `accuracy` - `own`, paired by problem."""
    output_tokens: float
    """Mean length of a completion."""

    def describe(self) -> str:
        """One line."""
        own = "" if self.own is None else f" (its own evaluation: {self.own:.3f}, +- {self.difference_se:.3f})"
        return f"{self.name}  accuracy {self.accuracy:.3f}{own}, {self.output_tokens:.1f} tokens"


def trained_models(runs: Sequence[Run]) -> list[Run]:
    """The finished runs of `SEED` that left a model."""
    return [
        run
        for run in runs
        if run.state == "finished" and run.spec.seed == SEED and run.folder and (run.folder / MODEL).is_dir()
    ]


def ask(run: Run, folder: RunsFolder) -> FinalModel:
    """Evaluate the final model of a run, with as many samples as its own evaluation took, in this process.

    What the folder holds already is not generated again.
    """
    assert run.folder is not None
    row, samples = SETS[f"toy_{run.spec.task}"], run.spec.evaluation.samples
    evaluation = Evaluation(
        model=str(run.folder / MODEL),
        revision=None,
        engine=ENGINE,
        seed=SEED,
        batch_size=row.rows * samples,
        parts=[Part(row, load_problems(row, LoadOptions()), settings(row.protocol, samples=samples))],
    )
    out = folder.path / evaluation.eval_id
    with ScoringPool(workers=1) as pool, claimed(out, evaluation.config()):
        sample_missing(evaluation, out, lambda: SAMPLERS[ENGINE](evaluation.model, None))
        score_folder(out, (), pool)
    return _compared(run.name, run.folder, out, samples)


def _compared(name: str, run: Path, evaluation: Path, samples: int) -> FinalModel:
    verdicts = read_verdicts(evaluation)
    by_problem: dict[str, list[bool]] = defaultdict(list)
    for verdict in verdicts:
        by_problem[verdict.problem].append(verdict.right)
    asked = np.array([np.mean(rights) for rights in by_problem.values()])
    own = np.array([right / last.samples for last in read_run(run).evaluations[-1:] for right in last.right])
    own = own[: len(asked)]
    paired = asked - own if len(own) == len(asked) else None
    return FinalModel(
        name=name,
        folder=evaluation,
        problems=len(asked),
        samples=samples,
        accuracy=float(asked.mean()),
        own=None if paired is None else float(own.mean()),
        difference_se=None if paired is None else float(paired.std(ddof=1) / math.sqrt(len(paired))),
        output_tokens=float(np.mean([verdict.tokens for verdict in verdicts])),
    )


def page(models: Sequence[FinalModel]) -> str:
    """The models as a page of Markdown."""
    lines = [
        f"# Final models of seed {SEED}",
        "",
        "Asked again by the evaluation harness (`python -m benchmarks evaluate`), whose sampler and scorer are other "
        "code than the run's own evaluation. Both asked the same held-out problems. +- is one standard error of the "
        "difference, paired by problem; all models share the harness's random numbers, so the differences go together.",
        "",
        "A row is `python -m benchmarks evaluate --model runs/RUN/model --sets toy_TASK --samples S --batch-size B`, "
        "with B = problems x samples.",
        "",
        "| run | problems x samples | accuracy | its own evaluation | difference | +- | output tokens | evaluation |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for model in models:
        own = ["-"] * 3
        if model.own is not None:
            own = [f"{value:.3f}" for value in (model.own, model.accuracy - model.own, model.difference_se)]
        cells = [model.name, f"{model.problems} x {model.samples}", f"{model.accuracy:.3f}", *own]
        lines.append(f"| {' | '.join([*cells, f'{model.output_tokens:.1f}', f'`{model.folder.name}`'])} |")
    return "\n".join([*lines, ""])
