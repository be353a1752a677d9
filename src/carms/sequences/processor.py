"""Correlated rollouts by the ``generate`` of ``transformers``."""

import torch
from torch import Tensor

from carms.core.checks.options import whole_number
from carms.sequences.addressed import Addresses
from carms.sequences.coder import Coder
from carms.sequences.counter import signed
from carms.sequences.coupling import COPULAS, epsilon_of
from carms.sequences.policy import Policy

__all__ = ["CoupledProcessor", "keep_only"]


class CoupledProcessor:
    """A ``LogitsProcessor`` that leaves one token: the one that the row's point chooses.

    For one call of ``generate``, with ``num_return_sequences=samples``. It is the sampler, so
    temperature, top-k and top-p are its own; what ``generate`` does with the one token that is left
    makes no difference. Rows must keep their order: no beam search. What comes before it changes
    the policy: give ``generate`` a ``repetition_penalty=1.0`` if the model's ``generation_config``
    has another one, and no processors of your own.

    Args:
        samples: rollouts per prompt, at least 2.
        seed: any integer, a new one for each call. Processes that share it draw from one stream.
        group: number of the first prompt, so that processes with different prompts do not draw the
            same points.
        copula: ``"circular"`` or ``"independent"``.
        epsilon: probability that the rollouts of a prompt are independent after all. Defaults to
            ``default_epsilon(samples)``.
        temperature: divisor of the logits.
        top_k: draw among the k likeliest tokens only, and those that are equal to the last.
        top_p: draw among the likeliest tokens that have this share together.

    Examples:
        >>> processor = CoupledProcessor(samples=3, seed=0)
        >>> prompts, logits = torch.zeros(3, 1, dtype=torch.long), torch.zeros(3, 2)
        >>> processor(prompts, logits)                              # rows of one prompt
        tensor([[-inf, 0.],
                [0., -inf],
                [-inf, 0.]])
    """

    def __init__(
        self,
        samples: int,
        seed: int,
        group: int = 0,
        *,
        copula: str = "circular",
        epsilon: float | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> None:
        self._coupling = copula, epsilon_of(copula, epsilon, samples)
        self._samples = COPULAS[copula](samples).samples
        self._seed = whole_number("seed", seed, most=2**64 - 1)
        self._group = whole_number("group", group)
        self._policy = Policy(temperature, top_k, top_p)
        self._length: int | None = None

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """``[rows, vocabulary]``: 0 for the token that is drawn, ``-inf`` for all others."""
        rows, length = input_ids.shape
        if self._length is None:
            self._start(rows, length, scores.device)
        step = length - self._start_length
        if length != self._length or rows != len(self._addresses.member):
            raise ValueError(
                "a CoupledProcessor serves one call of generate, of rows that keep their order; "
                f"expected {len(self._addresses.member)} rows of {self._length} tokens, got {rows} "
                f"of {length}"
            )
        self._length += 1
        choice = self._coder.choose(self._policy.probabilities(scores), self._addresses.fresh(step))
        return keep_only(choice.token, scores)

    def _start(self, rows: int, length: int, device: torch.device) -> None:
        if rows % self._samples:
            raise ValueError(
                f"rows must be {self._samples} for each prompt, got {rows}; give generate "
                f"num_return_sequences={self._samples}"
            )
        row = torch.arange(rows, device=device)
        seed = torch.full_like(row, signed(self._seed))
        group = self._group + row // self._samples
        self._addresses = Addresses(seed, group, row % self._samples)
        self._coder = Coder(self._addresses.points(self._samples, *self._coupling))
        self._start_length = self._length = length


def keep_only(token: Tensor, scores: Tensor) -> Tensor:
    """Scores ``[rows, vocabulary]`` that leave each row one token."""
    return torch.full_like(scores, -torch.inf).scatter_(-1, token.unsqueeze(-1), 0)
