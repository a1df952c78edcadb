"""Metric keys that MLflow takes, and numbers that it can hold."""

from __future__ import annotations

import math
import string

import pytest
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import _validate_metric_name

from benchmarks import metrics
from benchmarks.metrics import legal_key, sendable

CONSTANTS = [value for name, value in vars(metrics).items() if name.isupper() and isinstance(value, str)]


def taken_by_mlflow(key: str) -> bool:
    try:
        _validate_metric_name(key)  # type: ignore[no-untyped-call]
    except MlflowException:
        return False
    return True


@pytest.mark.parametrize("key", [key for key in CONSTANTS if not key.endswith("/")])
def test_every_key_is_legal(key: str) -> None:
    assert legal_key(key)
    assert taken_by_mlflow(key)


def test_prefixes_make_legal_keys() -> None:
    for prefix in (metrics.CONTROLLER, metrics.CPU, metrics.WALL):
        assert legal_key(prefix + "risk_8")
        assert taken_by_mlflow(prefix + "risk_8")


@pytest.mark.parametrize("key", ["", ".", "..", "a//b", "/a", "a/", "a/../b", "pass@1", "a\tb"])
def test_what_mlflow_refuses_is_illegal(key: str) -> None:
    assert not legal_key(key)
    assert not taken_by_mlflow(key)


@pytest.mark.parametrize("character", sorted(set(string.printable) - set(string.ascii_letters + string.digits)))
def test_no_key_is_legal_here_that_mlflow_refuses(character: str) -> None:
    key = f"a{character}b"
    assert not legal_key(key) or taken_by_mlflow(key)


def test_a_key_of_more_than_250_characters_is_illegal() -> None:
    assert legal_key("a" * 250)
    assert not legal_key("a" * 251)


def test_one_bad_number_loses_no_other() -> None:
    values = {"good": 1, "none": None, "nan": math.nan, "inf": -math.inf, "pass@1": 1.0}
    assert sendable(values) == ({"good": 1.0}, ["nan", "inf", "pass@1"])
