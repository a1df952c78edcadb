"""Every row of the verdict tables that the evaluation's facts list, one test each.

`marked` is the judgement made there ("-" where it leaves the choice to the project), `right` this project's verdict;
where the two differ, or the choice was open, `reason` says why.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from benchmarks.evaluation.integers import read_integer
from benchmarks.evaluation.pool import ScoringPool


class Row(NamedTuple):
    number: int
    case: str
    output: str
    gold: str
    marked: str
    right: bool
    reason: str = ""


ROWS = [
    Row(1, "boxed leading zero", r"So the answer is \boxed{033}.", "33", "T", True),
    Row(2, "gold leading zero", r"So the answer is \boxed{33}.", "033", "T", True),
    Row(3, "gold 073 wrong pred 730", r"\boxed{730}", "073", "F", False),
    Row(4, "float gold 27.0", r"\boxed{27}", "27.0", "T", True),
    Row(5, "pred 27.0", r"\boxed{27.0}", "27", "T", True),
    Row(6, "float gold -1.0", r"\boxed{-1}", "-1.0", "T", True),
    Row(7, "dfrac vs dec", r"\boxed{\dfrac{1}{2}}", "0.5", "T", True),
    Row(8, "frac no braces", r"\boxed{\frac12}", "0.5", "T", True),
    Row(9, "percent esc", r"\boxed{50\%}", "50", "-", False, "a percentage is no integer"),
    Row(10, "percent vs frac", r"\boxed{50\%}", "0.5", "-", True, "50% is 0.5"),
    Row(11, "thousands comma", r"\boxed{1,625}", "1625", "T", True),
    Row(12, "thousands brace comma", r"\boxed{1{,}625}", "1625", "T", True),
    Row(13, "thousands latex thin space", r"\boxed{3\,159}", "3159", "T", True),
    Row(14, r"thousands \! comma", r"\boxed{3,\!159}", "3159", "T", True),
    Row(15, "thousands nbsp", "\\boxed{3\u00a0159}", "3159", "T", True),
    Row(16, "units text", r"\boxed{45 \text{ miles}}", "45", "T", True),
    Row(17, "units nospace", r"\boxed{45\text{miles}}", "45", "T", True),
    Row(18, "degrees", r"\boxed{60^\circ}", "60", "T", True),
    Row(19, "dollar money", r"\boxed{\$18}", "18", "T", True),
    Row(20, "empty box", r"The answer is 70. \boxed{}", "70", "F", False),
    Row(21, "empty box only", r"\boxed{}", "70", "F", False),
    Row(22, "no box sentence", "The answer is 70.", "70", "T", False, "no box is no answer"),
    Row(23, "no box trailing num", "We get 70 as the sum, on page 3", "70", "F", False),
    Row(24, "no box last is wrong", "First I tried 70 but the result is 71", "70", "F", False),
    Row(25, "many boxes last right", r"\boxed{1} no wait, \boxed{70}", "70", "T", True),
    Row(26, "many boxes first right last wrong", r"\boxed{70} no wait, \boxed{1}", "70", "F", False),
    Row(
        27,
        "two boxes far apart w/ text",
        r"First, the sub-answer is \boxed{12}. " + "Then we go on for a while. " * 12 + r" Then finally \boxed{70}.",
        "70",
        "T",
        True,
    ),
    Row(28, "boxes joined by and", r"The answers are \boxed{1} and \boxed{70}", "70", "F", True, "the last box counts"),
    Row(29, "boxes joined by comma", r"\boxed{840}, \boxed{840}", "840", "T", True),
    Row(
        30,
        "issue44",
        "therefore \\boxed{840}.,but let me put this after explain.\n\n**Final Answer**\n\\boxed{840}",
        "840",
        "T",
        True,
    ),
    Row(
        31,
        "issue44b",
        "the answer should be \\boxed{004}.\n\nBut let me check again, since the sum has to be right.\n\n"
        "**Final Answer**\n\\boxed{004}",
        "4",
        "T",
        True,
    ),
    Row(32, "unterminated last box after earlier right", r"\boxed{70} ... so finally \boxed{", "70", "F", False),
    Row(33, "truncated mid box", r"so the answer is \boxed{7", "7", "F", False),
    Row(34, "truncated box value prefix", r"so the answer is \boxed{70", "704", "F", False),
    Row(35, "set of guesses", r"\boxed{70, 71, 72}", "70", "F", False),
    Row(36, "or guesses", r"\boxed{70 \text{ or } 71}", "70", "F", False),
    Row(37, "pm", r"\boxed{\pm 70}", "70", "F", False),
    Row(38, "interval", r"\boxed{(1,70)}", "70", "F", False),
    Row(39, "equation", r"\boxed{x=70}", "70", "T", True),
    Row(40, "equation m+n", r"\boxed{m+n=70}", "70", "T", True),
    Row(41, "equation sum", r"\boxed{33+37=70}", "70", "T", True),
    Row(42, "arithmetic unevaluated", r"\boxed{33+37}", "70", "-", True, "unevaluated, but equal"),
    Row(43, "inequality", r"\boxed{x \ge 70}", "70", "F", False),
    Row(44, "words", r"\boxed{seventy}", "70", "-", False, "words are not read"),
    Row(45, "text wrapped", r"\boxed{\text{70}}", "70", "T", True),
    Row(46, "textbf", r"\boxed{\textbf{70}}", "70", "T", True),
    Row(47, "mathbf", r"\boxed{\mathbf{70}}", "70", "T", True),
    Row(48, "fbox", r"\fbox{70}", "70", "T", True),
    Row(49, "boxed space", r"\boxed 70", "70", "T", True),
    Row(50, "boxed double brace", r"\boxed{{70}}", "70", "T", True),
    Row(51, "nested boxed", r"\boxed{\boxed{70}}", "70", "T", True),
    Row(52, "markdown bold no box", "\u2705 Final Answer: **73**", "73", "T", False, "no box is no answer"),
    Row(
        53,
        "issue76",
        "Left: 437 + 2*234 = 905\n\nThus, the number of residents that are left is 73\n\n---\n\n"
        "\u2705 Final Answer: **73**",
        "73",
        "T",
        False,
        "no box is no answer",
    ),
    Row(54, "mod answer", r"\boxed{70 \pmod{1000}}", "70", "T", True),
    Row(55, "mod wrong", r"\boxed{1070 \bmod 1000}", "70", "-", False, "the reduction is not done"),
    Row(56, "big int", r"\boxed{1000000000000000000001}", "1000000000000000000000", "F", False),
    Row(57, "near int", r"\boxed{70.0000001}", "70", "-", False, "not an integer"),
    Row(58, "near int 6", r"\boxed{69.9999999}", "70", "-", False, "not an integer"),
    Row(59, "near int e-6", r"\boxed{70.000001}", "70", "F", False),
    Row(60, "sci", r"\boxed{7 \times 10^1}", "70", "T", True),
    Row(61, "base subscript", r"\boxed{70_{10}}", "70", "T", True),
    Row(62, "hex unicode digits fullwidth", "\\boxed{\uff17\uff10}", "70", "-", False, "ASCII digits only"),
    Row(63, "arabic digits", "\\boxed{\u0667\u0660}", "70", "-", False, "ASCII digits only"),
    Row(64, "unicode minus", "\\boxed{\u22121}", "-1", "T", True),
    Row(65, "zero width", "\\boxed{7\u200b0}", "70", "T", True),
    Row(66, "inf", r"\boxed{\infty}", "70", "F", False),
    Row(67, "nan", r"\boxed{nan}", "70", "F", False),
    Row(68, "think box then other", r"<think>\boxed{70}</think> The final answer is 71", "70", "F", False),
    Row(69, "final answer phrase beats box", r"The final answer is 12. Hmm, actually \boxed{70}", "70", "T", True),
    Row(
        70,
        "box priority w/ hope",
        r"Therefore, the final answer is: $\boxed{70}$. I hope it is correct.",
        "70",
        "T",
        True,
    ),
    Row(
        71, "template echo", r"Therefore, the final answer is: $\boxed{ANSWER}$. I hope it is correct", "70", "F", False
    ),
    Row(72, "after box extra chatter", r"\boxed{70}. Check: 12+58=70, and 3 more steps.", "70", "T", True),
    Row(73, "asy", r"\boxed{70} [asy]draw((0,0)--(1,1));[/asy]", "70", "T", True),
    Row(74, "factorial", r"\boxed{5!}", "120", "T", True),
    Row(75, "factorial prose", r"\boxed{70}!", "70", "T", True),
    Row(76, "sqrt", r"\boxed{\sqrt{4900}}", "70", "T", True),
    Row(77, "gold negative", r"\boxed{1}", "-1", "F", False),
    Row(78, "choice letter w num", r"\boxed{\textbf{(C) }70}", "70", "T", True),
    Row(79, "choice letter only", r"\boxed{C}", "70", "F", False),
    Row(80, "text answer in box w/ sentence", r"\boxed{\text{The answer is }70}", "70", "T", True),
    Row(81, "neg box prob", r"\boxed{-070}", "-70", "T", True),
    Row(82, "dollar sign inside", r"\boxed{$70$}", "70", "T", True),
    Row(83, "period inside", r"\boxed{70.}", "70", "T", True),
    Row(84, "comma dec european", r"\boxed{70,5}", "70.5", "-", False, "a comma separates two answers"),
    Row(85, "space thousands", r"\boxed{1 625}", "1625", "T", True),
    Row(86, "int with trailing zeros", r"\boxed{70.00}", "70", "T", True),
    Row(87, "ratio", r"\boxed{1:2}", "0.5", "-", True, "a ratio is a quotient"),
    Row(88, "mixed number", r"\boxed{3\frac{1}{2}}", "3.5", "T", True),
    Row(89, "prompt injection", r"\boxed{70}\boxed{71}\boxed{72}", "70", "F", False),
    Row(90, "box empty then value line", "\\boxed{}\n70", "70", "-", False, "the last box is empty"),
    Row(91, "percent 100x", r"\boxed{7000\%}", "70", "F", False),
    Row(92, "gold float near", r"\boxed{27.0000001}", "27.0", "-", False, "the gold is 27"),
    Row(93, "gold float near2", r"\boxed{26.9999999}", "27.0", "-", False, "the gold is 27"),
    Row(94, "gold float near3", r"\boxed{27.000001}", "27.0", "F", False),
    Row(95, "false equation rhs", r"\boxed{70=71}", "71", "-", True, "math-verify takes the last side of an equation"),
    Row(96, "chain eq", r"\boxed{m+n=33+37=70}", "70", "T", True),
    Row(97, "two assignments", r"\boxed{m=33, n=37}", "70", "F", False),
    Row(98, "membership", r"\boxed{x \in \{70\}}", "70", "-", True, "the only member"),
    Row(99, "units squared", r"\boxed{70\,\text{cm}^2}", "70", "T", True),
    Row(100, "units squared2", r"\boxed{70 \text{ square units}}", "70", "T", True),
    Row(101, "approx", r"\boxed{\approx 70}", "70", "-", False, "an approximation"),
    Row(102, "empty gold", r"\boxed{70}", "", "F", False),
    Row(103, "gold with degree", r"\boxed{336}", r"336^\circ", "T", True),
    Row(104, "gold with degree deg-pred", r"\boxed{336^\circ}", "336", "T", True),
    Row(
        105,
        "gold None-like",
        r"\boxed{None}",
        "None",
        "-",
        True,
        "both sides read alike",
    ),
    Row(106, "gold letters", r"\boxed{70}", "seventy", "F", False),
    Row(107, "leading plus", r"\boxed{+70}", "70", "T", True),
    Row(108, "parenthesised", r"\boxed{(70)}", "70", "T", True),
    Row(109, "bracketed", r"\boxed{[70]}", "70", "T", True),
    Row(110, "left right", r"\boxed{\left(70\right)}", "70", "T", True),
    Row(111, "displaystyle", r"\boxed{\displaystyle 70}", "70", "T", True),
    Row(112, "hspace", r"\boxed{~70~}", "70", "T", True),
    Row(113, "newline in box", "\\boxed{\n70\n}", "70", "T", True),
    Row(114, "html", r"<b>\boxed{70}</b>", "70", "T", True),
    Row(115, "inline dollars", r"$\boxed{70}$", "70", "T", True),
    Row(116, "display", r"\[\boxed{70}\]", "70", "T", True),
    Row(117, "answer tag", "<answer>70</answer>", "70", "-", False, "no box is no answer"),
    Row(118, "answer tag boxed", r"<answer>\boxed{70}</answer>", "70", "T", True),
    Row(119, "box in think only (truncated)", r"<think>maybe \boxed{70} let me check", "70", "F", False),
    Row(120, "code print", "```python\nprint(70)\n```", "70", "-", False, "no box is no answer"),
    Row(121, "repeat box same far", r"\boxed{70}. Verified: \boxed{70}.", "70", "T", True),
    Row(
        122,
        "two diff boxes 80+ chars",
        r"We first get \boxed{12}. " + "x" * 80 + r" Finally \boxed{70}.",
        "70",
        "T",
        True,
    ),
    Row(123, "two diff boxes <10 chars", r"\boxed{12} -> \boxed{70}", "70", "T", True),
    Row(
        124,
        "two diff boxes 40 chars with comma",
        r"\boxed{12}, then doubling and reducing gives \boxed{70}",
        "70",
        "T",
        True,
    ),
    Row(
        125,
        "two diff boxes 40 chars no sep",
        r"\boxed{12} then doubling gives the final answer \boxed{70}",
        "70",
        "T",
        True,
    ),
    Row(126, "parts a/b", r"(a) \boxed{12} and (b) \boxed{70}", "70", "-", True, "the last box counts"),
    Row(127, "equals text", r"\boxed{\text{Answer: }70}", "70", "T", True),
    Row(128, "mathrm", r"\boxed{\mathrm{70}}", "70", "T", True),
    Row(129, "tiny caps overline", r"\boxed{\overline{70}}", "70", "-", False, "a repeating digit or a conjugate"),
    Row(130, "subscript base 2", r"\boxed{1000110_2}", "70", "T", True),
    Row(131, "binary no base", r"\boxed{1000110}", "70", "F", False),
    Row(132, "roman", r"\boxed{LXX}", "70", "F", False),
    Row(133, "latex dots", r"\boxed{70\ldots}", "70", "-", True, "math-verify drops the dots"),
    Row(134, "question mark", r"\boxed{70?}", "70", "-", False, "the model asks"),
    Row(135, "gold big comma", r"\boxed{3159}", "3,159", "T", True),
    Row(136, "pred repeating text", r"\boxed{70 70}", "70", "-", False, "two numbers"),
    Row(137, "mod 1000 negative", r"\boxed{-930}", "70", "F", False),
    Row(138, "cdot", r"\boxed{7\cdot 10}", "70", "T", True),
    Row(139, "x times", "\\boxed{7 \u00d7 10}", "70", "T", True),
    Row(140, "caret", r"\boxed{2^6+6}", "70", "T", True),
    Row(141, "latex comment", r"\boxed{70 % done}", "70", "-", False, "a percentage is no integer"),
    Row(142, "escaped pct", r"\boxed{70\%}", "0.7", "-", True, "70% is 0.7"),
]

MAY_DIFFER = {22, 28, 52, 53}
"""The only rows where the verdict is not the marked one: no box is no answer, and the last box counts."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}-{row.case}")
def test_verdict(row: Row, pool: ScoringPool) -> None:
    answer_type = "integer" if read_integer(row.gold) is not None else "latex"
    [verdict] = pool.score_many([(answer_type, row.gold, row.output)])
    assert verdict.right is row.right, verdict
    assert verdict.status == ("error" if not row.gold else verdict.status)  # an empty gold is nobody's wrong answer


def test_verdicts_differ_from_the_marks_only_where_documented() -> None:
    differing = {row.number for row in ROWS if row.marked != "-" and (row.marked == "T") is not row.right}
    assert differing == MAY_DIFFER
    assert [row.number for row in ROWS] == list(range(1, 143))
    undecided = {row.number for row in ROWS if row.marked == "-"}
    assert {row.number for row in ROWS if row.reason} == undecided | differing


class Letter(NamedTuple):
    output: str
    gold: str
    option: str | None
    """The option read from the output; None: no answer."""


LETTERS = [
    Letter("Answer: C", "C", "C"),
    Letter(r"\boxed{C}", "C", "C"),
    Letter(r"\boxed{\text{C}}", "C", "C"),
    Letter(r"\boxed{(C)}", "C", "C"),
    Letter(r"\boxed{C) 5 eV}", "C", "C"),
    Letter("**Answer:** C", "C", "C"),
    Letter("The answer is (C).", "C", "C"),
    Letter("Answer: $C$", "C", "C"),
    Letter("Answer: \\boxed{C}\nThis is a good match.", "C", "C"),
    Letter("The correct answer is C because A and B fail.", "C", "C"),
    Letter("A good choice would be C", "C", "C"),
    Letter("Answer: A? No.\nAnswer: C", "C", "C"),
    Letter("Answer: A, C", "C", None),
    Letter("Answer: Cannot be determined", "C", None),
    Letter("Answer: Density", "D", None),
    Letter("I think a catalyst is needed", "A", None),
    Letter("Answer: c", "C", "C"),
]
"""The table of letters; its last column is read off the judgement there."""

MORE_LETTERS = [
    Letter(r"\boxed{\textbf{(B)}} holds", "B", "B"),
    Letter(r"\boxed{A, C}", "C", None),
    Letter(r"\boxed{A) and C)}", "A", None),
    Letter(r"\boxed{AB}", "A", None),
    Letter(r"\boxed{c = 3}", "C", None),
    Letter(r"\boxed{E}", "A", None),
    Letter(r"\boxed{C} or rather \boxed{", "C", None),
    Letter(r"\boxed{C} or rather \boxed{}", "C", None),
    Letter("<think>Answer: C", "C", None),
    Letter("<think>Answer: A</think>Answer: C", "C", "C"),
    Letter("The answer is a catalyst.", "A", None),
    Letter("The wrong answer is A", "A", None),
    Letter("A bad choice would be C", "C", None),
    Letter("Answer: C and D", "C", None),
    Letter("The answer is not A", "A", None),
    Letter("C.", "C", "C"),
]


@pytest.mark.parametrize("row", LETTERS + MORE_LETTERS, ids=lambda row: row.output)
def test_letter_verdict(row: Letter, pool: ScoringPool) -> None:
    [verdict] = pool.score_many([("choice", row.gold, row.output)])
    assert verdict.answer == row.option
    assert verdict.right is (row.option == row.gold)
    assert verdict.status == ("no_answer" if row.option is None else "answered")


FALSE_ACCEPTS = [
    (r"\boxed{(1,625)}", "1625"),  # a pair
    (r"\boxed{1.625}", "1625"),  # a fraction
    (r"\boxed{70_8}", "70"),  # 56
    (r"\boxed{70_2}", "70"),  # not a number in base 2
    (r"\boxed{a_{12}}", "10"),  # a variable, not a digit in base 12
    (r"\boxed{70 \pmod{7}}", "70"),  # 0
    (r"\boxed{\text{not }70}", "70"),
    (r"\boxed{\text{minus }70}", "70"),
    (r"\boxed{\text{The answer is not }70}", "70"),
    (r"\boxed{70 71}", "7071"),
    (r"\boxed{1 6255}", "16255"),
    (r"\boxed{7{,}0}", "70"),
]
"""What the rules that read 54, 78, 80, 91, 127 and 130 must not let through."""


@pytest.mark.parametrize(("output", "gold"), FALSE_ACCEPTS)
def test_reading_integers_accepts_nothing_new(output: str, gold: str, pool: ScoringPool) -> None:
    [verdict] = pool.score_many([("integer", gold, output)])
    assert not verdict.right
    assert verdict.status == "answered"
