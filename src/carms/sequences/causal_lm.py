"""Causal language models of ``transformers`` as the step of a rollout."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["causal_lm"]

Cache = tuple[int, Any]


def causal_lm(
    model: Callable[..., Any], attention_mask: Tensor | None = None
) -> Callable[[Tensor, Cache | None], tuple[Tensor, Cache]]:
    """A step for [`carms.sequences.rollouts`][] that keeps the model's cache.

    Dropout would give every rollout a policy of its own: put the model into ``eval()`` mode.

    Args:
        model: called as ``model(input_ids=..., past_key_values=..., use_cache=True)``, with
            ``.logits`` and ``.past_key_values`` in what it returns, such as an
            ``AutoModelForCausalLM``.
        attention_mask: ``[P, t0]``, 0 where a prompt was filled up; on the left, since tokens are
            added on the right. None if the prompts have one length.
    """

    def step(tokens: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        if not tokens.shape[1]:
            raise ValueError(
                "a causal language model needs prompts of at least one token, such as its first "
                "(bos) token; got t0 = 0"
            )
        seen, past = cache or (0, None)
        masks = {} if attention_mask is None else _masks(attention_mask, tokens, seen)
        out = model(
            input_ids=tokens[:, seen:].contiguous(), past_key_values=past, use_cache=True, **masks
        )
        return out.logits[:, -1], (tokens.shape[1], out.past_key_values)

    return step


def _masks(attention_mask: Tensor, tokens: Tensor, seen: int) -> dict[str, Tensor]:
    """The mask of all tokens so far, and the positions of those that are not in the cache."""
    rows, length = tokens.shape
    prompts, given = attention_mask.shape
    mask = attention_mask.long().repeat_interleave(rows // prompts, 0)
    mask = torch.cat((mask, mask.new_ones(rows, length - given)), -1)
    positions = (mask.cumsum(-1) - 1).clamp_min(0)[:, seen:]
    return {"attention_mask": mask, "position_ids": positions}
