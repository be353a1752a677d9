"""Functions and models that a user may hand to the library, good ones and odd ones."""

import torch

# Number of functions, from the first on, that every call should accept.
GOOD = 5


def functions(dimensions):
    """Each f by name, for samples with ``dimensions`` of examples; the first ``GOOD`` are good."""

    def total(*z):
        rows = [each.flatten(1 + dimensions).float() for each in z]
        return sum((row * torch.linspace(-1, 1, row.shape[-1])).sum(-1) for row in rows)

    def squares(*z):
        return total(*z).square() + 1

    def writes(*z):
        for each in z:
            each.mul_(2)
        return total(*z)

    def fails(*z):
        raise KeyError("mine")

    return {
        "total": total,
        "squares": squares,
        "double": lambda *z: squares(*z).double(),
        "half": lambda *z: squares(*z).half(),
        "constant": lambda *z: 0 * total(*z) + 3,
        "writes": writes,
        "fails": fails,
        "view": lambda z, *_: z[(..., *[0] * (z.ndim - 1 - dimensions))],
        "no tensor": lambda *z: 3.0,
        "None": lambda *z: None,
        "list": lambda *z: total(*z).tolist(),
        "detached": lambda *z: total(*z).detach(),
        "integers": lambda *z: total(*z).long(),
        "complex": lambda *z: total(*z).to(torch.complex64),
        "float8": lambda *z: total(*z).to(torch.float8_e5m2),
        "sparse": lambda *z: total(*z).to_sparse(),
        "meta": lambda *z: total(*z).to("meta"),
        "nested": lambda *z: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "nan": lambda *z: total(*z) * torch.nan,
        "scalar": lambda *z: total(*z).sum(),
        "too many": lambda *z: total(*z).unsqueeze(-1),
        "first of the batch": lambda z, *_: z[:, 0].sum() + total(z),
        "expanded": lambda *z: torch.ones(()).expand_as(total(*z)),
        "no function": None,
    }


def steps():
    """Models; the first is a good one."""

    def logits(tokens):
        return torch.arange(5.0).expand(len(tokens), 5) / 3

    return [
        lambda t, c: (logits(t), c),
        lambda t, c: logits(t),
        lambda t, c: (logits(t).to_sparse(), c),
        lambda t, c: (logits(t).to("meta"), c),
        lambda t, c: (logits(t).to(torch.float8_e5m2), c),
        lambda t, c: (logits(t).half(), c),
        lambda t, c: (logits(t)[:1], c),
        lambda t, c: None,
        lambda t, c: 1 / 0,
        None,
    ]
