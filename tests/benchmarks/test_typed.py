"""JSON is what a dataclass says, or refused by the name of the field."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest

from benchmarks.typed import from_json, parse_json


@dataclass(frozen=True, kw_only=True)
class Inner:
    word: Literal["yes", "no"] = "yes"


@dataclass(frozen=True, kw_only=True)
class Outer:
    count: int
    share: float
    name: str | None
    flag: bool
    sizes: tuple[int, ...]
    pair: tuple[float, float]
    rows: list[list[int]]
    numbers: Mapping[str, float]
    inner: Inner = field(default_factory=Inner)
    anything: dict[str, Any] = field(default_factory=dict)


GOOD: dict[str, Any] = {
    "count": 3, "share": 1, "name": None, "flag": True, "sizes": [4, 8], "pair": [0.5, 1], "rows": [[1], []],
    "numbers": {"a": math.inf}, "inner": {"word": "no"}, "anything": {"x": [None]},
}  # fmt: skip


def test_what_fits_comes_back_as_the_types_say() -> None:
    found = from_json(Outer, GOOD)
    assert found.sizes == (4, 8)
    assert found.inner == Inner(word="no")
    assert from_json(Outer, json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": 3.0}, "count must be a whole number"),
        ({"count": True}, "count must be a whole number"),
        ({"count": -1}, "count must be a whole number"),
        ({"count": 2**60}, "count must be a whole number"),
        ({"share": "1"}, "share must be a number"),
        ({"share": False}, "share must be a number"),
        ({"share": 10**400}, "share must be a number"),
        ({"name": 7}, "name must be text"),
        ({"flag": 1}, "flag must be true or false"),
        ({"sizes": [4, "8"]}, "sizes must be a whole number"),
        ({"sizes": "48"}, "sizes must be a list"),
        ({"pair": [1]}, "pair must be a list of 2"),
        ({"rows": [1]}, "rows must be a list"),
        ({"numbers": {"a": None}}, r"numbers\.a must be a number"),
        ({"inner": {"word": "maybe"}}, "word must be one of yes, no"),
        ({"inner": []}, "inner must be an object"),
        ({"more": 1}, "must have no field 'more'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_json(Outer, {**GOOD, **change})


def test_a_missing_field_and_what_is_no_object_are_refused() -> None:
    with pytest.raises(ValueError, match="must have the field 'count'"):
        from_json(Outer, {key: value for key, value in GOOD.items() if key != "count"})
    with pytest.raises(ValueError, match="Outer must be an object"):
        from_json(Outer, [GOOD])


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 5000])
def test_what_is_no_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)


def test_a_type_that_json_cannot_hold_is_a_mistake_of_the_programmer() -> None:
    @dataclass
    class Wrong:
        value: set[int]

    with pytest.raises(TypeError, match=r"teach benchmarks\.typed"):
        from_json(Wrong, {"value": []})
