"""Samples of couplings: shapes, streams, and draws with their ratios."""

import pytest
import torch
from coupling_kinds import each_reaching
from helpers import (
    dirichlet_probs,
    generator,
)

from carms.copulas import Circular, Dirichlet, Stratified
from carms.couplings import InverseCDF


@each_reaching
def test_sample_shapes(reaching):
    coupling = reaching(4)
    for shape in ((), (3,), (2, 0), (2, 3)):
        indices = coupling.sample(torch.full((*shape, 3), 1 / 3), generator())
        assert indices.shape == (4, *shape)
        assert indices.dtype == torch.int64


@pytest.mark.parametrize("categories", [3, 9])
@pytest.mark.parametrize("orderings", ["all", 2, "auto"])
@pytest.mark.parametrize("copula", [Dirichlet(4), Circular(4), Stratified(4)])
def test_an_empty_batch_has_empty_ratios(copula, orderings, categories):
    coupling = InverseCDF(copula, orderings, epsilon=0.1)
    for dtype in (torch.float32, torch.float64):
        indices, ratio = coupling.draw(torch.rand(2, 0, categories, dtype=dtype))
        assert indices.shape == (4, 2, 0)
        assert ratio.shape == (6, 2, 0)
        assert ratio.dtype == dtype


@each_reaching
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draw_is_a_sample_with_its_pair_ratio(reaching, dtype):
    coupling = reaching(4)
    probs = dirichlet_probs(1.0, 50, 3, 4, seed=1, floor=1e-3).to(dtype)
    indices, ratio = coupling.draw(probs, generator(2))
    assert torch.equal(indices, coupling.sample(probs, generator(2)))
    assert ratio.shape == (6, 50, 3)
    assert ratio.isfinite().all()
    assert (ratio > 0).all()
    first, second = torch.triu_indices(4, 4, 1)
    differ = indices[first] != indices[second]
    assert differ.any()
    expected = coupling.pair_ratio(probs, indices)
    torch.testing.assert_close(
        ratio[differ], expected[differ], rtol=1e-12 if dtype == torch.float64 else 1e-5, atol=0
    )


@each_reaching
def test_reproducible_without_touching_the_global_stream(reaching):
    coupling, probs = reaching(4), dirichlet_probs(1.0, 20, 4)
    before = torch.get_rng_state()
    first, again = coupling.sample(probs, generator(1)), coupling.sample(probs, generator(1))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)


@each_reaching
def test_half_precision_probabilities(reaching):
    coupling = reaching(4)
    probs = torch.tensor([0.25, 0.5, 0.25], dtype=torch.bfloat16).expand(10, 3)
    indices = coupling.sample(probs, generator())
    assert torch.equal(indices, coupling.sample(probs.float(), generator()))
    ratio = coupling.pair_ratio(probs, indices)
    torch.testing.assert_close(ratio, coupling.pair_ratio(probs.float(), indices))
