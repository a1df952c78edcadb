"""A CPU as one of verl's platforms, and the name of the rollout engine that goes with it.

Loaded in every verl process in the middle of ``import verl``, so it imports little. The platform is chosen by
``VERL_PLATFORM=cpu`` alone; FSDP is looked up by ``VERL_ENGINE_DEVICE=cuda``, since verl registers it for
accelerators only and its code is device-neutral.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.workers.rollout import base as rollout_base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

ROLLOUT = "tiny_cpu"
"""``actor_rollout_ref.rollout.name`` of the engine in `rollout`."""
MEMORY_BYTES = 8 << 30
"""What the platform calls its memory [ours]; nothing is sized by it."""


def _device_module() -> types.ModuleType:
    """What stands where verl expects ``torch.cuda``: memory and streams that are not there."""
    module: Any = types.ModuleType("cpu_device")
    none: Callable[..., None] = lambda *args, **kwargs: None  # noqa: E731
    zero: Callable[..., int] = lambda *args, **kwargs: 0  # noqa: E731
    for name in ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved"):
        setattr(module, name, zero)
    for name in ("empty_cache", "ipc_collect", "manual_seed", "manual_seed_all", "reset_peak_memory_stats"):
        setattr(module, name, none)
    module.set_device = module.synchronize = none
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: torch.device("cpu")
    module.mem_get_info = lambda *args, **kwargs: (MEMORY_BYTES, MEMORY_BYTES)
    module.get_device_properties = lambda *args, **kwargs: types.SimpleNamespace(name="cpu", total_memory=MEMORY_BYTES)
    module.get_device_name = lambda *args, **kwargs: "cpu"
    module.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    module.set_rng_state = lambda state, *args, **kwargs: torch.set_rng_state(state)
    module.Stream, module.current_stream = torch.cpu.Stream, torch.cpu.current_stream
    module.stream = lambda *args, **kwargs: nullcontext()
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """One CPU device. Ray counts it as a GPU: a *logical* resource, given by ``ray_init.num_gpus=1``."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        """Always."""
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Never found by itself: a GPU that is there must win."""
        return False

    def current_device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    def device_count(self) -> int:
        """One."""
        return 1

    def set_device(self, device_index: int) -> None:
        """There is nothing to choose."""

    def synchronize(self, device_index: int | None = None) -> None:
        """A CPU is never behind."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """There is no device allocator."""

    def empty_cache(self) -> None:
        """There is no device cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """None."""
        return None, None

    def communication_backend_name(self) -> str:
        """gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """The variable that Ray sets for its logical GPU."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """No profiler."""
        yield

    def profiler_start(self) -> None:
        """No profiler."""

    def profiler_stop(self) -> None:
        """No profiler."""

    def ray_resource_name(self) -> str:
        """Ray's own word, so that verl's placement groups need no change."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """None."""
        return []

    def is_ipc_supported(self) -> bool:
        """No device memory to share."""
        return False

    def cudart(self) -> None:
        """None."""


def _replica() -> type[RolloutReplica]:
    from benchmarks.engines.verl.cpu.rollout import CpuReplica

    return CpuReplica


RolloutReplicaRegistry.register(ROLLOUT, _replica)
# verl has no function to register the worker's side of a rollout engine: the table itself is the place
rollout_base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "benchmarks.engines.verl.cpu.rollout.CpuWeightSync"
