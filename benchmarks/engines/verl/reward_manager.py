"""verl's reward manager around `rewards`: it hands token ids on, which verl's own managers do not.

``reward.reward_manager.source=importlib name=SuiteRewardManager module.path=pkg://benchmarks.engines.verl.reward_manager``
"""

from __future__ import annotations

from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from benchmarks.engines.verl.rewards import reward


class SuiteRewardManager(RewardManagerBase):
    """Scores one rollout at a time, in a thread: the scorer blocks.

    Reads `data.max_response_length`, and `reward.reward_kwargs.overlong_buffer_tokens` (0 without it).
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self._cap = int(config.data.max_response_length)
        self._buffer = int((config.reward.get("reward_kwargs") or {}).get("overlong_buffer_tokens", 0))

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The reward of the last output of a rollout, in verl's words."""
        item = data[-1]
        responses = item.batch["responses"]
        count = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        tokens = responses[:count].tolist()
        row = item.non_tensor_batch
        scored = await self.loop.run_in_executor(
            None,
            lambda: reward(
                row["data_source"],
                row["reward_model"]["ground_truth"],
                tokens,
                self.tokenizer.decode(tokens, skip_special_tokens=True),
                extra=row.get("extra_info") or {},
                eos=self.tokenizer.eos_token_id,
                cap=self._cap,
                buffer=self._buffer,
            ),
        )
        return {"reward_score": scored.total, "reward_extra_info": scored.extras()}
