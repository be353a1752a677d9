"""TRL's RLOO trainer with correlated rollouts and their advantages."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trl import RLOOConfig, RLOOTrainer
from trl.models import unwrap_model_for_generation

from carms.sequences.causal_lm import causal_lm
from carms.sequences.correction import advantages, pair_ratio
from carms.sequences.sampling import rollouts

__all__ = ["CoupledRLOOTrainer", "check_settings"]


class CoupledRLOOTrainer(RLOOTrainer):  # type: ignore[misc]
    """``trl.RLOOTrainer`` with completions of a prompt that avoid each other, and the correction.

    It takes the same arguments and has the same rewards, KL penalty and loss. Evaluation draws
    independently, as TRL does. It refuses what would bias the gradient or cannot be drawn:
    ``use_vllm``, ``use_transformers_continuous_batching``, ``top_k``, ``top_p``, ``min_p``,
    ``repetition_penalty``, ``generation_kwargs``, ``normalize_advantages``,
    ``mask_truncated_completions``, images, completions of a prompt from several processes, and
    rewards of None. Further iterations on the same completions (``num_iterations``) have the bias
    of TRL's clipping.

    Args:
        epsilon: probability that the completions of a prompt are independent after all. Defaults to
            ``default_epsilon(num_generations)``.
        **arguments: those of ``trl.RLOOTrainer``.
    """

    def __init__(self, *arguments: Any, epsilon: float | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.coupling_epsilon = epsilon
        check_settings(self.args)

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], images: Any, multimodal_fields: dict[str, Any]
    ) -> list[list[int]]:
        if images is not None:
            raise ValueError("correlated rollouts are for text: the prompts have images")
        if not self.model.training:
            completions: list[list[int]] = super()._generate_single_turn(
                prompt_ids, images, multimodal_fields
            )
            return completions
        # TRL repeats a prompt for each of its completions.
        prompts = [torch.tensor(ids) for ids in prompt_ids[:: self.num_generations]]
        device = self.accelerator.device
        with (
            unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                gradient_checkpointing_kwargs=self.args.gradient_checkpointing_kwargs,
            ) as model,
            self._dist.summon_full_params(self.model_wrapped, recurse=False),
        ):
            # Without dropout: all completions of a prompt are drawn from one policy.
            model.eval()
            group = rollouts(
                causal_lm(model, _padded([torch.ones_like(ids) for ids in prompts], 0).to(device)),
                _padded(prompts, self._tokenizer.pad_token_id).to(device),
                self.num_generations,
                self.max_completion_length,
                epsilon=self.coupling_epsilon,
                temperature=self.temperature,
                eos=self.eos_token_ids,
            )
            model.train()
        self._pair_ratio = pair_ratio(group)
        rows = zip(group.tokens.flatten(0, 1), group.lengths.flatten(), strict=True)
        return [tokens[:length].tolist() for tokens, length in rows]

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(*arguments)
        missing = int(rewards.isnan().all(-1).sum())
        if missing and self.model.training:
            raise ValueError(f"{missing} of {len(rewards)} completions have no reward")
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.model.training:
            # Leave-one-out advantages are N/(N-1) times the rewards, up to a constant per prompt,
            # and differences of rewards are all that is needed.
            count = self.num_generations
            rewards = output["advantages"].view(-1, count) * ((count - 1) / count)
            output["advantages"] = advantages(rewards, self._pair_ratio).flatten()
        return output


def _padded(rows: list[Tensor], value: int) -> Tensor:
    return pad_sequence(rows, batch_first=True, padding_value=value, padding_side="left")


def check_settings(args: RLOOConfig) -> None:
    """Refuse settings that TRL's loss ignores or that bias it, and groups in several processes."""
    neutral: dict[str, tuple[Any, ...]] = {
        "use_vllm": (False,),
        "use_transformers_continuous_batching": (False,),
        "top_k": (0, None),
        "top_p": (1.0,),
        "min_p": (None,),
        "repetition_penalty": (1.0,),
        "generation_kwargs": (None, {}),
        "normalize_advantages": (False,),
        "mask_truncated_completions": (False,),
    }
    for name, allowed in neutral.items():
        value = getattr(args, name)
        if value not in allowed:
            raise ValueError(
                f"correlated rollouts need {name}={allowed[0]}, got {name}={value!r}: the gradient "
                "would be biased, or TRL would have to draw them"
            )
    rows = args.per_device_train_batch_size * args.steps_per_generation
    if rows % args.num_generations:
        raise ValueError(
            "the completions of a prompt must be drawn by one process: "
            "per_device_train_batch_size * steps_per_generation must be a multiple of "
            f"num_generations={args.num_generations}, got {rows}"
        )
