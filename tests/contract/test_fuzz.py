"""Odd arguments over the whole public surface.

Every call must end in a right result (finite, of the right shape and dtype), in a clear ValueError
or TypeError of our own, or in an error of the user's own function; and it must end.
"""

import dis
import inspect
import math
import random
import signal
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal, OneHotCategorical

import carms
from carms import copulas, couplings, sequences
from carms.estimators import find

SEEDS, CALLS = 50, 60
SECONDS = 15
SHAPES = [(2, 3), (3, 2, 2), (2, 2, 4), (1, 2), (2, 3, 2, 3), (0, 2, 3), (2, 0, 2, 3), (2, 0, 3)]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
PACKAGE = str(Path(carms.__file__).parent)


class TooLongError(BaseException):
    """Not an Exception, so that nobody takes it for one of theirs."""


class Fuzz:
    """Draws arguments, most of them good, and makes one call."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.said = []

    def pick(self, *values):
        value = self.random.choice(values)
        made = isinstance(value, type(lambda: 0)) and value.__name__ == "<lambda>"
        return value() if made and not inspect.signature(value).parameters else value

    def either(self, good, odd, chance=0.1):
        """One of the good values, or seldom one of the odd ones."""
        return self.pick(*(odd if self.maybe(chance) else good))

    def maybe(self, chance=0.1):
        return self.random.random() < chance

    def say(self, **arguments):
        self.said += [f"{name}={_shown(value)}" for name, value in arguments.items()]

    def whole(self, *good, chance=0.08):
        """A number of something."""
        odd = (
            *(-1, 0, 1, 2.5, "4", None, True, 10**9, 10**12, 10**30, float("nan"), float("inf")),
            *(np.int64(4), torch.tensor(4), torch.tensor([1, 2]), [2], -(10**30), 1 + 0j),
            *(torch.empty((), device="meta", dtype=torch.long), np.float64(3), 7),
        )
        return self.either(good, odd, chance)

    def real(self, *good, chance=0.1):
        """A number, which may be none."""
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
        choices = functions(max(0, len(_shape(first) or (1, 1, 1)) - 2))
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
            "orderings": lambda: self.whole("auto", "all", "one", "given", 1, 3),
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
            given["orderings"] = self.whole("auto", "all", "one", "given", 3)
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

    # One method for each part of the surface. It returns a list of (tensor, shape, dtype or None).

    def call_expectation(self):
        name = self.pick(*carms.available())
        logits, samples = self.distribution(), self.samples()
        f = self.function(logits)
        options = self.options(name) if self.maybe(0.5) else {}
        given = {"generator": self.generator(), "terms": self.terms(_variables(logits))}
        if self.maybe(0.2):
            given["one_hot"] = self.either((False, True), (None, "no", 0, torch.ones(2)))
        if self.maybe(0.03):
            name = self.pick("lorf", None, 3, carms.make, "vimco", ["loorf"], {})
        self.say(logits=logits, estimator=name, samples=samples, **given, **options)
        value = carms.expectation(f, logits, name, samples, **given, **options)
        return _checked(value, logits)

    def call_made(self):
        """An object, used in two steps or in one, for a while."""
        name = self.pick(*carms.available())
        options = self.options(name)
        if self.maybe(0.9):
            options["samples"] = self.samples()
        self.say(name=name, **options)
        made = carms.make(name, **options)
        found = []
        for _ in range(2):
            logits, source = self.distribution(), self.generator()
            f, terms = self.function(logits), self.terms(_variables(logits))
            self.say(logits=logits, terms=terms)
            if self.maybe(0.5):
                value = made.expectation(f, logits, source, terms=terms)
            else:
                draw = made.sample(logits, source)
                z = draw.z
                values = f and (f(*z) if isinstance(z, tuple) else f(z))
                other = carms.make("loorf", samples=4).sample(torch.zeros(2, 3))
                draw = self.either((draw,), (None, draw.z, other))
                value = made.surrogate(draw, values, terms)
            found += _checked(value, logits)
        return found

    def call_importance_bound(self):
        logits, samples = self.distribution(), self.samples()
        f = self.function(logits)
        given = {"generator": self.generator()}
        if self.maybe(0.3):
            odd = ("x", None, ["vimco"])
            given["estimator"] = self.either(("leave-one-out", "reinforce"), odd)
        if self.maybe():
            given["one_hot"] = self.either((False,), (None,))
        self.say(logits=logits, samples=samples, **given)
        return _checked(carms.importance_bound(f, logits, samples=samples, **given), logits)

    def call_paths(self):
        given = {"samples": self.samples(), "generator": self.generator()}
        if self.maybe(0.3):
            odd = ("reinforce", "reinmax", None, 3)
            given["estimator"] = self.either(("loorf", "carms-i", "carms-g"), odd)
        self.say(**given)
        paths = carms.Paths(**given)
        first = self.distribution()
        self.say(first=first)
        z = paths.sample(first)
        bits = isinstance(z, tuple) or isinstance(first, Bernoulli)
        second = first if bits else self.either((z * 2, first), (self.logits(), z[0]))
        self.say(second=second)
        last = paths.sample(second)
        f = self.function(first)
        values = f and (f(*last) if isinstance(last, tuple) else f(last))
        return _checked(paths.expectation(values), first)

    def call_compare(self):
        logits = self.distribution()
        shape = _shape(logits)
        if shape and math.prod(shape) > 30:
            logits = self.logits((2, 3))
        f = self.function(logits)
        made = carms.make("reinforce", samples=2)
        good = (
            *(["loorf"], "carms-s", ["loorf", "loorf"], None, [made], made, ("ridge", "exact")),
            *({"mine": made, "plain": "loorf"}, ("carms-s", {"epsilon": 0.3})),
        )
        odd = (
            [None],
            [],
            5,
            ["lorf"],
            [3],
            {"loorf": 1},
            ("loorf", {"epsilon": 0.3}),
            ["loorf", None],
            {3},
            ["arms"],
            torch.ones(2),
        )
        entries = self.either(good, odd, 0.3)
        given = {"samples": self.samples(), "replicates": self.either((2, 3), (1, "4", None, True))}
        self.say(logits=logits, estimators=entries, **given)
        table = carms.compare(f, logits, entries, **given, generator=self.generator())
        assert str(table)
        for row in table.measurements:
            assert math.isfinite(row.variance), row
            assert math.isfinite(row.standard_error), row
        return []

    def call_copula(self):
        copula = self.copula()
        if self.maybe(0.5):
            b = self.either(((2, 1), (), (3,), (1, 2, 3)), ((4,), (3, 3)))
            a = self.odd_tensor(2, 3) if self.maybe() else self.tensor(2, 3)
            b = self.odd_tensor(*b) if self.maybe() else self.tensor(*b)
            self.say(a=a, b=b)
            found = copula.cdf(a, b)
            known = not (a.isnan().any() or b.isnan().any())
            expected = torch.promote_types(a.dtype, b.dtype)
            return [(found, torch.broadcast_shapes(a.shape, b.shape), expected)] if known else []
        odd = (
            *(3, (-1,), "ab", None, (2.5,), [2, 3], (10**9, 10**9), (10**30,), torch.ones(2)),
            *(("a",), np.array([2, 3]), torch.Size([2]), {2: 3}, ((2,),), 2.5),
        )
        shape = self.either(((), (3,), (2, 0)), odd, 0.2)
        given = {"generator": self.generator()}
        if self.maybe(0.4):
            odd = torch.int64, torch.complex64, torch.float8_e5m2, "float32", 3
            given["dtype"] = self.either(FLOATS, odd)
        if self.maybe(0.3):
            odd = "cuda", "meta", "nosuch", "cuda:99", 3, [], "mps", torch.device("meta")
            given["device"] = self.either(("cpu", torch.device("cpu"), None), odd, 0.5)
        self.say(shape=shape, **given)
        u = copula.sample(shape, **given)
        assert ((u > 0) & (u < 1)).all()
        return [(u, (*shape, copula.samples), given.get("dtype", torch.float32))]

    def call_coupling(self):
        coupling = self.coupling()
        shape = self.pick((3,), (2, 4), (0, 3), (2, 3, 2), (5, 40))
        probs = self.probs(shape)
        self.say(probs=probs)
        what = self.pick("sample", "pmf", "pair_ratio", "pair_ratio", "draw")
        self.say(what=what)
        if what == "sample":
            indices = coupling.sample(probs, self.generator())
            _check_indices(indices, probs)
            return [(indices, (coupling.samples, *probs.shape[:-1]), torch.long)]
        if what == "pmf":
            table = coupling.pmf(probs)
            return [(table, (*probs.shape, probs.shape[-1]), torch.float64)]
        if what == "draw":
            indices, ratio = coupling.draw(probs, self.generator())
            _check_indices(indices, probs)
        else:
            indices = coupling.sample(probs)
            if self.maybe(0.4):
                indices = self.pick(
                    lambda: indices + 1,
                    lambda: indices - 1,
                    lambda: indices.float(),
                    lambda: indices.int(),
                    lambda: indices[:2],
                    lambda: indices[:0],
                    lambda: indices.unsqueeze(-1),
                    lambda: indices.tolist(),
                    lambda: indices.to("meta"),
                    lambda: indices.to_sparse(),
                    lambda: indices > 0,
                    lambda: torch.zeros_like(indices),
                    lambda: None,
                )
            self.say(indices=indices)
            ratio = coupling.pair_ratio(probs, indices)
        count = len(indices)
        return [(ratio, (count * (count - 1) // 2, *probs.shape[:-1]), None)]

    def call_sequences(self):
        step = self.either(steps()[:1], steps())
        prompts = torch.zeros(self.pick((1, 0), (2, 3)), dtype=torch.long)
        if self.maybe(0.1):
            prompts = self.odd_tensor(2, 3)
        given = {"samples": self.samples(), "length": self.whole(1, 3, 5)}
        choices = {
            "copula": lambda: self.either(("circular", "independent"), ("x", None, ["circular"])),
            "epsilon": lambda: self.real(0.1, None, 1.0),
            "temperature": lambda: self.real(1.0, 0.5, 3),
            "top_k": lambda: self.whole(1, 3, None, 100),
            "top_p": lambda: self.real(0.5, 1.0, None),
            "eos": lambda: self.whole(None, 2, [1, 2], torch.tensor(1), ()),
            "generator": self.generator,
        }
        given |= {name: choose() for name, choose in choices.items() if self.maybe(0.2)}
        self.say(prompts=prompts, **given)
        group = sequences.rollouts(step, prompts, **given)
        shape = (len(prompts), group.samples)
        found = [(group.log_probs, (*shape, group.tokens.shape[-1]), torch.float64)]
        rewards = self.odd_tensor(*shape) if self.maybe() else self.tensor(*shape)
        log_probs = self.odd_tensor(*shape) if self.maybe() else self.tensor(*shape)
        group = self.either((group,), (None, 3, group.tokens), 0.03)
        self.say(rewards=rewards, log_probs=log_probs, group=group)
        what = self.pick("advantages", "surrogate", "pair_ratio")
        self.say(what=what)
        if what == "advantages":
            return [*found, (sequences.advantages(rewards, group), shape, rewards.dtype)]
        if what == "surrogate":
            value = sequences.surrogate(rewards, log_probs, group)
            return [*found, (value, shape[:1], rewards.dtype)]
        return [*found, (sequences.pair_ratio(group), (*shape, shape[1]), torch.float64)]

    def call_default_epsilon(self):
        samples = self.whole(2, 8, chance=0.7)
        self.say(samples=samples)
        assert 0 < sequences.default_epsilon(samples) <= 1
        return []

    def call_causal_lm(self):
        class Out:
            logits, past_key_values = torch.zeros(4, 1, 5), None

        model = self.either((lambda **_: Out(),), (None, 3))
        odd = torch.ones(3, 3), torch.ones(2, 9), lambda: self.odd_tensor(2, 3)
        mask = self.either((None, torch.ones(2, 3), torch.ones(4, 3) > 0), odd, 0.4)
        self.say(model=model, mask=mask)
        step = sequences.causal_lm(model, mask)
        logits, _ = step(torch.zeros(4, 3, dtype=torch.long), None)
        return [(logits, (4, 5), torch.float32)]

    def call_estimator_class(self):
        coupling = self.either((self.coupling(),), (None, "circular", 3))
        groups = self.whole(1, 2)
        self.say(groups=groups)
        made = carms.estimators.Carms(coupling, groups)
        logits = self.logits()
        self.say(logits=logits)
        return _checked(made.expectation(self.function(logits), logits), logits)


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


def functions(dimensions):
    """Each f by name, for samples with so many dimensions of examples; the first ones are good."""

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


GOOD = 5


def _variables(given):
    shape = _shape(given)
    return shape[-2] if shape and len(shape) > 1 else 2


def _shape(given):
    binary = isinstance(given, Bernoulli)
    given = getattr(given, "_categorical", given)
    given = given._param if isinstance(given, Bernoulli | Categorical) else given
    if not isinstance(given, Tensor) or given.is_nested:
        return None
    return (*given.shape, 2) if binary else tuple(given.shape)


def _distribution(family, name, given):
    """The distribution, if torch makes it, or else what it was to be made of."""
    try:
        return family(**{name: given}, validate_args=False)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return given


def _checked(value, logits):
    """The value and the gradients of the logits."""
    groups = logits if isinstance(logits, tuple) else (logits,)
    shape = _shape(groups[0])[:-2]
    found = [(value, shape, None)]
    leaves = [each for each in groups if isinstance(each, Tensor) and each.requires_grad]
    if leaves and value.requires_grad:
        gradients = torch.autograd.grad(value.sum(), leaves, allow_unused=True)
        for leaf, gradient in zip(leaves, gradients, strict=True):
            found.append((gradient, leaf.shape, leaf.dtype))
    return found


def _check_indices(indices, probs):
    assert (probs.gather(-1, indices.movedim(0, -1)) > 0).all()


def _shown(value):
    if isinstance(value, Tensor):
        return (
            f"{value.dtype}{list(value.shape) if not value.is_nested else 'nested'} {value.layout}"
        )
    return repr(value)[:200]


def _is_ours(error):
    """Raised by a ``raise`` of this package, not by what it called."""
    if type(error) not in (ValueError, TypeError):
        return False
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    code = last.tb_frame.f_code
    raised = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return raised and code.co_filename.startswith(PACKAGE)


def _is_of_f(error):
    """Raised inside a function that the package was given, or that was called here."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(code.co_qualname.startswith(("functions.", "steps.")) for code in codes)


def outcome(fuzz, surface):
    """What became of a call: "right", "refused", "of f", or what was wrong."""

    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        for tensor, shape, dtype in getattr(fuzz, f"call_{surface}")():
            assert tensor.shape == tuple(shape), f"shape {list(tensor.shape)}, expected {shape}"
            assert tensor.isfinite().all(), "not finite"
            assert dtype in (None, tensor.dtype), f"{tensor.dtype}, expected {dtype}"
        return "right"
    except TooLongError:
        return "no end"
    except Exception as error:
        if _is_of_f(error):
            return "of f"
        if _is_ours(error):
            return "refused"
        return "".join(traceback.format_exception(error, limit=-6))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


SURFACES = {
    "expectation": 8,
    "made": 6,
    "importance_bound": 2,
    "paths": 2,
    "compare": 1,
    "copula": 4,
    "coupling": 6,
    "sequences": 4,
    "default_epsilon": 1,
    "causal_lm": 1,
    "estimator_class": 1,
}


def run(seed, calls):
    """Outcomes of calls, and what was wrong."""
    choose, counts, wrong = random.Random(seed), Counter(), []
    for number in range(calls):
        (surface,) = choose.choices(list(SURFACES), list(SURFACES.values()))
        fuzz = Fuzz(f"{seed}-{number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(fuzz, surface)
        counts[found if found in ("right", "refused", "of f") else "wrong"] += 1
        if found not in ("right", "refused", "of f"):
            wrong.append(f"{seed}-{number}: {surface}({', '.join(fuzz.said)})\n{found}")
    return counts, wrong


@pytest.mark.parametrize("seed", range(SEEDS))
def test_odd_arguments(seed, monkeypatch):
    monkeypatch.setattr("carms.core.checks.tensors._memory_of", lambda _: 2 << 30)
    counts, wrong = run(seed, CALLS)
    assert not wrong, "\n\n".join(wrong)
    assert counts["right"]
    assert counts["refused"]
