"""The table of evaluation sets. To add one: a row, and a loader if it is no table of problems and answers.

Row counts and hashes of the golds were computed from several public copies that agree. The statements are the
property of their authors, so none is stored here, and the licences are the uploaders' claims.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.evaluation import chain, toy
from benchmarks.evaluation.problems import EvaluationSet, Loader, Source
from benchmarks.evaluation.tables import load_table
from sagc.errors import unknown_name


def _mathematics(name: str, summary: str, rows: int, gold_hash: str, licence: str, source: Source) -> EvaluationSet:
    return EvaluationSet(
        name=name,
        summary=summary,
        rows=rows,
        answer_type="integer",
        load=load_table,
        prompt="boxed",
        protocol="r1",
        licence=licence,
        source=source,
        gold_hash=gold_hash,
    )


def _toy(answer_type: str, load: Loader, prompt: str = "plain") -> EvaluationSet:
    return EvaluationSet(
        name=f"toy_{answer_type}",
        summary=f"made-up problems with answers of type {answer_type}",
        rows=toy.SIZES[answer_type],
        answer_type=answer_type,
        load=load,
        prompt=prompt,
        examples=toy.EXAMPLES[answer_type],
        protocol="toy",
        licence="Apache-2.0",
    )


def _chain(task: str) -> EvaluationSet:
    return EvaluationSet(
        name=f"toy_{task}",
        summary=f"held-out problems of the training task {task}, for the models that it trains",
        rows=chain.ROWS,
        answer_type="chain",
        load=chain.loader(task),
        prompt="plain",
        protocol="chain",
        licence="Apache-2.0",
    )


_AI_MO_AIME = "AI-MO/aimo-validation-aime"
"""AIME 2022 to 2024 in one table: the one common source with both parts of 2023; zeros in front."""

_ROWS = (
    _mathematics(
        "aime_2023",
        "AIME 2023 I and II; inside DeepScaleR's training data",
        30,
        "15abaa86abc700c6",
        "Apache-2.0 (uploader)",
        Source(repository=_AI_MO_AIME, split="train", gold_format="padded", year=2023),
    ),
    _mathematics(
        "aime_2024",
        "AIME 2024 I and II",
        30,
        "742a564fce4a6b58",
        "Apache-2.0 (uploader)",
        Source(repository=_AI_MO_AIME, split="train", gold_format="padded", year=2024),
    ),
    _mathematics(
        "aime_2025",
        "AIME 2025 I and II",
        30,
        "460408c33930d5ad",
        "not stated",
        Source(repository="math-ai/aime25", split="test"),
    ),
    _mathematics(
        "amc_2023_40",
        "AMC 12 2023, the 40 problems with integer answers",
        40,
        "29b5f69452594ea7",
        "not stated",
        Source(repository="math-ai/amc23", split="test"),
    ),
    _mathematics(
        "amc_2023_83",
        "AMC 12 2022 and 2023, reworded to integer answers; others call it AMC 2023 too",
        83,
        "11194e3e6e95e7fa",
        "Apache-2.0 (uploader)",
        Source(repository="AI-MO/aimo-validation-amc", split="train", gold_format="float"),
    ),
    EvaluationSet(
        name="gpqa_diamond",
        summary="GPQA Diamond, multiple choice; its text must not be shown in public",
        rows=198,
        answer_type="choice",
        load=load_table,
        prompt="letters",
        protocol="r1",
        licence="CC-BY-4.0",
        gate="accept not to reveal its examples",
        source=Source(repository="Idavidrein/gpqa", config="gpqa_diamond", split="train"),
    ),
    _toy("integer", toy.load_integers),
    _toy("latex", toy.load_latex),
    _toy("choice", toy.load_choices, prompt="options"),
    _chain("steady"),
    _chain("growing"),
)

SETS: dict[str, EvaluationSet] = {row.name: row for row in _ROWS}
"""Name -> set."""
GROUPS: dict[str, tuple[str, ...]] = {"toy": ("toy_integer", "toy_latex", "toy_choice")}
"""A name that stands for several sets."""


def select(names: Iterable[str]) -> list[EvaluationSet]:
    """The sets of these names, groups opened, each once and in the order asked for.

    Raises:
        ConfigError: on an unknown name; the text offers the nearest.
    """
    chosen: dict[str, EvaluationSet] = {}
    for name in names:
        if name not in SETS and name not in GROUPS:
            raise unknown_name("set", name, [*SETS, *GROUPS])
        chosen |= {member: SETS[member] for member in GROUPS.get(name, (name,))}
    return list(chosen.values())
