"""A model of the suite's own kind that nobody has trained."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.engines.torch_cpu.export import write_model
from benchmarks.engines.torch_cpu.model import Decoder, DecoderConfig
from benchmarks.tasks.modular_chain import EOS, PAD, VOCABULARY


def write_untrained(folder: Path) -> None:
    """Export it as every run exports its last one."""
    config = DecoderConfig(vocab_size=len(VOCABULARY), max_positions=256)
    write_model(Decoder(config, torch.Generator().manual_seed(0)), folder, VOCABULARY, eos=EOS, pad=PAD)
