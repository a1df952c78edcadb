"""Under 10 minutes on one GPU: the facts that no CPU can show, as one JSON document.

    SAGC_VERL_PYTHON=... python -m tests.verl.gpu_check OUT.json

It measures (1) a decode curve: milliseconds per decode step of a random Qwen2 of 1.5 B parameters at batch 1 to 256;
(2) that a timer without synchronisation is wrong and one with it is within 10 % of CUDA events; (3) the profile `gpu-1`
for 3 steps on a tiny random Qwen2 through verl and vLLM. What cannot run says why. No GPU was at hand when this was
written: its output is no fixture yet.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.engines import ENGINES
from benchmarks.engines.verl.cpu.tokenizer import write_tokenizer
from benchmarks.engines.verl.data import HELD_OUT, TRAIN, prepare_chain
from benchmarks.engines.verl.launcher import VerlEngine
from benchmarks.spec import Horizon, RunSpec
from benchmarks.suite import load_profile, plan
from benchmarks.tasks.modular_chain import EOS, PAD, VOCABULARY
from tests.verl.harness import Collector, policy_of

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DECODE_STEPS = 32
CONTEXT = 512


def events() -> tuple[Any, Any]:
    """Two marks in the GPU's own time."""
    event: Any = torch.cuda.Event
    return event(enable_timing=True), event(enable_timing=True)


def decode_curve() -> dict[str, Any]:
    """Milliseconds per decode step by batch size, with a KV cache of `CONTEXT` tokens, in bf16."""
    config = transformers.Qwen2Config(
        vocab_size=151_936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )
    model: Any = transformers.Qwen2ForCausalLM(config)
    model.to("cuda", torch.bfloat16).eval()
    curve = {}
    with torch.inference_mode():
        for batch in BATCHES:
            tokens = torch.randint(config.vocab_size, (batch, CONTEXT), device="cuda")
            cache = model(tokens, use_cache=True, logits_to_keep=1).past_key_values
            step = tokens[:, :1]
            for _ in range(3):  # warm-up
                model(step, past_key_values=cache, use_cache=True)
            begin, end = events()
            begin.record()
            for _ in range(DECODE_STEPS):
                model(step, past_key_values=cache, use_cache=True)
            end.record()
            torch.cuda.synchronize()
            curve[batch] = begin.elapsed_time(end) / DECODE_STEPS
    return {"model": "random Qwen2, 1.5 B, transformers, bf16", "context": CONTEXT, "ms_per_decode_step": curve}


def timers() -> dict[str, Any]:
    """One matrix product by CUDA events, by a clock with synchronisation, and by one without."""
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        matrix @ matrix
    torch.cuda.synchronize()
    begin, end = events()
    started = time.perf_counter()
    begin.record()
    matrix @ matrix
    end.record()
    unsynchronised = time.perf_counter() - started
    torch.cuda.synchronize()
    synchronised = time.perf_counter() - started
    return {
        "events_ms": begin.elapsed_time(end),
        "synchronised_ms": synchronised * 1e3,
        "unsynchronised_ms": unsynchronised * 1e3,
    }


def tiny_qwen2(folder: Path) -> None:
    """A random Qwen2 that vLLM takes (heads of 64) over the tiny task's vocabulary, with its tokenizer."""
    size = len(VOCABULARY) + 5
    config = transformers.Qwen2Config(
        vocab_size=size,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=EOS,
        pad_token_id=PAD,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder)
    write_tokenizer(folder.with_name("tokenizer"), VOCABULARY, eos=EOS, pad=PAD, max_length=512)


def verl_spec(folder: Path) -> RunSpec:
    """`gpu-1` for 3 steps of 32 rollouts, on the tiny model and task."""
    spec = next(run.spec for run in plan(load_profile("gpu-1", ENGINES), engines=ENGINES, seeds=1, arms=["sagc"]).runs)
    settings = {
        **spec.engine_settings,
        "model": str(folder / "model"),
        "train_files": [str(folder / TRAIN)],
        "evaluation_files": [str(folder / HELD_OUT)],
        "max_prompt_tokens": 64,
        "max_response_tokens": 64,
        "save_every": -1,
        "overrides": [
            *spec.engine_settings["overrides"],
            f"actor_rollout_ref.model.tokenizer_path={folder / 'tokenizer'}",
        ],
    }
    return replace(
        spec,
        horizon=Horizon(prompts=6, rollouts=96),
        rollouts_per_step=32,
        controller=replace(spec.controller, rollouts_per_step=32),
        engine_settings=settings,
        evaluation=replace(spec.evaluation, samples=1),
        training=replace(spec.training, learning_rate=1e-4),
    )


def three_steps() -> dict[str, Any]:
    """What `gpu-1` does on this machine in 3 steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_qwen2(folder / "model")
        prepare_chain("steady", 0, 512, 16, folder)
        spec, sink, engine = verl_spec(folder), Collector(), VerlEngine()
        engine.prepare(spec, folder / "cache")
        outcome = engine.run(spec, policy_of(spec), sink, folder / "run", None)
        return {
            "status": outcome.status,
            "reason": outcome.reason,
            "steps": [asdict(record) for record in sink.steps],
            "timings": [asdict(timing) for timing in sink.timings],
        }


def main() -> None:
    """Measure, and write the JSON document; a part that fails says why and costs the others nothing."""
    if not torch.cuda.is_available():
        sys.exit("no GPU answers: this script is for a machine with one")
    document: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "decode_curve": decode_curve,
        "timers": timers,
        "verl": three_steps,
    }
    for part, measure in parts.items():
        try:
            document[part] = measure()
        except Exception as error:  # of any kind: it is part of the answer
            document[part] = {"not run": f"{type(error).__name__}: {error}"}
    text = json.dumps(document, indent=1)
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
