"""Adam, without what ``torch.optim`` does around its kernel."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim.adam import adam

__all__ = ["Adam"]

FIELDS = ("exp_avg", "exp_avg_sq", "step")


class Adam:
    """The optimiser ``torch.optim.Adam(parameters, rate, eps=1e-7, fused=True)``, bit for bit.

    It leaves out the bookkeeping around the kernel, which takes a twentieth of a step of a small
    model.

    Args:
        parameters: what to optimise; those without a gradient are left alone.
        rate: learning rate.
    """

    def __init__(self, parameters: Iterable[Tensor], rate: float) -> None:
        self.rate = rate
        self._all = [
            (
                parameter,
                torch.zeros_like(parameter.detach()),
                torch.zeros_like(parameter.detach()),
                torch.zeros((), dtype=torch.float32, device=parameter.device),
            )
            for parameter in parameters
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters against their gradients."""
        found = [one for one in self._all if one[0].grad is not None]
        if not found:
            return
        parameters, means, squares, steps = map(list, zip(*found, strict=True))
        adam(
            parameters,
            [parameter.grad for parameter in parameters],
            means,
            squares,
            [],
            steps,
            foreach=False,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.rate,
            weight_decay=0.0,
            eps=1e-7,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """The state, by the number of the parameter and the name of the field."""
        return {
            f"{number}.{field}": value
            for number, (_, *values) in enumerate(self._all)
            for field, value in zip(FIELDS, values, strict=True)
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to what ``state`` gave."""
        for name, value in self.state().items():
            value.copy_(state[name])
