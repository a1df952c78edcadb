"""Pins against the ranges of pyproject.toml and what verl and vLLM publish; `nox -s resolve` asks pip itself."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import noxfile

ROOT = Path(__file__).parents[1]
DATA = Path(__file__).parent / "data"
EXTRAS = noxfile.RESOLVES | {"verl-gpu": "verl-gpu"}
INSTALLED = [(extra, name) for name, environment in noxfile.ENVIRONMENTS.items() for extra in environment.extras]
GROUPS = [("lint", "cpu"), *((group, name) for name, row in noxfile.ENVIRONMENTS.items() for group in row.groups)]
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "python_version": "3.11"}
Pins = dict[str, Version]


def pins_of(environment: str) -> Pins:
    lines = noxfile.constraints_file(environment).read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def published(distribution: str) -> list[Requirement]:
    lines = (DATA / f"{distribution}.requires.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def applying(requirements: Iterable[Requirement], extra: str = "") -> Iterator[Requirement]:
    """What holds on Linux with the extra, the extras of the same distribution that it names included."""
    requirements = list(requirements)
    for requirement in requirements:
        if requirement.marker is None or requirement.marker.evaluate({**LINUX, "extra": extra}):
            yield requirement
            if requirement.name == "verl":
                for named in requirement.extras:
                    yield from applying(requirements, named)


def misfits(requirements: Iterable[Requirement], pins: Pins) -> list[str]:
    """Requirements that a pin breaks, and exact ones that no pin fixes."""
    found = []
    for requirement in requirements:
        pin = pins.get(canonicalize_name(requirement.name))
        exact = str(requirement.specifier).startswith("==")
        if (pin is None and exact) or (pin is not None and not requirement.specifier.contains(pin)):
            found.append(f"{requirement}: {pin}")
    return found


@pytest.mark.parametrize("file", sorted((ROOT / "constraints").glob("*.txt")), ids=lambda file: file.stem)
def test_a_constraints_file_holds_sorted_exact_pins_alone(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    requirements = [Requirement(line) for line in lines]
    for requirement in requirements:
        (only,) = requirement.specifier
        assert only.operator == "=="
        assert Version(only.version).local is None  # a build of one machine
        assert str(requirement) == f"{requirement.name}{only}"  # no extra, address or marker
    names = [requirement.name for requirement in requirements]
    assert names == sorted({canonicalize_name(name) for name in names})


def test_every_extra_has_a_constraints_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(EXTRAS)


@pytest.mark.parametrize(("extra", "environment"), sorted({*EXTRAS.items(), *INSTALLED}))
def test_pins_lie_in_the_ranges_of_their_extra(extra: str, environment: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [Requirement(line) for line in project["optional-dependencies"][extra]]
    pins = pins_of(environment)
    assert [requirement.name for requirement in requirements if canonicalize_name(requirement.name) not in pins] == []
    assert misfits(requirements, pins) == []


@pytest.mark.parametrize(("group", "environment"), GROUPS)
def test_pins_lie_in_the_ranges_of_the_dependency_groups(group: str, environment: str) -> None:
    requirements = [Requirement(line) for line in noxfile.requirements(group)]
    pins = pins_of(environment)
    assert {canonicalize_name(requirement.name) for requirement in requirements} <= set(pins)
    assert misfits(requirements, pins) == []


@pytest.mark.parametrize("environment", ["cpu", "vllm-cpu", "verl-gpu"])
def test_an_environment_that_evaluates_has_what_evaluating_takes(environment: str) -> None:
    """The extra eval, whichever antlr its math-verify takes, the report's libraries and MLflow."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {Requirement(line).name for extra in noxfile.ENVIRONMENTS[environment].extras for line in extras[extra]}
    wanted = {Requirement(line).name for extra in ("eval", "report") for line in extras[extra]} | {"mlflow"}
    assert wanted <= named


def test_the_cpu_pins_of_verl_satisfy_what_verl_publishes() -> None:
    pins = pins_of("verl-cpu")
    requirements = list(applying(published("verl-0.9.1")))
    assert {canonicalize_name(requirement.name) for requirement in requirements} <= set(pins)
    assert misfits(requirements, pins) == []


@pytest.mark.parametrize(("distribution", "extra"), [("verl-0.9.1", "vllm"), ("vllm-0.24.0", "")])
def test_the_gpu_pins_satisfy_what_verl_and_vllm_publish(distribution: str, extra: str) -> None:
    requirements = list(applying(published(distribution), extra))
    assert len(requirements) > 20
    assert misfits(requirements, pins_of("verl-gpu")) == []


@pytest.mark.parametrize(("name", "version"), [("torch", "2.13.0"), ("transformers", "5.11.0"), ("vllm", "0.25.0")])
def test_a_gpu_pin_that_verl_does_not_accept_is_found(name: str, version: str) -> None:
    requirements = list(applying(published("verl-0.9.1"), "vllm"))
    pins = pins_of("verl-gpu")
    assert any(misfit.startswith(name) for misfit in misfits(requirements, pins | {name: Version(version)}))
    assert any(
        misfit.startswith(name) for misfit in misfits(requirements, {k: v for k, v in pins.items() if k != name})
    )
