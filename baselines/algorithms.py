"""GRPO and DAPO as frozen specs, mapped once to each engine.

Sources: GRPO, arXiv 2402.03300; DAPO, arXiv 2503.14476; refill as verl 0.9.1's V1 replay buffer
does it. A number marked [ours] is this project's own choice.

Deliberate differences from verl 0.9.1: there is no dual clip (verl clips the loss of negative
advantages at ratio 3), a group of one has advantage 0 (verl trains its raw reward), and the overlong
penalty has a floor at -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LossAggregation = Literal["sequence_mean", "token_mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSpec:
    """One policy-gradient algorithm, engine-independent."""

    name: str
    loss_aggregation: LossAggregation
    """``sequence_mean``: mean over the rollouts of the mini-batch of each rollout's token mean.
    ``token_mean``: mean over all response tokens of the mini-batch. Degenerate rollouts count in both."""
    clip_low: float
    """Lower clip of the probability ratio: 1 - clip_low."""
    clip_high: float
    """Upper clip of the probability ratio: 1 + clip_high."""
    dynamic_sampling: bool = False
    """Drop groups whose rewards are all equal and draw new prompts for them."""
    refill_factor: int = 2
    """New prompts asked for per evicted group (verl 0.9.1, sync mode); at most one step's prompts a round."""
    max_refill_rounds: int = 4
    """Refill rounds a step may take before it trains on what it has [ours]; verl has no bound."""
    overlong_buffer_frac: float = 0.0
    """Share of the response cap over which the soft overlong penalty grows from 0 to -1; 0: no penalty."""
    advantage_epsilon: float = 1e-6
    """Added to the standard deviation (ddof 1), outside the root."""


GRPO = AlgorithmSpec(
    name="grpo",
    loss_aggregation="sequence_mean",  # arXiv 2402.03300, equation 3
    clip_low=0.2,  # arXiv 2402.03300
    clip_high=0.2,
)

DAPO = AlgorithmSpec(
    name="dapo",
    loss_aggregation="token_mean",  # arXiv 2503.14476, section 3.3
    clip_low=0.2,  # arXiv 2503.14476, section 3.1
    clip_high=0.28,
    dynamic_sampling=True,  # section 3.2
    overlong_buffer_frac=0.2,  # section 3.4: 4,096 of 20,480 tokens
)

ALGORITHMS: dict[str, AlgorithmSpec] = {"grpo": GRPO, "dapo": DAPO}
