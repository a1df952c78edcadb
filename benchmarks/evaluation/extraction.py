r"""Where the answer stands in a model's output.

The answer part is what follows the last ``</think>``. In it the last ``\boxed{...}`` or ``\fbox{...}`` with
balanced braces is the answer; of boxes inside one another, the outermost. A letter may also stand in a line
such as ``Answer: C``. Every function is linear in the text and never raises.
"""

from __future__ import annotations

import re
from typing import NamedTuple

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
LETTERS = "ABCD"

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)  # an escaped brace is matched with its backslash and so passed over
_BARE_NUMBER = re.compile(r"[-+]?[0-9][0-9,]*(?:\.[0-9]+)?")


class Extract(NamedTuple):
    """What was found: `content`, or None and the reason."""

    content: str | None
    reason: str = ""


NO_BOX = Extract(None, "no box")
EMPTY_BOX = Extract(None, "the last box is empty")
OPEN_BOX = Extract(None, "the last box is unterminated")
OPEN_THINKING = Extract(None, "thinking was opened and not closed")
NO_LETTER = Extract(None, "no letter")


def answer_part(text: str) -> str | None:
    """The text after the last ``</think>``; None where thinking is open at its end."""
    end = text.rfind(THINK_CLOSE)
    tail = text if end < 0 else text[end + len(THINK_CLOSE) :]
    return None if THINK_OPEN in tail else tail


def last_box(text: str) -> Extract:
    r"""Content of the last box in the answer part of `text`.

    Degenerate cases: an empty or unterminated last box is no answer, whatever stands in an earlier one; ``\boxed``
    followed by a number without braces is a box; followed by prose it only speaks of boxes and is passed over.
    """
    part = answer_part(text)
    return OPEN_THINKING if part is None else _last_box(part)


def _last_box(text: str) -> Extract:
    for box in reversed(list(_BOX.finditer(text))):
        start = box.end()
        if text[start : start + 1] == "{":
            return _braced(text, start)
        if number := _BARE_NUMBER.match(text, start):
            return Extract(number.group())
        if start == len(text):
            return OPEN_BOX
    return NO_BOX


def _braced(text: str, opening: int) -> Extract:
    closing = _unmatched_close(text, opening + 1)
    if closing is None:
        return OPEN_BOX
    if _unmatched_close(text, closing + 1) is not None:  # only then can another box enclose this one
        opening, closing = _outermost_box(text, opening, closing)
    content = _BOX.sub("", text[opening + 1 : closing]).strip()
    return Extract(content) if content else EMPTY_BOX


def _unmatched_close(text: str, start: int) -> int | None:
    """Position of the first ``}`` from `start` on that closes a brace opened before `start`."""
    depth = 0
    for brace in _BRACES.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth < 0:
            return brace.start()
    return None


def _outermost_box(text: str, opening: int, closing: int) -> tuple[int, int]:
    """Braces of the outermost box around the one at `opening`, which it returns where there is none."""
    boxes = {box.end() for box in _BOX.finditer(text)}
    stack: list[int] = []
    for brace in _BRACES.finditer(text):
        if brace.group() == "{":
            stack.append(brace.start())
        elif brace.group() == "}" and stack:
            opened = stack.pop()
            if opened < opening and brace.start() > closing and opened in boxes:
                opening, closing = opened, brace.start()
    return opening, closing


# Runs of blanks are bounded where two could match the same text: unbounded they cost the square of the length.
_LETTER_BOX = re.compile(r"\\(?:boxed|fbox)\s{0,9}\{([^{}]{0,300}(?:\{[^{}]{0,300}\}[^{}]{0,300})?)\}")
_COMMAND = re.compile(r"\\(?:text\w*|math\w+|mbox|boldsymbol|bm)(?![A-Za-z])|[{}$*~]")
_BOX_LETTER = re.compile(
    r"(?:(?:the )?(?:final |correct )?(?:answer|option|choice)(?: is)?[:\s]{0,9})?"
    r"(?:\(\s?([A-Z])\s?\)|([A-Z])(?![A-Z0-9]))\s?(?:$|[).:])(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_LETTER_PHRASE = re.compile(
    r"(?P<not>\b(?:not|wrong|incorrect|bad|poor)\s{1,9}(?:an?\s|the\s)?)?(?:(?:correct|final|good|best)\s{1,9}){0,2}"
    r"\b(?:(?:answer|choice)\s{1,9}(?:is|would\sbe)|answer\s{0,9}(?=[:*]))"
    r"[:*$\s]{0,20}(?:\\[A-Z]{1,20}\{|\()?[*$\s]{0,9}(?P<letter>[A-Z])(?![A-Z0-9'])[)}$*.\s]{0,20}(?P<rest>[^\n]*)",
    re.IGNORECASE,
)
_LONE_LETTER = re.compile(r"[(*$]{0,4}([A-Da-d])[)*$.]{0,4}")
_ANOTHER_LETTER = re.compile(r"\s{0,9}(?:[,;/&]|and\b|or\b)\s{0,9}(?:(?:and|or)\s)?\s{0,9}\(?[A-D]\b(?!')")


def letter(text: str) -> Extract:
    r"""The option, A to D, that `text` names.

    It is all of `text`, else the last box that holds one lone letter, else the last phrase "answer is C". A letter must
    stand alone (``Density`` is no D) and be the only one (``A, C`` is no answer). In a phrase a small letter counts
    where nothing but punctuation follows it, so that "the answer is a catalyst" names none.

    Degenerate cases: an unterminated or empty last box is no answer, as in `last_box`.
    """
    part = answer_part(text)
    if part is None:
        return OPEN_THINKING
    last = _last_box(part)
    if last in (OPEN_BOX, EMPTY_BOX):
        return last
    if alone := _LONE_LETTER.fullmatch(part.strip()):
        return Extract(alone[1].upper())
    found = [_letter_in_box(box) for box in _LETTER_BOX.findall(part)]
    found = found if any(found) else [_letter_in_phrase(phrase) for phrase in _LETTER_PHRASE.finditer(part)]
    return next((Extract(option) for option in reversed(found) if option), NO_LETTER)


def _letter_in_box(content: str) -> str | None:
    match = _BOX_LETTER.match(_COMMAND.sub(" ", content).strip())
    if not match or _ANOTHER_LETTER.match(match["rest"]):
        return None
    option: str = (match[1] or match[2]).upper()
    return option if option in LETTERS else None


def _letter_in_phrase(phrase: re.Match[str]) -> str | None:
    option, rest = phrase["letter"], phrase["rest"]
    if phrase["not"] or option.upper() not in LETTERS or _ANOTHER_LETTER.match(rest):
        return None
    return None if option.islower() and rest.strip(" .,;:!*$)}") else option.upper()
