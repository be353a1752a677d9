"""REBAR."""

import torch
from torch import Tensor

from carms.core.checks.options import positive_number, real_number
from carms.core.checks.tensors import holds
from carms.core.variables import Distribution, Variables
from carms.core.warn import warn_user
from carms.estimators.base import Draw
from carms.estimators.families.control_variate import ControlVariate
from carms.estimators.families.relaxed_sample import RelaxedSample
from carms.estimators.families.slopes import finite_slopes, slope
from carms.estimators.registry import register

__all__ = ["Rebar"]


@register("rebar")
class Rebar(ControlVariate):
    """REINFORCE with ``f`` of a Gumbel-Softmax sample as control variate.

    With a relaxed sample ``s`` behind the hard sample z, and ``s'`` drawn given z:
    ``g = 1/N sum_n (f(z) - a f(s')) (z - p) + a d/dlogits (f(s) - f(s'))``. The two relaxed samples
    use the same random numbers, such that ``s' = s`` and one evaluation serves both. The scale
    ``a`` and the temperature are parameters, learned on the variance.

    Unbiased whatever they are, as long as ``f`` is continuous between the one-hot vectors. An ``f``
    that rounds its input, or compares it with something, jumps without a slope, and the gradient is
    biased; ``relax`` and ``carms-s`` take any ``f``. There is a warning if ``f`` has no slope at
    any of the relaxed samples, but other values than at the hard ones, or different values. 2 N
    evaluations of an ``f`` that is differentiable and defined between the one-hot vectors, twice
    differentiable for learning: it is given the hard samples, then the relaxed ones.

    Args:
        samples: number of samples, at least 1.
        temperature: initial temperature of the relaxation.
        scale: initial scale of the control variate.

    References:
        Tucker et al. (2017) [tucker2017]

    Examples:
        >>> import carms
        >>> estimator = carms.make("rebar", samples=1)  # once; useful at once, better trained
        >>> optimiser = torch.optim.Adam(estimator.parameters(), lr=0.01)
        >>> logits = torch.zeros(2, 3, requires_grad=True)
        >>> estimator.expectation(lambda z: z[..., 0].sum(-1).square(), logits).backward()
        >>> optimiser.step()
        >>> estimator.scale.item() != 1.0
        True
    """

    learned = True
    soft_points = True
    centred = False
    requires = "continuous between the one-hot vectors"

    def __init__(self, samples: int = 8, temperature: float = 0.5, scale: float = 1.0) -> None:
        super().__init__(samples)
        temperature = positive_number("temperature", temperature)
        self.log_temperature = torch.nn.Parameter(torch.tensor(temperature).log())
        self.scale = torch.nn.Parameter(torch.tensor(real_number("scale", scale)))

    def evaluations(self, variables: int, categories: int) -> int:
        return 2 * self.samples

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        log_temperature = self.log_temperature if self.training else self.log_temperature.detach()
        relaxation = RelaxedSample.draw(variables, self.samples, log_temperature, generator)
        indices = relaxation.hard.argmax(-1)
        return Draw(
            self,
            variables,
            torch.cat((indices, indices)),
            relaxation,
            differentiable=torch.cat((relaxation.hard, relaxation.soft)),
        )

    def _gradient(self, draw: Draw[RelaxedSample], fz: Tensor) -> Tensor:
        relaxation = draw.memory
        hard, soft = fz.to(torch.promote_types(fz.dtype, relaxation.hard.dtype)).chunk(2)
        slopes = slope(self, soft, relaxation.soft, create_graph=self.training)
        # Also at categories that are never drawn: second derivatives there train the temperature.
        slopes = finite_slopes(self, slopes)
        self._warn_of_jumps(hard.detach(), soft.detach(), slopes.detach())
        scale = self.scale.to(hard)
        return relaxation.gradient(hard, scale * soft, scale * slopes, self.training)

    def _warn_of_jumps(self, hard: Tensor, soft: Tensor, slopes: Tensor) -> None:
        if holds(lambda: not slopes.any() and ((soft != hard) | (soft != soft[:1])).any()):
            warn_user(
                f"{self} needs an f that is {self.requires}, and here f is as flat as a step: the "
                "gradient may be biased; relax and carms-s take any f",
            )

    def value(self, draw: Draw[RelaxedSample], fz: Tensor) -> Tensor:
        return fz[: self.samples].mean(0)
