"""What a run of a tiny task needs on verl: warm start, tokenizer and prompts, made once and found again."""

from __future__ import annotations

from pathlib import Path

from benchmarks.engines.torch_cpu.warm_start import MODEL, warm_start
from benchmarks.engines.verl.cpu.tokenizer import write_tokenizer
from benchmarks.engines.verl.data import prepare_chain
from benchmarks.engines.verl.overrides import RunPaths, chain_paths, most_steps
from benchmarks.spec import RunSpec
from benchmarks.tasks.modular_chain import EOS, PAD, VOCABULARY


def prepare(spec: RunSpec, cache: Path) -> None:
    """Build what is missing under `cache`."""
    warm_start(spec.task, cache)
    write_tokenizer(_tokenizer(cache), VOCABULARY, eos=EOS, pad=PAD, max_length=MODEL.max_positions)
    data = _data(spec, cache)
    if not data.exists():
        prepare_chain(spec.task, spec.seed, _prompts(spec), spec.evaluation.problems, data)


def paths(spec: RunSpec, folder: Path, cache: Path) -> RunPaths:
    """Where the run reads and writes."""
    cache = cache.resolve()
    return chain_paths(folder, str(warm_start(spec.task, cache)), str(_tokenizer(cache)), _data(spec, cache))


def _tokenizer(cache: Path) -> Path:
    return cache / "verl-tokenizer"


def _data(spec: RunSpec, cache: Path) -> Path:
    name = f"verl-{spec.task}-s{spec.seed}-{_prompts(spec)}-{spec.evaluation.problems}"
    return cache / name


def _prompts(spec: RunSpec) -> int:
    """Rows of the training file: verl starts it again when it runs out, which a run at G = 2 and up does not reach."""
    return most_steps(spec) * spec.rollouts_per_step
