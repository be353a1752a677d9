"""A hard sample and the soft one behind it, for REBAR and RELAX."""

from typing import NamedTuple

import torch
from torch import Tensor

from carms.core.dtypes import computing_dtype, without_autocast
from carms.core.probabilities import probabilities
from carms.core.softmax import log_softmax, softmax
from carms.core.variables import Variables
from carms.estimators.families.leaves import leaf
from carms.sampling.gumbel import exponentials, perturbed, perturbed_given

__all__ = ["RelaxedSample"]


class RelaxedSample(NamedTuple):
    """One soft sample with two graphs: equal values, different gradients.

    Attributes:
        logits: ``[*batch, D, C]``, a leaf of their own.
        hard: ``[N, *batch, D, C]`` one-hot.
        soft: from the noise that gave the hard sample.
        soft_given: from the hard sample, and noise that is independent of it.
    """

    logits: Tensor
    hard: Tensor
    soft: Tensor
    soft_given: Tensor

    @staticmethod
    def draw(
        variables: Variables,
        samples: int,
        log_temperature: Tensor,
        generator: torch.Generator | None,
    ) -> "RelaxedSample":
        """Draw samples. The temperature is part of their graph only if the logits are."""
        probabilities(variables.logits)  # raises on NaN and +inf
        with without_autocast(variables.logits):
            logits = variables.logits
            logits = leaf(logits.to(computing_dtype(logits.dtype)), variables)
            log_probs = log_softmax(logits)
            times = exponentials((samples, *logits.shape), logits, generator)
            noisy = perturbed(log_probs, times)
            winner = noisy.argmax(-1)
            with torch.no_grad():
                # Noise for which `perturbed_given` reproduces `noisy`: s' equals s, with another
                # gradient.
                first = (-noisy.amax(-1, keepdim=True)).exp()
                categories = torch.arange(logits.shape[-1], device=logits.device)
                hard = winner.unsqueeze(-1) == categories
                delay = (times - log_probs.exp() * first).clamp_min(torch.finfo(times.dtype).tiny)
                delay = torch.where(hard, first, delay)
            noisy_given = perturbed_given(log_probs, winner, delay)
            if not logits.requires_grad:
                log_temperature = log_temperature.detach()
            temperature = log_temperature.to(logits).exp()
            return RelaxedSample(
                logits,
                hard.to(logits.dtype),
                _softmax(noisy, temperature),
                _softmax(noisy_given, temperature),
            )

    def gradient(self, fz: Tensor, control: Tensor, slopes: Tensor, learning: bool) -> Tensor:
        """Add REINFORCE on ``f`` less the control variate to the gradient of the control variate.

        Args:
            fz: ``[N, *batch]`` at the hard samples.
            control: ``[N, *batch]`` at the soft ones.
            slopes: its derivative there.
            learning: whether to keep the graph to the parameters of the control variate.
        """
        samples = len(fz)
        score = self.hard - softmax(self.logits.detach())
        rest = (fz.detach() - control)[..., None, None]
        (path,) = torch.autograd.grad(
            (self.soft, self.soft_given),
            self.logits,
            (slopes, -slopes),
            retain_graph=True,
            create_graph=learning,
        )
        return (rest * score).mean(0) + path / samples


def _softmax(noisy: Tensor, temperature: Tensor) -> Tensor:
    """Softmax of ``noisy / temperature``, without a derivative where its square is infinite."""
    exists = noisy.detach() > -(torch.finfo(noisy.dtype).max ** 0.5)
    warm = torch.where(exists, noisy, 0) / temperature
    return softmax(torch.where(exists, warm, -torch.inf))
