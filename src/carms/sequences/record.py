"""Rollouts, and the intervals that they own."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from carms.sequences.pieces import Pieces

__all__ = ["Rollouts"]


@dataclass(frozen=True, eq=False)
class Rollouts:
    """``N`` rollouts for each of ``P`` prompts, and the interval of [0, 1) that each one owns.

    Attributes:
        tokens: ``[P, N, length]``; after its end a rollout is filled up with the end token.
        lengths: ``[P, N]``, the number of tokens that count, including the end token.
        lower: ``[P, N, length]``, see ``span``.
        upper: ``[P, N, length]``, see ``span``.
        span: ``[P, N, length]``. Given the tokens before it, token ``t`` owns the part
            ``[lower, upper)`` of ``[0, span)``, all three integers in double precision.
        copula: name of the copula that coupled the rollouts of a prompt.
        epsilon: probability with which they were independent instead.
        complete: whether the tokens are the whole rollouts; False if each rollout goes on
            independently of the others.
        cache: what ``step`` returned in its call after the last token; None without
            ``finish=True``.
    """

    tokens: Tensor
    lengths: Tensor
    lower: Tensor
    upper: Tensor
    span: Tensor
    copula: str
    epsilon: float
    complete: bool = True
    cache: Any = None

    def __repr__(self) -> str:
        prompts, samples, length = self.tokens.shape
        return f"Rollouts({prompts=}, {samples=}, {length=}, copula={self.copula!r})"

    @property
    def samples(self) -> int:
        """The number of rollouts of each prompt."""
        return self.tokens.shape[1]

    @property
    def mask(self) -> Tensor:
        """``[P, N, length]``: True for the tokens that count."""
        steps = torch.arange(self.tokens.shape[-1], device=self.tokens.device)
        return steps < self.lengths.unsqueeze(-1)

    @property
    def shares(self) -> Tensor:
        """``[P, N, length]``: each token's share of the interval of the tokens before it."""
        return (self.upper - self.lower) / self.span

    @property
    def pieces(self) -> Pieces:
        """What each token owns of the interval of the tokens before it, as shares."""
        below, upto = self.lower / self.span, self.upper / self.span
        return Pieces(self.tokens, below, upto, (self.span - self.upper) / self.span, self.shares)

    @property
    def log_probs(self) -> Tensor:
        """``[P, N, length]``: log probabilities of the tokens under the policy that drew them, with
        its temperature, top-k and top-p; zero after the end, and outside the graph.
        """
        return self.shares.log()

    @property
    def start(self) -> Tensor:
        """``[P, N]``: where the interval starts, to double precision."""
        before = (self.log_probs.cumsum(-1) - self.log_probs).exp()
        return (before * self.lower / self.span).sum(-1)

    @property
    def log_width(self) -> Tensor:
        """``[P, N]``: the logarithm of the interval's length, the rollout's log probability."""
        return self.log_probs.sum(-1)
