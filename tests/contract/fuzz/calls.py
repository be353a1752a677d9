"""One call of each part of the public surface."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli

import carms
from carms import sequences, subsets
from fuzz.arguments import FLOATS, Arguments
from fuzz.functions import steps
from fuzz.shapes import shape_of, variables_of


class Calls(Arguments):
    """A method for each part of the surface, which returns a list of (tensor, shape, dtype)."""

    def call_expectation(self):
        name = self.pick(*carms.available())
        logits, samples = self.distribution(), self.samples()
        f = self.function(logits)
        options = self.options(name) if self.maybe(0.5) else {}
        given = {"generator": self.generator(), "terms": self.terms(variables_of(logits))}
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
            f, terms = self.function(logits), self.terms(variables_of(logits))
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
        shape = shape_of(logits)
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
            a, b = (x if isinstance(x, torch.Tensor) else torch.tensor(x).double() for x in (a, b))
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

    def call_subsets(self):
        name = self.either(subsets.available(), ("lorf", None, 3, ["loorf"], "carms-s"), 0.03)
        logits = self.logits(self.pick((2, 5), (1, 4), (2, 3, 4), (0, 3), (2, 0, 3), (1, 12)))
        given = {"size": self.whole(1, 2, 3), "samples": self.samples()}
        choices = {
            "ordered": lambda: self.either((True, False), (None, "no", 0)),
            "epsilon": lambda: self.real(0.1, None, 1.0),
            "temperature": lambda: self.real(1.0, 0.5, 3),
            "neighbours": lambda: self.whole(1, 2),
            "generator": self.generator,
        }
        given |= {name: choose() for name, choose in choices.items() if self.maybe(0.15)}
        self.say(estimator=name, logits=logits, **given)

        def f(z):
            return z.double().cos().sum(-1)

        if self.maybe(0.5):
            value = subsets.expectation(f, logits, estimator=name, **given)
        else:
            draw = subsets.sample(logits, estimator=name, **given)
            value = subsets.surrogate(draw, f(draw.z))
        found = [(value, logits.shape[:-1], torch.float64)]
        if logits.requires_grad and value.requires_grad:
            (gradient,) = torch.autograd.grad(value.sum(), logits)
            found.append((gradient, logits.shape, logits.dtype))
        return found

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


def _checked(value, logits):
    """The value and the gradients of the logits."""
    groups = logits if isinstance(logits, tuple) else (logits,)
    shape = shape_of(groups[0])[:-2]
    found = [(value, shape, None)]
    leaves = [each for each in groups if isinstance(each, Tensor) and each.requires_grad]
    if leaves and value.requires_grad:
        gradients = torch.autograd.grad(value.sum(), leaves, allow_unused=True)
        for leaf, gradient in zip(leaves, gradients, strict=True):
            found.append((gradient, leaf.shape, leaf.dtype))
    return found


def _check_indices(indices, probs):
    assert (probs.gather(-1, indices.movedim(0, -1)) > 0).all()
