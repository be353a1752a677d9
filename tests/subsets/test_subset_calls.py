import pytest
import torch
from helpers import generator
from torch.utils.checkpoint import checkpoint

from carms import subsets
from carms.subsets.relaxed import relaxed_top_k

LOGITS = torch.tensor([[0.3, -0.5, 1.0, 0.1], [0.0, 0.2, -1.0, 0.7]], dtype=torch.float64)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("name", subsets.available())
def test_f_may_write_on_its_argument(name, ordered):
    if ordered and not subsets.make(name, 2).black_box:
        pytest.skip("is for subsets only")

    def gradient(f):
        logits = LOGITS.clone().requires_grad_()
        options = {"ordered": ordered, "estimator": name, "generator": generator()}
        subsets.expectation(f, logits, 2, **options).sum().backward()
        return logits.grad

    weight = torch.arange(1.0, 1 + (2 if ordered else LOGITS.shape[-1])).to(LOGITS.dtype)
    reading = gradient(lambda z: ((z + 1) * weight).square().sum(-1))
    assert torch.equal(gradient(lambda z: (z.add_(1) * weight).square().sum(-1)), reading)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_many_subsets_are_not_mapped():
    with pytest.raises(RuntimeError, match="make a batch dimension of what is mapped over"):
        torch.func.vmap(
            lambda row: subsets.expectation(lambda z: z.sum(-1), row, 4), randomness="different"
        )(torch.randn(3, 20))


def test_hints_are_about_subsets():
    with pytest.raises(ValueError, match=r"= \[8, 5\], got shape \[8, 5, 3\]$"):
        subsets.expectation(lambda z: z, torch.zeros(5, 3), 3)


def test_logits_that_were_changed_since_the_draw():
    logits = torch.zeros(4, 5, requires_grad=True)
    made = subsets.make("loorf", size=2, samples=4)
    draw = made.sample(logits)
    draw.items.zero_()
    made.surrogate(draw, draw.items.float().sum(-1)).sum().backward()
    assert logits.grad.abs().sum() > 0
    with torch.no_grad():
        logits[..., 0] += 1
    with pytest.raises(ValueError, match="changed in place"):
        made.surrogate(draw, draw.items.float().sum(-1))


def test_checkpointing_changes_nothing():
    def train(again):
        torch.manual_seed(0)
        estimator, logits = subsets.make("carms-t", 2), LOGITS[0].clone().requires_grad_()
        for _ in range(20):  # calls of one example, so that what it remembers counts
            again(
                lambda own: estimator.expectation(lambda z: z.sin().sum(-1), own), logits
            ).backward()
        return logits.grad, estimator.past.total

    plain = train(lambda call, logits: call(logits))
    computed_again = train(lambda *call: checkpoint(*call, use_reentrant=False))
    assert all(torch.equal(*pair) for pair in zip(plain, computed_again, strict=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: subsets.expectation(None, LOGITS, 2), "f must be a function, got None"),
        (lambda: subsets.expectation(LOGITS, LOGITS, 2), "are two arguments swapped"),
        (lambda: subsets.surrogate(LOGITS, LOGITS), r"draw must come from carms\.subsets\.sample"),
        (lambda: subsets.make("loorf", 2).surrogate(LOGITS, LOGITS), "draw must come from loorf"),
        (lambda: subsets.make(["loorf"], 2), "an estimator of subsets is a name, got list"),
    ],
)
def test_arguments_of_the_wrong_kind(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_a_draw_shows_its_maker_and_its_shape():
    draw = subsets.sample(torch.zeros(3, 5), 2, samples=4)
    assert repr(draw) == "Draw(carms(size=2, samples=4), items=[4, 3, 2])"


def test_an_estimator_shows_the_options_that_were_set():
    made = subsets.make("relaxed", 2, temperature=0.25)
    assert repr(made) == "relaxed(size=2, samples=8, temperature=0.25)"
    assert repr(subsets.make("loorf", 3, ordered=True)) == "loorf(size=3, samples=8, ordered=True)"


def test_a_draw_of_another_estimator_is_refused_by_name():
    first, second = subsets.make("loorf", 2), subsets.make("loorf", 2)
    with pytest.raises(ValueError, match="cannot use a draw of another loorf"):
        second.surrogate(first.sample(torch.zeros(5)), torch.zeros(8))


def test_a_name_that_is_not_there():
    with pytest.raises(ValueError, match="unknown estimator of subsets 'lorf'; did you mean loorf"):
        subsets.make("lorf", 2)


@pytest.mark.parametrize("name", [n for n in subsets.available() if n != "carms-t"])
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_forward_mode_is_the_backward_mode(name):
    weight, direction = (
        torch.arange(4.0).double(),
        torch.randn(2, 4, generator=generator(1)).double(),
    )

    def value(logits):
        call = {"estimator": name, "generator": generator(2)}
        return subsets.expectation(lambda z: (z * weight).sum(-1).square(), logits, 2, **call).sum()

    _, tangent = torch.func.jvp(value, (LOGITS,), (direction,))
    gradient = torch.func.grad(value)(LOGITS)
    torch.testing.assert_close(tangent, (gradient * direction).sum())


def test_slopes_that_are_not_finite_are_refused_and_not_remembered():
    estimator, logits = subsets.make("carms-t", 2), LOGITS[0].clone().requires_grad_()
    with pytest.raises(ValueError, match="needs finite slopes of f at its samples"):
        estimator.expectation(lambda z: z.sqrt().sum(-1), logits)
    assert not estimator.past.total.any()


def test_slopes_of_items_that_are_never_chosen_do_not_matter():
    logits = torch.tensor([0.0, 1.0, 2.0, -torch.inf], requires_grad=True)

    def f(z):  # its slope at the last item is infinite
        return z[..., :3].sin().sum(-1) + z[..., 3].sqrt()

    subsets.expectation(f, logits, 2, estimator="carms-t").backward()
    assert logits.grad.isfinite().all()


def test_an_estimator_can_be_called():
    estimator = subsets.make("loorf", 2)
    found = estimator(lambda z: z[..., 0], LOGITS, generator())
    assert torch.equal(found, estimator.expectation(lambda z: z[..., 0], LOGITS, generator()))


def test_enumeration_checks_the_samples_that_it_ignores():
    with pytest.raises(TypeError, match="samples"):
        subsets.make("exact", 2, samples="many")


@pytest.mark.parametrize("lead", [0.0, 20.0, 300.0])
def test_relaxed_subsets_take_no_item_twice(lead):
    """Against double precision with the plain logarithm where that can tell, and by the sum."""
    noisy = torch.tensor([lead, 0.0, -1.0, -2.0])
    found = relaxed_top_k(noisy, 2, 0.5)
    assert found.sum().item() == pytest.approx(2)
    if lead <= 20:
        wide = noisy.double()
        first = (wide / 0.5).softmax(-1)
        wanted = first + ((wide + torch.log1p(-first)) / 0.5).softmax(-1)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    else:
        rest = (noisy[1:] / 0.5).softmax(-1)
        torch.testing.assert_close(found, torch.cat((torch.ones(1), rest)), rtol=1e-5, atol=0)
    leaf = torch.tensor([lead, 0.0, -torch.inf, -1.0], requires_grad=True)
    relaxed_top_k(leaf, 3, 0.5).square().sum().backward()
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize(
    "name", [n for n in subsets.available() if not subsets.make(n, 2).black_box]
)
def test_samples_without_their_graph_are_refused(name):
    made, logits = subsets.make(name, 2), LOGITS.clone().requires_grad_()
    with torch.no_grad():
        draw = made.sample(logits)
    with pytest.raises(ValueError, match="drawn without their graph"):
        made.surrogate(draw, draw.z.square().sum(-1))
