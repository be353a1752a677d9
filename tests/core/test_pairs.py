import torch
from helpers import generator

from carms.core import pairs


def test_many_samples_by_another_way(monkeypatch):
    terms = torch.randn(20 * 19 // 2, 3, generator=generator(), dtype=torch.float64)
    by_addition = pairs.weights_from_pairs(terms, 20)
    monkeypatch.setattr(pairs, "_FEW", 20)
    torch.testing.assert_close(pairs.weights_from_pairs(terms, 20), by_addition)


def test_no_matrix_is_kept_of_many_samples(monkeypatch):
    monkeypatch.setattr(pairs, "_incidence", None)
    assert pairs.weights_from_pairs(torch.ones(300 * 299 // 2), 300).abs().max() == 299
