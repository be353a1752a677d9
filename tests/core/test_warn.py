"""Warnings point at the user's line."""

import pytest
import torch

from carms.core.warn import warn_user


def test_a_warning_points_at_the_line_that_called():
    with pytest.warns(UserWarning, match="here") as told:
        warn_user("here")
    assert told[0].filename == __file__


def test_a_warning_in_a_backward_pass_points_at_the_line_that_called_it():
    class Loud(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            scope = {"__name__": "carms.made_up", "warn_user": warn_user}
            exec("warn_user('in backward')", scope)
            return grad

    value = Loud.apply(torch.ones(1, requires_grad=True))
    # The function of this test is a line of the user's, too.
    with pytest.warns(UserWarning, match="in backward") as told:
        value.backward()
    assert told[0].filename == __file__


def test_a_warning_without_a_line_of_the_user_is_still_given():
    scope = {"__name__": "torch.made_up", "warn_user": warn_user}
    with pytest.warns(UserWarning, match="nowhere"):
        exec("warn_user('nowhere')", scope)
