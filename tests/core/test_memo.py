"""What is remembered is of use to later calls."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from carms.core.memo import constant
from carms.core.quadrature import gauss_laguerre, gauss_legendre
from carms.couplings.permutations import make_orders


@pytest.mark.parametrize("rule", [gauss_laguerre, gauss_legendre])
def test_rules_are_on_the_processor_whatever_the_default_device(rule):
    with torch.device("meta"):
        nodes, weights = rule(41)
    assert nodes.device == weights.device == torch.device("cpu")


@pytest.mark.parametrize("which", ["all", 4])
def test_orders_are_on_their_device_whatever_the_default_device(which):
    with torch.device("meta"):
        orders = make_orders(41, which, torch.device("cpu"))
    assert orders.sort(-1).values.equal(torch.arange(41).expand(orders.shape))


def test_tensors_without_data_are_not_remembered():
    calls = []

    @constant
    def numbers(count):
        calls.append(count)
        return torch.arange(count), [torch.ones(count)]

    with FakeTensorMode():
        numbers(3)
    with torch.device("meta"):
        numbers(3)
    first, (second,) = numbers(3)
    assert (first.tolist(), second.tolist()) == ([0, 1, 2], [1, 1, 1])
    assert numbers(3)[0] is first
    assert len(calls) == 3
