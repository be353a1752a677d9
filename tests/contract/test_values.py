"""What ``f`` may return, and what an error says about the rest."""

import pytest
import torch

import carms


def refuses(kind, match, f, logits):
    with pytest.raises(kind, match=match):
        carms.expectation(f, logits, "loorf", samples=4)


def test_f_that_returns_values_and_more():
    message = r"values of f must be a tensor .* got tuple; .* estimator\.surrogate\(draw, values\)"
    refuses(TypeError, message, lambda z: (z.sum((-2, -1)), z), torch.zeros(3, 2, 2))


def test_variables_of_each_example():
    message = r"got shape \[4, 5, 3\]; .*D = 3 variables of each example"
    refuses(ValueError, message, lambda z: z[..., 0], torch.zeros(5, 3, 2))


@pytest.mark.parametrize(
    ("f", "kind", "message"),
    [
        (lambda z: z.sum((-2, -1)).unsqueeze(-1), ValueError, r"got shape \[4, 5, 1\]; .*squeeze"),
        (lambda z: z.sum(), ValueError, r"got shape \[\]; .*do not average over them"),
        (lambda z: z.sum((-2, -1)).mean(-1), ValueError, r"got shape \[4\]; .*do not average"),
        (lambda z: z.argmax(-1).sum(-1), TypeError, r"got torch\.int64; use \.float\(\)"),
    ],
    ids=["one more dimension", "a scalar", "a mean over examples", "integers"],
)
def test_values_of_another_shape_or_type_are_answered_with_what_to_do(f, kind, message):
    refuses(kind, message, f, torch.zeros(5, 3, 2))


def test_a_function_of_one_group_for_two_groups():
    with pytest.raises(TypeError, match="2 were given") as caught:
        carms.expectation(lambda z: z.sum((-2, -1)), (torch.zeros(3, 2), torch.zeros(2, 4)))
    assert caught.value.__notes__ == ["f was given samples of shape [8, 3, 2] and [8, 2, 4]."]
