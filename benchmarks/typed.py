"""JSON from a file, checked against a dataclass: a record that somebody else has touched is refused, not believed.

Whole numbers are counts and places, so they run from 0 to 2**53; NaN and infinity are floats. Nothing is executed and
no name is looked up: a file can at worst be refused.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sagc.checks import MAX_WHOLE

Kind = TypeVar("Kind")
Check = Callable[[str, Any], Any]
"""(name, value) -> the value as its type has it; raises ValueError."""


def parse_json(text: str | bytes) -> Any:
    """The JSON document in `text`.

    Raises:
        ValueError: if it is none, or nested too deeply to read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def from_json(kind: type[Kind], data: Any) -> Kind:
    """An instance of the dataclass `kind` with the fields of the JSON object `data`.

    Raises:
        ValueError: naming the first field that is unknown, missing or of another type.
    """
    annotation: Any = kind
    instance: Kind = _check(annotation)(kind.__name__, data)
    return instance


@cache
def _check(hashable: Hashable) -> Check:
    """What checks a value of this type."""
    annotation: Any = hashable
    simple: dict[Any, Check] = {Any: lambda name, value: value, int: _whole, float: _real}
    if annotation in simple:
        return simple[annotation]
    if dataclasses.is_dataclass(annotation):
        return _dataclass(annotation)
    if annotation in (str, bool, types.NoneType):
        return _exactly(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _one_of(arguments)
    if origin in (Union, types.UnionType):
        return _union(tuple(map(_check, arguments)))
    if origin is list:
        return _list(_check(arguments[0]))
    if origin is tuple:
        return _tuple(arguments)
    if origin in (dict, Mapping):
        return _table(_check(arguments[1]))
    raise TypeError(f"annotation must be one that JSON can hold, got {annotation!r}; teach benchmarks.typed about it")


def _refusal(name: str, rule: str, value: Any) -> ValueError:
    return ValueError(f"{name} must be {rule}, got {repr(value)[:60]}")


def _whole(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_WHOLE:
        raise _refusal(name, "a whole number from 0 to 2**53", value)
    return value


def _real(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int or abs(value) > MAX_WHOLE:
        raise _refusal(name, "a number", value)
    return value


def _exactly(kind: type) -> Check:
    def check(name: str, value: Any) -> Any:
        if type(value) is not kind:
            raise _refusal(name, {str: "text", bool: "true or false"}.get(kind, "null"), value)
        return value

    return check


def _one_of(known: tuple[Any, ...]) -> Check:
    def check(name: str, value: Any) -> Any:
        if value not in known:
            raise _refusal(name, f"one of {', '.join(map(str, known))}", value)
        return value

    return check


def _union(checks: tuple[Check, ...]) -> Check:
    def check(name: str, value: Any) -> Any:
        for one in checks:
            try:
                return one(name, value)
            except ValueError as error:
                if one is checks[0]:
                    first = error  # of `X | None`, X says it better
        raise first

    return check


def _list(item: Check) -> Check:
    def check(name: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _refusal(name, "a list", value)
        return [item(name, one) for one in value]

    return check


def _tuple(arguments: tuple[Any, ...]) -> Check:
    endless = arguments[-1] is Ellipsis
    items = [_check(argument) for argument in arguments if argument is not Ellipsis]

    def check(name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or (not endless and len(value) != len(items)):
            raise _refusal(name, "a list" if endless else f"a list of {len(items)}", value)
        checks = items * len(value) if endless else items
        return tuple(one(name, part) for one, part in zip(checks, value, strict=True))

    return check


def _table(item: Check) -> Check:
    def check(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _refusal(name, "an object", value)
        return {key: item(f"{name}.{key}", one) for key, one in value.items()}

    return check


def _dataclass(kind: Any) -> Check:
    hints = get_type_hints(kind)
    checks = {field.name: _check(hints[field.name]) for field in dataclasses.fields(kind)}
    needed = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, dict):
            raise _refusal(name, "an object", value)
        if unknown := value.keys() - checks.keys():
            raise ValueError(f"{name} must have no field {min(unknown)[:60]!r}")
        if missing := needed - value.keys():
            raise ValueError(f"{name} must have the field {min(missing)!r}")
        return kind(**{key: checks[key](key, one) for key, one in value.items()})

    return check
