"""Causal language models of ``transformers`` as the step of a rollout."""

import inspect
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from carms.core.checks.tensors import check_function, check_mask, check_same_device

__all__ = ["causal_lm"]

Cache = tuple[int, Any]


def causal_lm(
    model: Callable[..., Any], attention_mask: Tensor | None = None
) -> Callable[[Tensor, Cache | None], tuple[Tensor, Cache]]:
    """A step for [`carms.sequences.rollouts`][] that keeps the model's cache.

    Dropout would give every rollout a policy of its own, so a model with dropout, or with a router
    that adds noise, must be in ``eval()`` mode. So must one with gradient checkpointing, which
    keeps no cache in ``train()`` mode.

    Args:
        model: called as ``model(input_ids=..., past_key_values=..., use_cache=True)``, with
            ``.logits`` and ``.past_key_values`` in what it returns, such as an
            ``AutoModelForCausalLM``. Give the model itself, since a wrapper hides its arguments: it
            is told ``position_ids``, and that the last logits suffice (``logits_to_keep``), if it
            takes them.
        attention_mask: ``[P, t0]``, 0 where a prompt was filled up; on the left, since tokens are
            added on the right. None if the prompts have one length.
    """
    check_function("model", model)
    takes_positions = _takes_positions(model)
    # Those of all tokens of a prompt would be as large as its length times the vocabulary.
    kept = {"logits_to_keep": 1} if "logits_to_keep" in _parameters(model) else {}
    if attention_mask is not None:
        if not isinstance(attention_mask, Tensor):
            raise TypeError(f"attention_mask must be a tensor, got {attention_mask!r}")
        check_mask("attention_mask", attention_mask)
        if attention_mask.ndim != 2 or not len(attention_mask):
            raise ValueError(
                f"attention_mask must be [P, t0], got shape {list(attention_mask.shape)}"
            )
        if not _is_filled_on_the_left(attention_mask):
            raise ValueError(
                "attention_mask must be zeros, where a prompt was filled up on the left, and then "
                "ones up to its end; use the tokenizer with padding_side='left'"
            )

    def step(tokens: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        if not tokens.shape[1]:
            raise ValueError(
                "a causal language model needs prompts of at least one token, such as its first "
                "(bos) token; got t0 = 0"
            )
        seen, past = cache or (0, None)
        if not seen:
            _check_dropout(model)
            _check_prompts(attention_mask, tokens)
        else:
            _check_cache(past)
        places = {}
        if attention_mask is not None:
            places = _masks(attention_mask, tokens, seen)
        elif takes_positions:
            # Some models count from zero in every call if they are not told.
            given = torch.arange(seen, tokens.shape[1], device=tokens.device)
            places = {"position_ids": given.expand(len(tokens), -1)}
        out = model(
            input_ids=tokens[:, seen:].contiguous(),
            past_key_values=past,
            use_cache=True,
            **kept,
            **places,
        )
        # Models without attention have a state of another name.
        past = getattr(out, "past_key_values", None)
        return out.logits[:, -1], (tokens.shape[1], past)

    return step


def _parameters(model: Callable[..., Any]) -> Collection[str]:
    """Names of the arguments that the model takes."""
    called = model.forward if isinstance(model, nn.Module) else model
    return inspect.signature(called).parameters


def _takes_positions(model: Callable[..., Any]) -> bool:
    """Whether the model can be told positions that count from zero.

    Those of RoBERTa and its relatives count from elsewhere, which they know themselves.
    """
    layers = model.modules() if isinstance(model, nn.Module) else ()
    own = any(hasattr(layer, "create_position_ids_from_input_ids") for layer in layers)
    return not own and "position_ids" in _parameters(model)


def _masks(attention_mask: Tensor, tokens: Tensor, seen: int) -> dict[str, Tensor]:
    """The mask of all tokens so far, and the positions of those that are not in the cache."""
    rows, length = tokens.shape
    prompts, given = attention_mask.shape
    mask = attention_mask.long().repeat_interleave(rows // prompts, 0)
    mask = torch.cat((mask, mask.new_ones(rows, length - given)), -1)
    positions = (mask.cumsum(-1) - 1).clamp_min(0)[:, seen:]
    return {"attention_mask": mask, "position_ids": positions}


def _is_filled_on_the_left(attention_mask: Tensor) -> bool:
    used = attention_mask != 0
    return bool((used[:, 1:] >= used[:, :-1]).all() and used[:, -1:].all())


def _check_dropout(model: Callable[..., Any]) -> None:
    if not isinstance(model, nn.Module):
        return
    for name, layer in model.named_modules():
        if layer.training and _drops(layer):
            raise ValueError(
                f"the model is in train() mode and has dropout or noise ({name}), which gives "
                "every rollout a policy of its own: call model.eval() first"
            )


def _drops(layer: nn.Module) -> bool:
    """Whether it is a dropout layer, or has a rate of its own, as attention and routers have."""
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    rates = [value for name, value in vars(layer).items() if "drop" in name or "jitter" in name]
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def _check_cache(past: Any) -> None:
    """Raise if the model kept nothing of its tokens: it would see the next one alone."""
    if _is_empty(past):
        raise ValueError(
            "the model returned no cache (past_key_values), or an empty one. With gradient "
            "checkpointing in train() mode, call model.eval() first; a model whose state has "
            "another name, such as Mamba's, needs a step of its own"
        )


def _is_empty(past: Any) -> bool:
    if past is None:
        return True
    try:
        # The first layer may have a state without a length, and others keys.
        return not (past.get_seq_length() or any(layer.get_seq_length() for layer in past.layers))
    except (AttributeError, ValueError):  # a cache of another kind
        return False


def _check_prompts(attention_mask: Tensor | None, tokens: Tensor) -> None:
    """Raise unless the mask has a row for each prompt in the first call of a step."""
    if attention_mask is None:
        return
    check_same_device("attention_mask", attention_mask, "the prompts are", tokens)
    rows, length = tokens.shape
    prompts, given = attention_mask.shape
    fits = given == length and not rows % prompts
    if fits:
        # The rollouts of a prompt follow each other, and begin with the same tokens.
        together = tokens.view(prompts, -1, length)
        fits = bool((together == together[:, :1]).all())
    if not fits:
        raise ValueError(
            f"attention_mask must be [P, t0], a row for each prompt, got shape {[prompts, given]} "
            f"for {rows} rollouts of prompts of {length} tokens"
        )
