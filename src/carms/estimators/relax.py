"""RELAX."""

import torch
from torch import Tensor, nn

from carms.core.checks.options import MOST_UNITS, positive_number, whole_number
from carms.core.checks.samples import check_graph
from carms.core.checks.tensors import check_floats
from carms.core.variables import Distribution, Variables
from carms.estimators.base import Draw
from carms.estimators.families.control_variate import ControlVariate
from carms.estimators.families.relaxed_sample import RelaxedSample
from carms.estimators.families.slopes import slope
from carms.estimators.registry import register

__all__ = ["Relax"]


@register("relax")
class Relax(ControlVariate):
    """REBAR with a network in place of ``f`` of the relaxed sample, so that ``f`` may be anything.

    ``g = 1/N sum_n (f(z) - r(s')) (z - p) + d/dlogits (r(s) - r(s'))`` with the relaxed samples s
    and s' of REBAR and a network r. It and the temperature are learned on the variance. The network
    is zero at first, which is REINFORCE without a baseline: it has to be trained to be
    of use. Unbiased whatever it is, as long as it is continuous and computes every row by itself
    (no batch normalisation). N evaluations of any ``f``.

    Args:
        samples: number of samples, at least 1.
        temperature: initial temperature of the relaxation.
        network: maps ``[N, *batch, D C]``, in the precision of the logits, but at least single, to
            ``[N, *batch, 1]``; by default one hidden layer.
        hidden: number of units of the default network.
        features: number ``D C`` of inputs of the default network, whose parameters then have their
            shapes at once, as optimisers and ``DistributedDataParallel`` need them. By default
            the first call gives them their shapes.

    References:
        Grathwohl et al. (2018) [grathwohl2018]

    Examples:
        >>> import carms
        >>> estimator = carms.make("relax", samples=1, features=2 * 3)  # once, to be trained
        >>> optimiser = torch.optim.Adam(estimator.parameters(), lr=0.01)
        >>> logits = torch.zeros(2, 3, requires_grad=True)
        >>> estimator.expectation(lambda z: (z.argmax(-1) == 0).sum(-1).float(), logits).backward()
        >>> optimiser.step()
    """

    black_box = True
    learned = True
    stateful = True
    centred = False

    def __init__(
        self,
        samples: int = 8,
        temperature: float = 0.5,
        network: nn.Module | None = None,
        hidden: int = 32,
        features: int | None = None,
    ) -> None:
        super().__init__(samples)
        temperature = positive_number("temperature", temperature)
        self.log_temperature = nn.Parameter(torch.tensor(temperature).log())
        if network is not None and features is not None:
            raise ValueError(
                f"features are the inputs of the default network, got features={features} beside "
                "a network"
            )
        self.network = _Perceptron(hidden, features) if network is None else network
        if not isinstance(self.network, nn.Module):
            raise TypeError(f"network must be a torch.nn.Module or None, got {network!r}")

    def sample(self, logits: Distribution, generator: torch.Generator | None = None) -> Draw:
        variables = Variables.of(logits)
        log_temperature = self.log_temperature if self.training else self.log_temperature.detach()
        relaxation = RelaxedSample.draw(variables, self.samples, log_temperature, generator)
        return Draw(self, variables, relaxation.hard.argmax(-1), relaxation)

    def _gradient(self, draw: Draw[RelaxedSample], fz: Tensor) -> Tensor:
        relaxation = draw.memory
        check_graph(self, draw.variables.logits, draw.drawn, relaxation.soft)
        control = self._control(relaxation.soft.flatten(-2), fz.shape)
        slopes = slope(self, control, relaxation.soft, create_graph=self.training)
        return relaxation.gradient(fz, control, slopes, self.training)

    def _control(self, soft: Tensor, expected: torch.Size) -> Tensor:
        """What the network makes of soft samples ``[N, *batch, D C]``: ``[N, *batch]``."""
        claim = (
            f"the network of relax must map {list(soft.shape)} to {[*expected, 1]} in {soft.dtype} "
            "and depend on its input"
        )
        try:
            control = self.network(soft)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise ValueError(f"{claim}; it says: {error}") from error
        if not isinstance(control, Tensor) or control.shape != (*expected, 1):
            got = list(control.shape) if isinstance(control, Tensor) else type(control).__name__
            raise ValueError(f"{claim}, got {got}")
        if not control.requires_grad:
            raise ValueError(f"{claim}, got values that do not")
        return check_floats("the values of the network", control).squeeze(-1)


class _Perceptron(nn.Module):
    """One hidden layer, zero at the start, in the precision of its input."""

    def __init__(self, hidden: int, features: int | None) -> None:
        super().__init__()
        hidden = whole_number("hidden", hidden, least=1, most=MOST_UNITS)
        self.inner = nn.LazyLinear(hidden)
        self.outer = nn.Parameter(torch.zeros(1, hidden))
        self.shift = nn.Parameter(torch.zeros(1))
        if features is not None:
            self._give_shapes(whole_number("features", features, least=1))

    def _give_shapes(self, features: int) -> None:
        # The global random stream is the user's: give shapes, then numbers of our own.
        hidden, source = self.inner.out_features, torch.Generator().manual_seed(0)
        weight = torch.randn(hidden, features, generator=source) / max(1, features) ** 0.5
        self.inner.load_state_dict({"weight": weight, "bias": torch.zeros(hidden)})

    def forward(self, z: Tensor) -> Tensor:
        if self.inner.has_uninitialized_params():
            self._give_shapes(z.shape[-1])
            self.to(z.device)
        inner = nn.functional.linear(z, self.inner.weight.to(z), self.inner.bias.to(z))
        return nn.functional.linear(inner.tanh(), self.outer.to(z), self.shift.to(z))
