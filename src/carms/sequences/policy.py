"""The probabilities that tokens are drawn with, from logits."""

from dataclasses import dataclass

from torch import Tensor

from carms.core.checks.options import positive_number, probability, whole_number
from carms.core.dtypes import computing_dtype
from carms.core.probabilities import probabilities

__all__ = ["Policy"]


# A smaller share of the likeliest token is zero in single precision.
_SMALLEST = 1e-30


@dataclass(frozen=True)
class Policy:
    """Temperature, then top-k, then top-p; a temperature of 1 and None change nothing.

    Examples:
        >>> import torch
        >>> logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
        >>> Policy(top_k=3).probabilities(logits)
        tensor([[0.4000, 0.3000, 0.2000, 0.0000]])
        >>> Policy(top_p=0.5).probabilities(logits)
        tensor([[0.4000, 0.3000, 0.0000, 0.0000]])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        positive_number("temperature", self.temperature)
        if self.top_k is not None and whole_number("top_k", self.top_k) < 1:
            raise ValueError(f"top_k keeps at least 1 token, got {self.top_k}")
        if self.top_p is not None and not probability("top_p", self.top_p) >= _SMALLEST:
            raise ValueError(f"top_p is a probability above 0, got {self.top_p}")

    def probabilities(self, logits: Tensor) -> Tensor:
        """``[..., vocabulary]``, zero for tokens that are left out; not normalised."""
        if self.temperature != 1:
            logits = logits.to(computing_dtype(logits.dtype)) / self.temperature
        probs = probabilities(logits)
        if self.top_k is not None and self.top_k < probs.shape[-1]:
            # `topk` may take any of several equal tokens: all of them are kept.
            least = probs.topk(self.top_k).values[..., -1:]
            probs = probs.masked_fill(probs < least, 0)
        if self.top_p is not None and self.top_p < 1:
            values, tokens = probs.sort(stable=True, dim=-1, descending=True)
            # Keep a token as long as those before it have less than this share together.
            ends = values.cumsum(-1)
            spare = ends - values >= self.top_p * ends[..., -1:]
            probs = probs.scatter(-1, tokens, values.masked_fill_(spare, 0))
        return probs
