"""Joins the worker's process group before verl does, as ``actor_rollout_ref.model.external_lib``.

verl names the backend ``cpu:gloo,{device}:{backend}``, which torch refuses on a CPU for naming the device twice, and
leaves a group alone that is there already. verl imports this module in several processes; only a worker has a rank.
"""

from __future__ import annotations

import os

import torch.distributed as dist

if "WG_PREFIX" in os.environ and "RANK" in os.environ and not dist.is_initialized():
    dist.init_process_group("cpu:gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
