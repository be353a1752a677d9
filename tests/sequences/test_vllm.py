import importlib
import sys
from importlib.metadata import entry_points

import pytest
import stand_in
import torch
from stand_in import Runner, SamplingParams
from toy_models import MODELS

from carms.sequences import CoupledProcessor

LENGTH = 6


@pytest.fixture
def imported(monkeypatch):
    """Import the module afresh, by what stands for vLLM, and forget it afterwards."""

    def load(new=True):
        stand_in.install(monkeypatch, new)
        return importlib.import_module("carms.sequences.vllm").CoupledLogitsProcessor

    yield load
    del sys.modules["carms.sequences.vllm"]


@pytest.fixture
def processor_class(imported):
    return imported()


def asking(member=0, n=1, seed=11, group=0, samples=4, **options):
    extra = {"carms_samples": samples, "carms_seed": seed, "carms_group": group}
    return SamplingParams(n=n, seed=seed + member, extra_args=extra, **options)


def wanted(listed, groups=2, samples=4, **policy):
    """By the processor for transformers, which has its own tests."""
    processor = CoupledProcessor(samples, seed=11, **policy)
    tokens = torch.zeros(groups * samples, 0, dtype=torch.long)
    for _ in range(LENGTH):
        scores = processor(tokens, listed.model(tokens).detach().float())
        tokens = torch.cat((tokens, scores.argmax(-1, keepdim=True)), -1)
    return tokens.tolist()


def filled(processor_class, **policy):
    """Slots 0 to 7 hold two groups of four."""
    runner = Runner(processor_class, MODELS["coins"](), slots=10)
    for row in range(8):
        assert runner.add(row, asking(row % 4, group=row // 4, **policy))
    return runner


@pytest.mark.parametrize("policy", [{}, {"temperature": 2.0}, {"top_p": 0.6}], ids=str)
def test_tokens_are_those_of_the_other_processor(processor_class, policy):
    runner = filled(processor_class, **policy)
    for _ in range(LENGTH):
        assert (runner.step(range(8)).isfinite().sum(-1) == 1).all()
    assert list(runner.requests.values()) == wanted(runner.listed, **policy)


def test_requests_come_and_go_in_any_order(processor_class):
    """Rows are reordered, some wait, and some are in the middle of their prompts."""
    runner = filled(processor_class)
    runner.step([3, 1, 7, 0, 2, 4, 5, 6], partial=[3, 5])
    runner.step([3, 1, 5, 2], partial=[3])
    waiting = [slot for slot in range(8) for _ in range(LENGTH - len(runner.requests[slot]))]
    while waiting:
        now = sorted(set(waiting), reverse=True)
        runner.step(now)
        for slot in now:
            waiting.remove(slot)
    assert list(runner.requests.values()) == wanted(runner.listed)


def test_a_preempted_request_goes_on_where_it_was(processor_class):
    runner = filled(processor_class)
    for _ in range(2):
        runner.step(range(8))
    tokens = runner.requests.pop(2)
    # Another request takes the slot, and the first one comes back in another slot.
    assert not runner.add(2, SamplingParams())
    for _ in range(2):
        runner.step([0, 1, 3, 4, 5, 6, 7])
    runner.add(9, asking(2), tokens)
    runner.step([9], partial=[9])
    for _ in range(LENGTH - 2):
        runner.step([9])
    assert runner.requests[9] == wanted(runner.listed)[2]


def test_the_same_address_again_is_the_same_rollout(processor_class):
    runner = filled(processor_class)
    for _ in range(LENGTH):
        runner.step(range(8))
    runner.add(9, asking(1))
    for _ in range(LENGTH):
        runner.step([9])
    assert runner.requests[9] == runner.requests[1]


def test_requests_that_do_not_ask_are_left_alone(processor_class):
    runner = filled(processor_class)
    assert not runner.add(8, SamplingParams(temperature=0.0))
    assert not runner.add(9, SamplingParams(extra_args={"kv_transfer_params": {}}))
    found = runner.step([8, 0, 9])
    plain = runner.listed.model(torch.zeros(1, 0, dtype=torch.long))[0].float()
    assert torch.equal(found[0], plain)
    assert torch.equal(found[2], plain)
    assert found[1].isfinite().sum() == 1


def test_the_oldest_states_are_forgotten(processor_class):
    runner = Runner(processor_class, MODELS["coins"](), slots=2)
    for group in range(100):
        runner.add(0, asking(group=group))
        runner.step([0])
    assert len(runner.processor._index) == 16
    with pytest.raises(RuntimeError, match="a preempted request is gone"):
        runner.add(0, asking(group=3), [1])


def test_the_state_of_a_running_request_is_never_forgotten(processor_class):
    """A long request goes on while more short ones come and go than there are states."""
    runner = Runner(processor_class, MODELS["coins"](), slots=2)
    runner.add(0, asking(1))
    for group in range(1, 41):
        runner.add(1, asking(group=group))
        runner.step([0, 1] if group % 8 == 0 else [1])
    for _ in range(LENGTH - 5):
        runner.step([0])
    assert runner.requests[0] == wanted(runner.listed)[1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (asking(temperature=0.0), "temperature must be positive and finite, got 0.0"),
        (asking(min_p=0.1), "min_p must be 0.0, got 0.1"),
        (asking(repetition_penalty=1.2), "repetition_penalty must be 1.0, got 1.2"),
        (asking(bad_words=["no"]), "bad_words must be None"),
        (asking(member=4), "got n=1, seed=15, carms_seed=11"),
        (asking(member=1, n=4), "got n=4, seed=12, carms_seed=11"),
        (asking(n=3), "got n=3, seed=11"),
        (asking(samples=1), "at least 2 samples, got samples=1"),
        (asking(samples="4"), "carms_samples must be a whole number, got '4'"),
        (SamplingParams(extra_args={"carms_seed": 1}), "got carms_seed"),
        (
            SamplingParams(extra_args={"carms_seed": 1, "carms_samples": 2, "carms_epsilon": 2.0}),
            "carms_epsilon is a probability, got 2.0",
        ),
        (SamplingParams(extra_args={"carms_seed": 1, "carms_samples": 2}), "seed=None"),
        (
            SamplingParams(extra_args={"carms_seed": 1, "carms_samples": 2, "carms_sample": 2}),
            "got carms_sample, carms_samples, carms_seed",
        ),
    ],
)
def test_bad_requests(processor_class, params, message):
    with pytest.raises(ValueError, match=message):
        processor_class.validate_params(params)


def test_good_requests(processor_class):
    processor_class.validate_params(asking(n=4, top_k=5, top_p=0.9, bad_words=[]))
    processor_class.validate_params(asking(member=3, top_k=-1))
    processor_class.validate_params(SamplingParams(min_p=0.1))


def test_no_speculative_decoding(processor_class):
    runner = filled(processor_class)
    runner.processor.apply_staged_writes()
    context = stand_in.SimpleNamespace(idx_mapping_np=stand_in.np.array([0, 1]))
    with pytest.raises(ValueError, match="no speculative decoding"):
        runner.processor.apply(torch.zeros(4, 2), context)


def test_the_old_runner_is_left_alone_but_refuses(processor_class):
    processor = processor_class(None, torch.device("cpu"), False)
    added = [(0, SamplingParams(), None, [])]
    processor.update_state(None)
    processor.update_state(stand_in.SimpleNamespace(added=added))
    logits = torch.zeros(1, 2)
    assert processor.apply(logits) is logits
    assert processor.is_argmax_invariant()
    added.append((1, asking(), None, []))
    with pytest.raises(ValueError, match="Model Runner V2"):
        processor.update_state(stand_in.SimpleNamespace(added=added))


def test_an_older_vllm_is_left_alone_but_refuses(imported):
    processor_class = imported(new=False)
    processor_class(None, torch.device("cpu"), False)
    processor_class.validate_params(SamplingParams())
    with pytest.raises(ValueError, match=r"vLLM 0.32 or newer"):
        processor_class.validate_params(asking())


def test_the_entry_point(processor_class):
    (found,) = entry_points(group="vllm.logits_processors", name="carms")
    assert found.load() is processor_class
