from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.engines.verl.preflight import VERSIONS, preflight, report
from benchmarks.engines.verl.settings import VerlEngineSettings
from sagc.config import SagcConfig

CONTROLLER = SagcConfig(candidates=(4, 8, 16), budget=0.25, threshold=3.0)
SETTINGS = VerlEngineSettings(
    hardware="gpu",
    gpus_per_node=2,
    max_prompt_tokens=512,
    max_response_tokens=1024,
    model="Qwen/Qwen2.5-Math-1.5B",
    gpu_memory_gb=75,
)


def node(free_mib: Sequence[int] = (80_000, 80_000), **versions: str):  # type: ignore[no-untyped-def]
    def run(command: Sequence[str]) -> str:
        if command[0] == "nvidia-smi":
            return "".join(f"{memory}, NVIDIA H100\n" for memory in free_mib)
        return json.dumps({**VERSIONS, **versions})

    return run


def failed(
    settings: VerlEngineSettings = SETTINGS, controller: SagcConfig = CONTROLLER, **how: object
) -> dict[str, str]:
    """The checks that fail: name -> line."""
    how = {"environ": {}, "run": node(), "fetch": lambda url: 200, **how}
    checks = preflight(settings, controller, Path("/tmp"), "python", **how)  # type: ignore[arg-type]
    assert len(report(checks).splitlines()) == len(checks)
    return {check.name: check.line() for check in checks if not check.passed}


def test_a_good_node_passes() -> None:
    assert failed() == {}


def test_too_few_or_too_small_gpus_are_named() -> None:
    assert "needs 2 with 75 GiB free each" in failed(run=node([80_000]))["GPUs"]
    assert "NVIDIA H100 39 GiB free" in failed(run=node([80_000, 40_000]))["GPUs"]


def test_a_driver_that_does_not_answer_is_named() -> None:
    def run(command: Sequence[str]) -> str:
        if command[0] == "nvidia-smi":
            raise FileNotFoundError("nvidia-smi")
        return json.dumps(VERSIONS)

    assert "install the NVIDIA driver" in failed(run=run)["GPUs"]


def test_a_cpu_needs_no_gpu() -> None:
    def run(command: Sequence[str]) -> str:
        assert command[0] != "nvidia-smi"
        return json.dumps(VERSIONS)

    assert failed(replace(SETTINGS, hardware="cpu", gpus_per_node=1), run=run) == {}


def test_other_versions_and_a_python_without_verl_are_named() -> None:
    assert "install verl==0.9.1" in failed(run=node(verl="0.10.0"))["versions"]
    assert failed(run=node(torch="2.11.0+cu130")) == {}

    def run(command: Sequence[str]) -> str:
        if command[0] == "nvidia-smi":
            return "80000, A\n80000, B\n"
        raise subprocess.CalledProcessError(1, command)

    assert "name a Python with verl" in failed(run=run)["versions"]


def test_a_hub_that_does_not_answer_or_refuses_is_named() -> None:
    def offline(url: str) -> int:
        raise OSError("no route")

    assert "give the node access to the Hub" in failed(fetch=offline)["model"]
    assert "check the name" in failed(fetch=lambda url: 404)["model"]


def test_a_model_in_a_folder_needs_no_hub(tmp_path: Path) -> None:
    def offline(url: str) -> int:
        raise OSError("no route")

    assert failed(replace(SETTINGS, model=str(tmp_path)), fetch=offline) == {}


def test_the_gated_set_needs_a_token(tmp_path: Path) -> None:
    for name in ("train", "gpqa_diamond"):
        (tmp_path / f"{name}.parquet").touch()
    settings = replace(
        SETTINGS,
        train_files=(str(tmp_path / "train.parquet"),),
        evaluation_files=(str(tmp_path / "gpqa_diamond.parquet"),),
    )
    assert "accept its terms on the Hub and set HF_TOKEN" in failed(settings)["GPQA"]
    assert failed(settings, environ={"HF_TOKEN": "x"}) == {}


def test_missing_data_name_the_command_that_prepares_them() -> None:
    line = failed(replace(SETTINGS, train_files=("no/train.parquet",)))["data"]
    assert "missing no/train.parquet" in line
    assert "python -m benchmarks.engines.verl.data" in line


def test_a_tracking_server_that_does_not_answer_is_named() -> None:
    def fetch(url: str) -> int:
        if "mlflow" in url:
            raise OSError("refused")
        return 200

    environ = {"MLFLOW_TRACKING_URI": "http://mlflow:5000"}
    assert "start it or unset MLFLOW_TRACKING_URI" in failed(fetch=fetch, environ=environ)["MLflow"]
    assert failed(environ={"MLFLOW_TRACKING_URI": "sqlite:////x.db"}) == {}


def test_a_full_disk_is_named() -> None:
    assert "10000000 GiB are needed" in failed(replace(SETTINGS, disk_gb=10_000_000))["disk"]


def test_a_budget_below_the_risk_of_the_smallest_candidate_is_named() -> None:
    line = failed(controller=replace(CONTROLLER, budget=0.1))["budget"]
    assert "0.1 against 0.19 believed of G = 4" in line
    assert "no candidate can hold it" in line
