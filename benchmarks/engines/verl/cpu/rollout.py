"""A rollout engine for verl on a CPU: one Ray actor around the torch engine's sampler.

verl's agent loop asks for one rollout at a time; those that wait together are decoded together. Weights arrive from
the trainer after every training step under transformers' names.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from benchmarks.engines.torch_cpu.export import load_qwen2_weights, read_model
from benchmarks.engines.torch_cpu.sampler import sample
from benchmarks.tasks.modular_chain import EOS, PAD
from sagc.errors import ConfigError

GATHER_S = 0.02
"""How long the server waits for more requests before it decodes those that are there [ours]."""


class _Request(NamedTuple):
    prompt: list[int]
    temperature: float
    answer: asyncio.Future[TokenOutput]


class CpuServer:
    """The engine: holds the policy's weights, answers requests in batches.

    Args:
        model_folder: model in the format of the torch engine.
        cap: most tokens of a response.
        seed: of the noise. Requests carry no number of their own and come in any order, so two runs of one seed
            do not sample the same tokens.
    """

    def __init__(self, model_folder: str, cap: int, seed: int) -> None:
        torch.set_num_threads(1)
        self._model, self._cap = read_model(Path(model_folder)), cap
        self._noise = np.random.default_rng(seed)
        self._version: int | None = None
        self._awake = False
        self._waiting: list[_Request] = []
        self._arrived = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer."""
        self._loop = asyncio.create_task(self._answer_forever())

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Rollouts may be asked for again."""
        self._awake = True

    async def sleep(self) -> None:
        """No rollouts until `wake_up`."""
        self._awake = False

    async def clear_kv_cache(self) -> None:
        """Nothing is kept between batches."""

    async def update_weights(self, weights: dict[str, torch.Tensor], version: int | None) -> None:
        """Take over the policy of training step `version`."""
        load_qwen2_weights(self._model, weights)
        self._version, self._awake = version, True

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """One rollout. Raises ConfigError for settings that this sampler does not have."""
        if self._version is None or not self._awake:
            raise ConfigError("generate must come after the first weights and while awake, got a request before; wait")
        if sampling_params.get("top_p", 1.0) != 1.0 or sampling_params.get("top_k", -1) not in (-1, 0):
            raise ConfigError(f"top_p and top_k must be off, got {sampling_params!r}; set top_p=1 top_k=-1")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(list(prompt_ids), float(sampling_params.get("temperature", 1.0)), future))
        self._arrived.set()
        return await future

    async def _answer_forever(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(GATHER_S)
            self._arrived.clear()
            batch, self._waiting = self._waiting, []
            for temperature in sorted({request.temperature for request in batch}):
                await self._answer([request for request in batch if request.temperature == temperature])

    async def _answer(self, batch: list[_Request]) -> None:
        try:
            for request, output in zip(batch, await asyncio.to_thread(self._sample, batch), strict=True):
                request.answer.set_result(output)
        except Exception as error:  # whoever asked must learn of it: the queue itself goes on
            for request in batch:
                if not request.answer.done():
                    request.answer.set_exception(RuntimeError(repr(error)))

    def _sample(self, batch: list[_Request]) -> list[TokenOutput]:
        greedy = batch[0].temperature == 0
        noise = None if greedy else self._noise.random((len(batch), self._cap), dtype=np.float32)
        samples = sample(
            self._model,
            [request.prompt for request in batch],
            1,
            self._cap,
            noise,
            eos=EOS,
            pad=PAD,
            temperature=1.0 if greedy else batch[0].temperature,
        )
        return [
            TokenOutput(
                token_ids=tokens.tolist(),
                log_probs=log_probs.tolist(),
                stop_reason="completed",
                num_preempted=0,
                extra_fields={"global_steps": self._version},
            )
            for tokens, log_probs in zip(samples.tokens, samples.log_probs, strict=True)
        ]


def _server_name(rank: int) -> str:
    return f"tiny_cpu_server_{rank}"


class CpuReplica(RolloutReplica):
    """verl's handle of a `CpuServer`."""

    async def launch_servers(self) -> None:
        """Start the server as a named Ray actor, so that the worker's side finds it."""
        name = _server_name(self.replica_rank)
        options = ray.remote(CpuServer).options(name=name, num_cpus=1, max_concurrency=self.max_concurrency)
        server = options.remote(self.model_config.path, self.config.response_length, self.config.seed)
        await server.start.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class CpuWeightSync(BaseRollout):
    """The trainer's side: hands its weights to the server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self._name = _server_name(replica_rank if replica_rank >= 0 else int(os.environ["RANK"]))

    async def resume(self, tags: list[str]) -> None:
        """Wake the server."""
        await ray.get_actor(self._name).wake_up.remote(tags=tags)

    async def release(self) -> None:
        """Put the server to sleep."""
        await ray.get_actor(self._name).sleep.remote()

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Iterator[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **_: Any,
    ) -> None:
        """Send all weights at once: they are small."""
        if wire_format != "named_tensors":
            raise ConfigError(f"wire_format must be 'named_tensors', got {wire_format!r}; use the naive weight sync")
        state = {name: tensor.detach().to("cpu", torch.float32).clone() for name, tensor in weights}
        await ray.get_actor(self._name).update_weights.remote(state, global_steps)
