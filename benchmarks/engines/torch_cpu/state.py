"""Weights and optimizer state as named arrays: all that changes in a run of the torch engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

_MODEL, _OPTIMIZER = "model", "optimizer"


def training_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, NDArray[Any]]:
    """Copies of every weight, ``model/<parameter>``, and of what the optimizer keeps, ``optimizer/<parameter>/<key>``.

    A parameter that has not been updated yet has no optimizer entries.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, parameter in model.named_parameters():
        arrays[f"{_MODEL}/{name}"] = parameter.detach().numpy().copy()
        for key, value in optimizer.state.get(parameter, {}).items():
            arrays[f"{_OPTIMIZER}/{name}/{key}"] = value.numpy().copy()
    return arrays


def load_training_state(model: nn.Module, optimizer: torch.optim.Optimizer, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Set model and optimizer to what `training_state` returned for them."""
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(_tensor(arrays[f"{_MODEL}/{name}"]))
        prefix = f"{_OPTIMIZER}/{name}/"
        kept = {key.removeprefix(prefix): _tensor(array) for key, array in arrays.items() if key.startswith(prefix)}
        if kept:
            optimizer.state[parameter] = kept


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(array))  # a copy: the optimizer works in place
