"""Arguments for one call, drawn at random."""

import inspect
import random

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal, OneHotCategorical

from carms import copulas, couplings
from carms.estimators import find
from fuzz.functions import GOOD, functions
from fuzz.shapes import shape_of

SHAPES = [(2, 3), (3, 2, 2), (2, 2, 4), (1, 2), (2, 3, 2, 3), (0, 2, 3), (2, 0, 2, 3), (2, 0, 3)]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


class Arguments:
    """Draws arguments, most of them good, and notes what it drew."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.said = []

    def pick(self, *values):
        value = self.random.choice(values)
        made = isinstance(value, type(lambda: 0)) and value.__name__ == "<lambda>"
        return value() if made and not inspect.signature(value).parameters else value

    def either(self, good, odd, chance=0.1):
        """One of the good values, or with probability ``chance`` one of the odd ones."""
        return self.pick(*(odd if self.maybe(chance) else good))

    def maybe(self, chance=0.1):
        return self.random.random() < chance

    def say(self, **arguments):
        self.said += [f"{name}={_shown(value)}" for name, value in arguments.items()]

    def whole(self, *good, chance=0.08):
        """A whole number, or something odd."""
        odd = (
            *(-1, 0, 1, 2.5, "4", None, True, 10**9, 10**12, 10**30, float("nan"), float("inf")),
            *(np.int64(4), torch.tensor(4), torch.tensor([1, 2]), [2], -(10**30), 1 + 0j),
            *(torch.empty((), device="meta", dtype=torch.long), np.float64(3), 7),
        )
        return self.either(good, odd, chance)

    def real(self, *good, chance=0.1):
        """A real number, or something odd."""
        odd = (
            *(float("nan"), float("inf"), -float("inf"), 1e308, 1e-308, 1e30, 1e-30, -1.0, 0, 0.0),
            *(10**400, True, "0.5", None, 1j, torch.tensor(0.5), np.float32(0.5), [0.5], 1, -0.5),
        )
        return self.either(good, odd, chance)

    def tensor(self, *shape, dtype=None):
        dtype = dtype or self.pick(*FLOATS[:2], torch.float32, *FLOATS)
        source = torch.Generator().manual_seed(self.random.getrandbits(30))
        return torch.randn(shape, generator=source, dtype=torch.float64).to(dtype)

    def odd_tensor(self, *shape):
        """A tensor that is not an ordinary one of floats, or no tensor."""
        plain = self.tensor(*shape, dtype=torch.float32)
        flat = plain.reshape(-1, shape[-1]) if shape else plain.reshape(1, 1)
        return self.pick(
            lambda: plain.to_sparse(),
            lambda: flat.to_sparse_csr(),
            lambda: torch.nested.nested_tensor([flat, flat]),
            lambda: torch.nested.nested_tensor([flat, flat], layout=torch.jagged),
            lambda: plain.to("meta"),
            lambda: plain.to(torch.float8_e4m3fn),
            lambda: plain.to(torch.float8_e5m2),
            lambda: plain.to(torch.complex64),
            lambda: plain.long(),
            lambda: plain > 0,
            lambda: torch.quantize_per_tensor(plain, 0.1, 0, torch.quint8),
            lambda: torch.ones(2, 3).to_mkldnn(),
            lambda: plain.tolist(),
            lambda: plain.numpy(),
            lambda: flat[..., :1],
            lambda: plain.flatten()[:1],
            lambda: plain.sum(),
            lambda: plain.unsqueeze(0).unsqueeze(0),
            lambda: torch.full_like(plain, torch.nan),
            lambda: torch.full_like(plain, torch.inf),
            lambda: torch.full_like(plain, -torch.inf),
            lambda: -plain.abs() - 1,
            *(None, "logits", 3, 0.5, object(), {}, [], Normal(0.0, 1.0)),
        )

    def logits(self, shape=None):
        shape = shape or self.pick(*SHAPES)
        if self.maybe():
            given = self.odd_tensor(*shape)
            if isinstance(given, Tensor) and self.maybe(0.3):
                family = self.pick(Categorical, OneHotCategorical, Bernoulli)
                return _distribution(family, self.pick("logits", "probs"), given)
            return given
        given = self.tensor(*shape)
        change = self.random.random()
        if change < 0.1:
            given = given.masked_fill(given < given.amax(-1, keepdim=True) - 1, -torch.inf)
        elif change < 0.15:
            given = given * 30
        elif change < 0.2:
            given = given.clamp(-1, 1) * torch.finfo(given.dtype).max ** 0.5
        elif change < 0.25:
            given = given.movedim(0, -1).contiguous().movedim(-1, 0)
        elif change < 0.3:
            given = given[..., :1, :].expand_as(given) if shape[-2] else given
        if self.maybe(0.7):
            given = given.detach().requires_grad_()
        kind = self.random.random()
        if kind < 0.05:
            return _distribution(Categorical, "probs", given.softmax(-1))
        if kind < 0.1:
            return _distribution(OneHotCategorical, "logits", given)
        if kind < 0.15:
            return _distribution(Bernoulli, "logits", given)
        return given

    def distribution(self):
        if not self.maybe(0.15):
            return self.logits()
        shape = self.pick(*SHAPES)
        count = self.either((1, 2, 3), (0,))
        groups = tuple(self.logits((*shape[:-1], self.pick(2, 3, 5))) for _ in range(count))
        return self.either((groups,), (list(groups), (groups, *groups)))

    def generator(self):
        if self.maybe(0.05):
            return self.pick(0, "cpu", torch.Generator, np.random.default_rng(0))
        return self.pick(None, torch.Generator().manual_seed(self.random.getrandbits(30)))

    def function(self, logits):
        """An f, most often a good one."""
        first = logits[0] if isinstance(logits, tuple) and logits else logits
        choices = functions(max(0, len(shape_of(first) or (1, 1, 1)) - 2))
        names = list(choices)
        name = self.random.choice(names if self.maybe(0.3) else names[:GOOD])
        self.say(f=name)
        return choices[name]

    def terms(self, variables):
        if not self.maybe(0.15):
            return None
        return self.pick(
            lambda: torch.eye(variables),
            lambda: torch.ones(1, variables),
            lambda: torch.eye(variables, dtype=torch.bool),
            lambda: torch.eye(variables).to_sparse(),
            lambda: torch.eye(variables, device="meta"),
            lambda: torch.eye(variables).to(torch.complex64),
            lambda: torch.eye(variables).to(torch.float8_e5m2),
            lambda: torch.eye(variables) / 2,
            lambda: torch.zeros(variables, variables),
            lambda: torch.eye(variables + 1),
            lambda: torch.eye(variables, requires_grad=True),
            lambda: [[1] * variables],
            lambda: "all",
        )

    def options(self, name):
        """Options of an estimator."""
        known = {
            "baseline": lambda: self.real(None, 0.5, 2, "running-mean"),
            "copula": lambda: self.either(("dirichlet", "gaussian", "stratified"), ("x", None, 3)),
            "coupling": lambda: self.either(("circular", "independent"), ("x", 3, None)),
            "decay": lambda: self.real(0.9, 0.0),
            "draws": lambda: self.whole(1, 3),
            "epsilon": lambda: self.real(0.0, 0.1, 1.0, 0.5),
            "extra": lambda: self.whole(0, 2),
            "gap": lambda: self.real(1.0, 0.5),
            "hidden": lambda: self.whole(1, 4),
            "neighbours": lambda: self.whole(1, 2, None),
            "network": lambda: self.pick(
                *(None, "net", 3, torch.nn.Linear, torch.nn.Identity()),
                *(torch.nn.Linear(6, 1), torch.nn.Linear(6, 1).double(), torch.nn.Linear(6, 2)),
            ),
            "orderings": lambda: self.whole("auto", "all", "largest-first", "given", 1, 3),
            "penalty": lambda: self.real(0.3, 2),
            "scale": lambda: self.real(1.0, 0.5, 0, -2),
            "step": lambda: self.real(0.3, 1),
            "temperature": lambda: self.real(0.5, 1, 10.0),
            "tree": lambda: self.either(("balanced", "stick-breaking"), ("oak", None, [1])),
        }
        taken = inspect.signature(find(name)).parameters
        options = {each: known[each]() for each in known if each in taken and self.maybe(0.4)}
        return options | ({"colour": 3} if self.maybe(0.02) else {})

    def samples(self):
        return self.whole(2, 4, 4, 8, 3, chance=0.05)

    def copula(self):
        kind = self.pick("Circular", "Dirichlet", "Gaussian", "Independent", "Stratified")
        options = {"samples": self.whole(2, 3, 4, 8, chance=0.05)}
        if kind == "Dirichlet" and self.maybe(0.5):
            options["reflected"] = self.either((True, False), ("yes", 1, torch.ones(2)))
        self.say(copula=kind, **options)
        return getattr(copulas, kind)(**options)

    def coupling(self):
        copula = self.either((self.copula(),), ("circular", None, 8), 0.03)
        kind = self.pick("InverseCDF", "InverseCDF", "GumbelMax", "BiasedGumbelMax")
        given = {}
        if kind == "InverseCDF" and self.maybe(0.6):
            given["orderings"] = self.whole("auto", "all", "largest-first", "given", 3)
        if kind != "BiasedGumbelMax" and self.maybe(0.4):
            given["epsilon"] = self.real(0.1, 0.0, 1.0)
        if kind == "BiasedGumbelMax":
            given["extra"] = self.whole(0, 2)
        self.say(coupling=kind, of=copula, **given)
        return getattr(couplings, kind)(copula, **given)

    def probs(self, shape):
        if self.maybe(0.2):
            return self.odd_tensor(*shape)
        probs = self.tensor(*shape).float().softmax(-1)
        if self.maybe(0.2):
            probs = torch.where(probs < probs.amax(-1, keepdim=True), probs, 0)
        return probs.to(self.pick(*FLOATS))


def _distribution(family, name, given):
    """The distribution, if torch makes it, or else what it was to be made of."""
    try:
        return family(**{name: given}, validate_args=False)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return given


def _shown(value):
    if isinstance(value, Tensor):
        return (
            f"{value.dtype}{list(value.shape) if not value.is_nested else 'nested'} {value.layout}"
        )
    return repr(value)[:200]
