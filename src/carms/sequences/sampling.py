"""Correlated rollouts: whole sequences drawn by inverse CDF from the points of a copula."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from carms.core.checks.options import check_flag, whole_number
from carms.core.checks.tensors import (
    check_floats,
    check_function,
    check_integers,
    check_memory,
    check_same_device,
)
from carms.core.dtypes import precise_dtype
from carms.core.random import uniform
from carms.sampling.mixture import draw_mixed
from carms.sequences.coder import Choice, Coder
from carms.sequences.coupling import COPULAS, epsilon_of
from carms.sequences.policy import Policy
from carms.sequences.record import Rollouts
from carms.sequences.repeatable import check_repeatable

__all__ = ["rollouts"]

Cache = TypeVar("Cache")
Step = Callable[[Tensor, Cache | None], tuple[Tensor, Cache]]


@torch.no_grad()
def rollouts(
    step: Step[Cache],
    prompts: Tensor,
    samples: int,
    length: int,
    copula: str = "circular",
    epsilon: float | None = None,
    temperature: float = 1.0,
    eos: int | Sequence[int] | Tensor | None = None,
    generator: torch.Generator | None = None,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
    finish: bool = False,
) -> Rollouts:
    """Draw ``samples`` rollouts for each prompt that avoid each other.

    Every rollout by itself is an ordinary sample of the policy. All sequences lie side by side on
    [0, 1) in the order of their tokens, each as long as its probability. A rollout is the sequence
    at a uniform point; the points of one prompt come from a copula.

    Args:
        step: ``step(tokens, cache) -> (logits, cache)``, the model. ``tokens [rows, t]`` are the
            prompt and all tokens so far, a row for each rollout; ``logits [rows, vocabulary]`` are
            those of the next token. ``cache`` is what the last call returned, None at first.
            Rollouts of a prompt that start with the same tokens must get the same logits.
        prompts: ``[P, t0]`` tokens, ``t0 >= 0``. Row ``p * samples + n`` is rollout n of prompt p.
        samples: rollouts per prompt, at least 2.
        length: the largest number of tokens per rollout.
        copula: ``"circular"``, or ``"independent"``, which makes ``advantages`` RLOO.
        epsilon: probability that the rollouts of a prompt are independent after all. It bounds
            every pair ratio by ``1 / epsilon`` and biases nothing. Defaults to
            ``default_epsilon(samples)``.
        temperature: divisor of the logits.
        eos: the token that ends a rollout, or several such tokens.
        generator: source of randomness; the global one if None.
        top_k: draw among the k likeliest tokens only, and those that are equal to the last.
        top_p: draw among the likeliest tokens that have this share together.
        finish: True to call ``step`` once more after the last token, for an environment that has to
            see it, and to keep what that call returned as ``Rollouts.cache``.

    Examples:
        >>> def step(tokens, cache):                     # any model: here, tokens like to repeat
        ...     last = torch.nn.functional.one_hot(tokens[:, -1], 5)
        ...     return 2.0 * last, cache
        >>> group = rollouts(step, torch.tensor([[0], [3]]), samples=4, length=6)
        >>> group.tokens.shape, group.log_probs.shape
        (torch.Size([2, 4, 6]), torch.Size([2, 4, 6]))
    """
    policy = Policy(temperature, top_k, top_p)
    ends = _token_numbers(eos)
    _check(prompts, samples, length, ends)
    epsilon = epsilon_of(copula, epsilon, samples)
    check_function("step", step)
    check_flag("finish", finish)
    source = COPULAS[copula](samples)
    shape = (len(prompts), source.samples, prompts.shape[1] + length)
    check_memory("rollouts", shape, 32, prompts.device)
    u = source.sample((len(prompts),), generator, precise_dtype(prompts.device), prompts.device)
    points = draw_mixed(u, (len(u), 1), epsilon, generator).flatten()
    last = torch.tensor(ends, dtype=torch.long, device=prompts.device)
    rows = prompts.long().repeat_interleave(samples, 0)
    choices, cache = _run(step, policy, rows, Coder(points), length, last, generator, finish)
    group = _record(choices, length, last, samples, copula, epsilon)
    if copula != "independent":
        check_repeatable(group.tokens, group.shares)
    return replace(group, cache=cache) if finish else group


def _run(
    step: Step[Cache],
    policy: Policy,
    prompts: Tensor,
    coder: Coder,
    length: int,
    last: Tensor,
    generator: torch.Generator | None,
    finish: bool,
) -> tuple[list[Choice], Cache | None]:
    """Choose tokens for all rows until there are enough of them or every row has ended."""
    rows, given = prompts.shape
    tokens = torch.cat((prompts, prompts.new_zeros(rows, length)), -1)
    ended = torch.zeros(rows, dtype=torch.bool, device=prompts.device)
    cache: Cache | None = None
    choices: list[Choice] = []
    for t in range(given, given + length):
        logits, cache = _check_step(step(tokens[:, :t], cache))
        probs = policy.probabilities(_check_logits(logits, tokens))
        if t == given and len(last) and last.max() >= probs.shape[-1]:
            raise ValueError(
                f"eos must be a token of the model, from 0 to {probs.shape[-1] - 1}, got "
                f"{int(last.max())}"
            )
        choice = coder.choose(probs, uniform((rows,), generator, coder.dtype, prompts.device))
        if len(last):
            choice = choice.fill(ended, last[0])
            ended = torch.isin(choice.token, last)
        choices.append(choice)
        tokens[:, t] = choice.token
        if len(last) and ended.all():
            break
    if finish:
        _, cache = _check_step(step(tokens[:, : given + len(choices)], cache))
    return choices, cache


def _record(
    choices: list[Choice], length: int, last: Tensor, samples: int, copula: str, epsilon: float
) -> Rollouts:
    # Rollouts that all ended early are filled up to their length.
    missing = length - len(choices)
    if missing:
        everyone = torch.ones_like(choices[-1].token, dtype=torch.bool)
        choices = choices + [choices[-1].fill(everyone, last[0])] * missing

    def field(values: tuple[Tensor, ...]) -> Tensor:
        stacked: Tensor = torch.stack(values, -1).unflatten(0, (-1, samples))
        return stacked

    tokens, lower, upper, span = (field(values) for values in zip(*choices, strict=True))
    ended = torch.isin(tokens, last).long()
    lengths = (ended.cumsum(-1) == ended).sum(-1)
    return Rollouts(tokens, lengths, lower, upper, span, copula, epsilon)


def _check(prompts: object, samples: int, length: int, ends: tuple[int, ...]) -> None:
    prompts = check_integers("prompts", prompts)
    if prompts.ndim != 2 or not len(prompts):
        raise ValueError(
            "prompts must be [P, t0], at least one prompt of t0 >= 0 tokens, got shape "
            f"{list(prompts.shape)}"
        )
    if whole_number("samples", samples) < 2:
        raise ValueError(f"rollouts need at least 2 samples, got {samples=}")
    if whole_number("length", length) < 1:
        raise ValueError(f"a rollout has at least 1 token, got length={length}")
    if any(end < 0 for end in ends):
        raise ValueError(f"eos is a token number or several, got {ends}")


def _token_numbers(eos: int | Sequence[int] | Tensor | None) -> tuple[int, ...]:
    if eos is None:
        return ()
    if isinstance(eos, Tensor):
        eos = check_integers("eos", eos).flatten().tolist()
    several = eos if isinstance(eos, Iterable) else [eos]
    return tuple(whole_number("eos", end) for end in several)


def _check_step(returned: Any) -> tuple[Any, Any]:
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise TypeError(
            f"step must return (logits, cache), got {type(returned).__name__}; for a model of "
            "transformers give sequences.causal_lm(model)"
        )
    logits, cache = returned
    return logits, cache


def _check_logits(logits: object, tokens: Tensor) -> Tensor:
    rows = len(tokens)
    if not isinstance(logits, Tensor):
        raise TypeError(f"step must return a tensor of logits, got {type(logits).__name__}")
    check_floats("the logits of step", logits)
    check_same_device("the logits of step", logits, "the prompts are", tokens)
    if logits.ndim != 2 or logits.shape[0] != rows or not logits.shape[1]:
        raise ValueError(
            "step must return the logits of the next token of every row, [rows, vocabulary] with "
            f"rows = {rows}, got shape {list(logits.shape)}"
        )
    return logits
