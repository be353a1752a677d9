import pytest
import torch
from helpers import chi_square_chance
from toy_models import MODELS

from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.sequences import CoupledProcessor
from carms.sequences.addressed import Addresses
from carms.sequences.counter import uniform_at, word_at


def addresses(groups, samples, seed=0):
    row = torch.arange(groups * samples)
    return Addresses(torch.full_like(row, seed), row // samples, row % samples)


def test_the_words_of_splitmix64():
    """The first numbers from the seed 1234567, as its authors' program prints them."""
    wanted = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    found = word_at(torch.tensor(1234567), torch.arange(5))
    assert [word % 2**64 for word in found.tolist()] == wanted


def test_neighbouring_addresses_are_independent():
    """Seeds, groups and steps are small numbers in a row."""
    key = word_at(word_at(torch.tensor(7), torch.arange(500)).unsqueeze(-1), torch.arange(4))
    u = uniform_at(key.unsqueeze(-1), torch.arange(100))
    assert u.min() >= 0
    assert u.max() < 1
    bins = (u * 16).long()
    for one, other in (
        (bins[1:], bins[:-1]),
        (bins[:, 1:], bins[:, :-1]),
        (bins[..., 1:], bins[..., :-1]),
    ):
        counts = torch.bincount((one * 16 + other).flatten(), minlength=256).double()
        expected = torch.full((256,), counts.sum().item() / 256).double()
        assert chi_square_chance(counts, expected) > 1e-5


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_points_are_those_of_the_copula(epsilon):
    samples = 5
    points = addresses(40_000, samples).points(samples, epsilon=epsilon).view(-1, samples)
    cells = (points * 8).long()
    table = InverseCDF(Circular(samples), epsilon=epsilon).pmf(torch.full((8,), 1 / 8).double())
    for one, other in ((0, 1), (4, 2)):
        counts = torch.bincount(cells[:, one] * 8 + cells[:, other], minlength=64).double()
        assert chi_square_chance(counts, (table * len(cells)).flatten()) > 1e-5


def test_a_row_needs_nothing_but_its_address():
    """Any rows in any order, as the processes of a cluster hold them."""
    every = addresses(10, 6, seed=3)
    some = torch.tensor([59, 3, 17, 18, 0])
    picked = Addresses(every.seed[some], every.group[some], every.member[some])
    assert torch.equal(every.points(6)[some], picked.points(6))
    assert torch.equal(every.fresh(9)[some], picked.fresh(torch.tensor([9] * 5)))
    assert len({*every.fresh(9).tolist(), *every.fresh(10).tolist()}) == 120
    assert not torch.equal(addresses(10, 6, seed=4).points(6), every.points(6))


def generate(listed, groups, samples, **options):
    """What ``generate`` does with a processor, without prompts."""
    policy = listed.policy
    processor = CoupledProcessor(
        samples,
        temperature=policy.temperature,
        top_k=policy.top_k,
        top_p=policy.top_p,
        **options,
    )
    tokens = torch.zeros(groups * samples, 0, dtype=torch.long)
    for _ in range(listed.length):
        scores = processor(tokens, listed.step(tokens, None)[0])
        assert (scores.isfinite().sum(-1) == 1).all()
        tokens = torch.cat((tokens, scores.argmax(-1, keepdim=True)), -1)
    if listed.eos is not None:
        ended = (tokens == listed.eos).long()
        tokens = tokens.masked_fill(ended.cumsum(-1) > ended, listed.eos)
    return tokens.view(groups, samples, -1)


@pytest.mark.parametrize("name", ["ends", "top-k", "top-p", "hot"])
def test_pairs_of_sequences_have_their_probabilities(name):
    listed, samples = MODELS[name](), 4
    index = listed.index(generate(listed, 30_000, samples, seed=1, epsilon=0.2))
    table = InverseCDF(Circular(samples), epsilon=0.2).pmf(listed.probs)
    counts = torch.bincount(index[:, 0] * len(table) + index[:, 3], minlength=table.numel())
    expected = (table * len(index)).flatten()
    often = expected > 20
    counts, expected = (torch.cat((x[often], x[~often].sum().view(1))) for x in (counts, expected))
    assert chi_square_chance(counts.double(), expected) > 1e-5


def test_two_processes_draw_what_one_would():
    listed = MODELS["ends"]()
    whole = generate(listed, 6, 4, seed=5)
    parts = generate(listed, 2, 4, seed=5), generate(listed, 4, 4, seed=5, group=2)
    assert torch.equal(whole, torch.cat(parts))
    assert not torch.equal(whole, generate(listed, 6, 4, seed=6))


def test_a_processor_serves_one_call():
    processor = CoupledProcessor(2, seed=0)
    processor(torch.zeros(4, 3, dtype=torch.long), torch.zeros(4, 5))
    with pytest.raises(ValueError, match="4 rows of 4 tokens, got 4 of 3"):
        processor(torch.zeros(4, 3, dtype=torch.long), torch.zeros(4, 5))
    with pytest.raises(ValueError, match="4 rows of 4 tokens, got 2 of 4"):
        processor(torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 5))


def test_rows_that_are_no_whole_groups():
    with pytest.raises(ValueError, match=r"3 for each prompt, got 4; .* num_return_sequences=3"):
        CoupledProcessor(3, seed=0)(torch.zeros(4, 3, dtype=torch.long), torch.zeros(4, 5))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"samples": 1}, ValueError, "at least 2 samples, got samples=1"),
        ({"seed": 0.5}, TypeError, "seed must be a whole number, got 0.5"),
        ({"copula": "gaussian"}, ValueError, "'circular' or 'independent', got 'gaussian'"),
        ({"epsilon": 2.0}, ValueError, "epsilon is a probability, got 2.0"),
        ({"top_k": 0}, ValueError, "at least 1 token, got 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_settings(change, error, message):
    with pytest.raises(error, match=message):
        CoupledProcessor(**{"samples": 4, "seed": 0, **change})
