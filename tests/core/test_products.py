"""Products on a GPU, as far as they can be seen without one: by tensors without data."""

from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from carms.core.pairs import weights_from_pairs
from carms.core.products import exact_product
from carms.couplings.race_lift import race_lift
from carms.estimators.families.drawing import own_values
from carms.estimators.families.trapezoid import trapezoid
from carms.subsets.score import score


class Products(TorchDispatchMode):
    """Notes the precision of all matrix products."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation.__name__.split(".")[0] in {"mm", "bmm", "mv", "addmm", "dot"}:
            self.dtypes.add(args[0].dtype)
        return operation(*args, **(kwargs or {}))


USES = {
    "matrix": lambda rand: exact_product(rand(2, 3), rand(3, 4)),
    "pairs": lambda rand: weights_from_pairs(rand(3, 5), 3),
    "terms": lambda rand: own_values(rand(4, 5), rand(5, 2)),
    "trapezoid": lambda rand: trapezoid(rand(2, 3), rand(4, 2, 3), rand(4, 2, 3)),
    "races": lambda rand: race_lift(rand(1, 3), rand(2, 1).long(), power=2),
    "subsets": lambda rand: score(rand(5), rand(4, 2).long(), ordered=False),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_values_are_not_rounded_to_tf32_on_a_gpu(use):
    use(torch.rand)  # constants are remembered, and must be so with their data
    with FakeTensorMode(allow_non_fake_inputs=True), Products() as products:
        found = use(partial(torch.rand, device="cuda"))
    assert found.device.type == "cuda"
    assert found.dtype == torch.float32
    assert products.dtypes == {torch.float64}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_on_a_processor_the_precision_is_that_of_the_values(use):
    with Products() as products:
        use(torch.rand)
    assert products.dtypes == {torch.float32}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_autocast_does_not_round_them(use):
    with torch.autocast("cpu", torch.bfloat16), Products() as products:
        use(torch.rand)
    assert products.dtypes == {torch.float32}
