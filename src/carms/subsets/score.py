"""Log probabilities of rankings and subsets, and their derivatives.

Items arrive after exponential times whose rates are the exponentials of the logits. The first k to
come, in order, are a Plackett-Luce ranking; without order, a subset. The probability of a subset
is an integral over the time at which the first item outside it would come,
``P(S) = int e^-t prod_{i in S} (1 - e^(-t r_i)) dt`` with ``r_i`` relative to the rate of all
items outside, and not a sum over its k! orders.
"""

import torch
from torch import Tensor

from carms.core.products import exact_product
from carms.estimators.families.arrivals import arrivals

__all__ = ["log_prob", "member_scores", "outside", "score"]


def log_prob(logits: Tensor, items: Tensor, ordered: bool) -> Tensor:
    """Log probabilities ``[N, *batch]`` of rankings, or of subsets, ``items [N, *batch, k]``.

    Args:
        logits: ``[*batch, n]``, in double precision.
        items: ``[N, *batch, k]``, all different.
        ordered: whether their order counts.

    Examples:
        >>> logits = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
        >>> log_prob(logits, torch.tensor([[0, 1]]), ordered=True).exp()  # 0.5 * 0.3 / 0.5
        tensor([0.3000], dtype=torch.float64)
        >>> log_prob(logits, torch.tensor([[0, 1]]), ordered=False).exp()  # and 0.3 * 0.5 / 0.7
        tensor([0.5143], dtype=torch.float64)
    """
    item_logits, rest = _members(logits, items)
    if ordered:
        return (item_logits - _remaining(item_logits, rest)).sum(-1)
    _, arrived, log_weight = arrivals(_relative(item_logits, rest))
    return (arrived.sum(-1) + log_weight).logsumexp(-1)


def score(logits: Tensor, items: Tensor, ordered: bool) -> Tensor:
    """Derivatives ``[N, *batch, n]`` of ``log_prob`` with respect to the logits.

    That of a subset is the mean over its orders, given the subset.

    Examples:
        >>> score(torch.zeros(3), torch.tensor([[0, 1]]), ordered=False)
        tensor([[ 0.4167,  0.4167, -0.8333]])
    """
    inside = member_scores(logits, items, ordered)
    share = outside(logits, items)
    return (-inside.sum(-1, keepdim=True) * share).scatter(-1, items, inside)


def member_scores(logits: Tensor, items: Tensor, ordered: bool) -> Tensor:
    """The part ``[N, *batch, k]`` of ``score`` that belongs to the members.

    Items outside get minus its sum, each in proportion to its probability.
    """
    item_logits, rest = _members(logits, items)
    if ordered:
        # Item s was in the running at places 1 to s: 1 - sum_{t <= s} w_s / W_t.
        return 1 - (item_logits + (-_remaining(item_logits, rest)).logcumsumexp(-1)).exp()
    x, arrived, log_weight = arrivals(_relative(item_logits, rest))
    weight = (arrived.sum(-1) + log_weight).softmax(-1)
    # The derivative of log(1 - e^-x) with respect to log x is x / (e^x - 1). Near 0 it is 1.
    late = torch.where(x < 1e-13, 1, x.clamp_max(1e4) * torch.expm1(-arrived))
    return exact_product(weight.unsqueeze(-2), late).squeeze(-2)


def outside(logits: Tensor, items: Tensor) -> Tensor:
    """Probabilities ``[N, *batch, n]`` of the next item; zero for the chosen ``items``, and all
    zero if none is left.
    """
    share = _without(logits, items).softmax(-1)
    # If all items are chosen, the softmax is over nothing.
    return torch.nan_to_num(share, 0)


def _members(logits: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Log weights ``[N, *batch, k]`` of the items, and of all others together ``[N, *batch]``."""
    item_logits = logits.expand(*items.shape[:-1], -1).gather(-1, items)
    return item_logits, _without(logits, items).logsumexp(-1)


def _without(logits: Tensor, items: Tensor) -> Tensor:
    return logits.expand(*items.shape[:-1], -1).scatter(-1, items, -torch.inf)


def _remaining(item_logits: Tensor, rest: Tensor) -> Tensor:
    """Log weights ``[N, *batch, k]`` of all that is still in the running at each place."""
    backwards = torch.cat((rest.unsqueeze(-1), item_logits.flip(-1)), -1).logcumsumexp(-1)
    return backwards[..., 1:].flip(-1)


def _relative(item_logits: Tensor, rest: Tensor) -> Tensor:
    """Log rates of the members, relative to all others: infinite if there are none."""
    return torch.where(item_logits == -torch.inf, item_logits, item_logits - rest.unsqueeze(-1))
