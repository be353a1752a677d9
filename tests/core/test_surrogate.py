"""Values with the gradient of something else."""

import re
from pathlib import Path

import torch

import carms
from carms.core.surrogate import put_gradient, with_gradient_of, zeros_with_gradient_of


def test_zeros_have_the_gradient_and_not_the_size():
    x = torch.tensor([3e38, -2.0], requires_grad=True)
    zeros = zeros_with_gradient_of(x)
    assert torch.equal(zeros, torch.zeros(2))
    (gradient,) = torch.autograd.grad((zeros * torch.tensor([100.0, 5.0])).sum(), x)
    assert gradient.tolist() == [100.0, 5.0]


def test_a_value_keeps_its_gradient_and_gets_another():
    x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    y = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    value = with_gradient_of(2 * x, y.square())
    assert torch.equal(value, 2 * x)
    assert value.dtype == torch.bfloat16
    on_x, on_y = torch.autograd.grad(value.sum(), (x, y))
    assert on_x.tolist() == [2.0, 2.0]
    assert on_y.tolist() == [6.0, 8.0]


def test_nothing_is_put_on_a_category_that_does_not_exist():
    logits = torch.tensor([[[0.0, -torch.inf, 1.0]]], requires_grad=True)
    gradient = torch.tensor([[[1.0, 2.0, 3.0]]])
    value = put_gradient(torch.ones(1), logits, gradient)
    assert value.tolist() == [1.0]
    value.sum().backward()
    assert logits.grad.tolist() == [[[1.0, 0.0, 3.0]]]


def test_the_idiom_stands_in_one_file():
    source = Path(carms.__file__).parent
    idiom = re.compile(r"(\b[\w.]+) - \1\.detach\(\)")
    files = [path.name for path in source.rglob("*.py") if idiom.search(path.read_text())]
    assert files == ["surrogate.py"]
