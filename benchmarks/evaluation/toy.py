r"""Sets of our own, one per answer type: small enough for a CPU, easy enough that a 135 M model gets some right.

A small model learns the form of an answer from examples, not from an instruction.
"""

from __future__ import annotations

from benchmarks.evaluation.problems import EvaluationSet, LoadOptions, Problem

_WORDS = {"three": 3, "seven": 7, "twelve": 12, "twenty": 20, "forty-five": 45, "one hundred": 100}
_SUMS = ((1, 2), (3, 4), (5, 5), (6, 3), (10, 20), (17, 15))
_FRACTIONS = (
    ("1/2 * 1/3", r"\frac{1}{6}"),
    ("5/7 - 3/7", r"\frac{2}{7}"),
    ("3/5 - 1/5", r"\frac{2}{5}"),
    ("1/3 + 1/3", r"\frac{2}{3}"),
    ("1/2 + 1/4", r"\frac{3}{4}"),
    ("1/4 + 1/4 + 1/4", r"\frac{3}{4}"),
)
_QUESTIONS = (
    ("Which of these is a colour?", ("red", "seven", "quickly", "table")),
    ("Which of these is a number?", ("nine", "cat", "green", "loud")),
    ("Which animal barks?", ("a dog", "a cow", "a hen", "a fish")),
    ("Which month comes after March?", ("April", "June", "January", "October")),
    ("Which of these is a fruit?", ("an apple", "a chair", "a shoe", "a lamp")),
    ("What do people drink?", ("water", "sand", "paper", "stone")),
    ("Which of these can fly?", ("a bird", "a horse", "a snail", "a whale")),
    ("How many legs does a cat have?", ("4", "2", "6", "8")),
)
EXAMPLES: dict[str, tuple[str, ...]] = {
    "integer": (
        "What is 2 + 2?",
        r"2 + 2 = \boxed{4}",
        "Write eighteen in digits.",
        r"eighteen = \boxed{18}",
        "What is 15 + 3?",
        r"15 + 3 = \boxed{18}",
    ),
    "latex": (
        "What is 1/5 + 1/5? Give a fraction.",
        r"\boxed{\frac{2}{5}}",
        "What is 5/9 - 1/9? Give a fraction.",
        r"\boxed{\frac{4}{9}}",
    ),
    "choice": (
        "Which of these is a day?\n\nA) butter\nB) Monday\nC) blue\nD) slow",
        r"B) Monday is a day: \boxed{B}",
        "Which of these is a metal?\n\nA) wood\nB) cotton\nC) milk\nD) iron",
        r"D) iron is a metal: \boxed{D}",
    ),
}
"""Answer type -> turns shown before every question of its toy set."""
SIZES = {"integer": len(_WORDS) + len(_SUMS), "latex": len(_FRACTIONS), "choice": len(_QUESTIONS)}
"""Answer type -> problems of its toy set."""


def load_integers(row: EvaluationSet, options: LoadOptions) -> list[Problem]:
    """Numbers in words, and sums of two small ones."""
    words = [Problem(f"word-{gold}", f"Write {word} in digits.", str(gold)) for word, gold in _WORDS.items()]
    return words + [Problem(f"sum-{a}-{b}", f"What is {a} + {b}?", str(a + b)) for a, b in _SUMS]


def load_latex(row: EvaluationSet, options: LoadOptions) -> list[Problem]:
    """Sums of fractions, whose answers are no integers."""
    return [
        Problem(f"fraction-{number}", f"What is {term}? Give a fraction.", gold)
        for number, (term, gold) in enumerate(_FRACTIONS)
    ]


def load_choices(row: EvaluationSet, options: LoadOptions) -> list[Problem]:
    """Questions with four options, the right one first."""
    return [
        Problem(f"question-{number}", question, answers[0], answers)
        for number, (question, answers) in enumerate(_QUESTIONS)
    ]
