"""SAGC: straggler-aware group control for synchronous GRPO and DAPO.

A **reference reading** of arXiv 2606.02218 ("Faster Synchronous On-Policy RL via Straggler-Aware Group Sizing"):
a CPU-side primal-dual controller picks the group size G of the next training step from rollout lengths, so that the
long-run straggler rate stays at a budget. The source's equations and numbers are not public; what is ours says so.

Tour:
    `GroupSizeController`  for a training loop of your own: `.group_size`, `.observe(lengths)`, `.state_dict()`
    `SagcConfig`           every setting, validated
    `init`, `update`       the controller as two pure functions over `SagcState` (sagc.controller)
    `Policy`               what a training loop may ask of any policy: `SagcPolicy`, `StaticPolicy`, `ReplayPolicy`
    `straggler_counts`     straggler events of a step (sagc.stragglers)
    `RISK_MODELS`          posteriors of straggler risk, by name (sagc.risk)
    `UTILITIES`            what a larger group is worth, by name (sagc.utility)
    sagc.dual              the price of stragglers
    sagc.integrations      one module per training framework, imported by name only

Importing `sagc` needs numpy alone.
"""

from sagc.config import SagcConfig
from sagc.controller import SagcPolicy, init, update
from sagc.errors import ConfigError, ObservationError, SagcError, StateError
from sagc.group_size import GroupSizeController
from sagc.policies import ReplayPolicy, StaticPolicy
from sagc.protocol import Policy
from sagc.risk import RISK_MODELS
from sagc.state import SagcState
from sagc.stragglers import StragglerCounts, straggler_counts
from sagc.types import Decision, Observation
from sagc.utility import UTILITIES

__version__ = "0.1.0"
__all__ = [
    "RISK_MODELS",
    "UTILITIES",
    "ConfigError",
    "Decision",
    "GroupSizeController",
    "Observation",
    "ObservationError",
    "Policy",
    "ReplayPolicy",
    "SagcConfig",
    "SagcError",
    "SagcPolicy",
    "SagcState",
    "StateError",
    "StaticPolicy",
    "StragglerCounts",
    "init",
    "straggler_counts",
    "update",
]
