from types import SimpleNamespace

import pytest
import torch
from helpers import generator

from carms.sequences import causal_lm, rollouts

PROMPTS = torch.tensor([[1, 5, 9], [0, 0, 7]])
MASK = torch.tensor([[1, 1, 1], [0, 0, 1]])
SIZES = {
    "vocab_size": 11,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


class Recorder:
    """What a model of ``transformers`` looks like from outside, and what it is asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, input_ids, past_key_values, use_cache, **masks):
        self.calls.append((input_ids, past_key_values, masks))
        logits = torch.zeros(*input_ids.shape, 11)
        return SimpleNamespace(logits=logits, past_key_values=f"after call {len(self.calls)}")


def test_only_new_tokens_are_passed_on_with_the_cache():
    model = Recorder()
    group = rollouts(causal_lm(model), PROMPTS, 2, 4, generator=generator())
    tokens, caches, masks = zip(*model.calls, strict=True)
    assert [each.shape[1] for each in tokens] == [3, 1, 1, 1]
    assert caches == (None, "after call 1", "after call 2", "after call 3")
    assert torch.equal(tokens[2].view(2, 2), group.tokens[..., 1])
    assert masks == ({}, {}, {}, {})


def test_positions_of_prompts_of_different_lengths():
    model = Recorder()
    rollouts(causal_lm(model, MASK), PROMPTS, 2, 3, generator=generator())
    masks = [masks for _, _, masks in model.calls]
    assert masks[0]["position_ids"].tolist() == [[0, 1, 2]] * 2 + [[0, 0, 0]] * 2
    assert masks[2]["position_ids"].tolist() == [[4]] * 2 + [[2]] * 2
    assert masks[2]["attention_mask"].tolist() == [[1] * 5] * 2 + [[0, 0, 1, 1, 1]] * 2


def test_an_empty_prompt():
    with pytest.raises(ValueError, match="at least one token"):
        rollouts(causal_lm(Recorder()), torch.zeros(1, 0, dtype=torch.long), 2, 3)


def gpt2(transformers):
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=32, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5
    )
    return transformers.GPT2LMHeadModel(config)


def llama(transformers):
    config = transformers.LlamaConfig(
        vocab_size=11,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.5,
    )
    return transformers.LlamaForCausalLM(config)


@pytest.fixture(params=[gpt2, llama], ids=["gpt2", "llama"])
def model(request):
    transformers = pytest.importorskip("transformers", reason="the extra carms[transformers]")
    return request.param(transformers).eval().double()


def bamba(transformers):
    """It counts from zero in every call if it is not told where its tokens are."""
    config = transformers.BambaConfig(
        **SIZES,
        num_key_value_heads=2,
        mamba_n_heads=8,
        mamba_d_head=8,
        mamba_d_state=4,
        mamba_n_groups=1,
        mamba_chunk_size=4,
        attn_layer_indices=[1],
    )
    return transformers.BambaForCausalLM(config)


def minimax(transformers):
    """The first layer of its cache is empty."""
    config = transformers.MiniMaxConfig(
        **SIZES,
        num_key_value_heads=2,
        layer_types=["linear_attention", "full_attention"],
        block_size=4,
        num_local_experts=2,
    )
    return transformers.MiniMaxForCausalLM(config)


def roberta(transformers):
    """Its positions do not count from zero."""
    config = transformers.RobertaConfig(
        **SIZES,
        max_position_embeddings=40,
        is_decoder=True,
        pad_token_id=10,
    )
    model = transformers.RobertaForCausalLM(config)
    model.lm_head.bias.data[10] = -1e4  # it does not count padding, which must not be drawn
    return model


@pytest.mark.parametrize("kind", [bamba, minimax, roberta])
def test_models_that_count_in_their_own_way(kind):
    transformers = pytest.importorskip("transformers", reason="the extra carms[transformers]")
    torch.manual_seed(0)
    model = kind(transformers).eval()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.normal_(0, 0.3)
        group = rollouts(causal_lm(model), PROMPTS, 3, 8, generator=generator())
        for prompt, own, found in zip(PROMPTS, group.tokens, group.log_probs, strict=True):
            for each, of in zip(own, found, strict=True):
                wanted = log_probs(model, prompt, each).double()
                torch.testing.assert_close(of, wanted, rtol=1e-3, atol=1e-4)


def log_probs(model, prompt, tokens):
    """Of each token, by one pass over prompt and tokens."""
    everything = torch.cat((prompt, tokens)).unsqueeze(0)
    logits = model(input_ids=everything).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def test_with_its_cache_a_model_is_the_same_model(model):
    def without_cache(tokens, cache):
        return model(input_ids=tokens.contiguous()).logits[:, -1], cache

    prompts = PROMPTS[:, :1]
    with_cache, plain = (
        rollouts(step, prompts, 4, 12, eos=3, generator=generator())
        for step in (causal_lm(model), without_cache)
    )
    assert torch.equal(with_cache.tokens, plain.tokens)
    torch.testing.assert_close(with_cache.log_probs, plain.log_probs)


@torch.no_grad()
def test_log_probs_of_filled_up_prompts_are_those_of_the_prompts(model):
    group = rollouts(causal_lm(model, MASK), PROMPTS, 3, 10, generator=generator())
    for prompt, mask, tokens, found in zip(
        PROMPTS, MASK, group.tokens, group.log_probs, strict=True
    ):
        for each, of in zip(tokens, found, strict=True):
            torch.testing.assert_close(of, log_probs(model, prompt[mask.bool()], each))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([[1, 1, 0], [1, 1, 1]], "filled up on the left"),
        ([[1, 0, 1], [1, 1, 1]], "filled up on the left"),
        ([[0, 0, 0], [1, 1, 1]], "filled up on the left"),
        ([[0, 1, 1]], r"a row for each prompt, got shape \[1, 3\] for 4 rollouts"),
        ([[0, 1], [1, 1]], r"got shape \[2, 2\] for 4 rollouts of prompts of 3 tokens"),
        ([[1, 1, 1]] * 3, r"got shape \[3, 3\] for 4 rollouts"),
    ],
)
def test_masks_that_do_not_fit_the_prompts(mask, message):
    with pytest.raises(ValueError, match=message):
        rollouts(causal_lm(Recorder(), torch.tensor(mask)), PROMPTS, 2, 3)


def test_dropout_is_refused():
    class Dropping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.drop = Recorder(), torch.nn.Dropout(0.1)

        def forward(self, **given):
            return self.inner(**given)

    model = Dropping()
    with pytest.raises(ValueError, match=r"has dropout or noise \(drop\).*call model.eval\(\)"):
        rollouts(causal_lm(model), PROMPTS, 2, 3)
    assert rollouts(causal_lm(model.eval()), PROMPTS, 2, 3).tokens.shape == (2, 2, 3)
    model.train().drop.p = 0.0
    assert rollouts(causal_lm(model), PROMPTS, 2, 3).tokens.shape == (2, 2, 3)


def test_dropout_that_is_no_layer_is_refused():
    """Attention of most models has a rate, and not a layer."""
    transformers = pytest.importorskip("transformers", reason="the extra carms[transformers]")
    model = llama(transformers).train()
    assert rollouts(causal_lm(model), PROMPTS, 2, 3).tokens.shape == (2, 2, 3)
    attention = model.model.layers[1].self_attn
    attention.attention_dropout = 0.1
    with pytest.raises(ValueError, match=r"has dropout or noise \(model.layers.1.self_attn\)"):
        rollouts(causal_lm(model), PROMPTS, 2, 3)
    # A part decides for itself.
    attention.eval()
    assert rollouts(causal_lm(model), PROMPTS, 2, 3).tokens.shape == (2, 2, 3)
    model.eval()
    attention.train()
    with pytest.raises(ValueError, match="has dropout"):
        rollouts(causal_lm(model), PROMPTS, 2, 3)


def test_noise_of_a_router_is_refused():
    class Router(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.jitter_noise = Recorder(), 0.1

        def forward(self, **given):
            return self.inner(**given)

    model = Router()
    with pytest.raises(ValueError, match="has dropout or noise"):
        rollouts(causal_lm(model), PROMPTS, 2, 3)
    assert rollouts(causal_lm(model.eval()), PROMPTS, 2, 3).tokens.shape == (2, 2, 3)


def test_gradient_checkpointing_is_refused_where_it_keeps_no_cache(model):
    for layer in model.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    model.gradient_checkpointing_enable()
    assert rollouts(causal_lm(model), PROMPTS, 2, 3).tokens.shape == (2, 2, 3)
    with pytest.raises(ValueError, match=r"no cache .*call model.eval\(\)"):
        rollouts(causal_lm(model.train()), PROMPTS, 2, 3)


def test_only_the_last_logits_of_a_prompt_are_computed(model):
    shapes = []
    model.lm_head.register_forward_hook(lambda layer, given, out: shapes.append(out.shape))
    rollouts(causal_lm(model), PROMPTS, 2, 3)
    assert shapes == [(4, 1, 11)] * 3


def test_a_model_whose_state_is_no_cache_is_refused():
    transformers = pytest.importorskip("transformers", reason="the extra carms[transformers]")
    config = transformers.MambaConfig(vocab_size=11, hidden_size=16, num_hidden_layers=1)
    model = transformers.MambaForCausalLM(config).eval()
    with pytest.raises(ValueError, match=r"no cache .*Mamba's, needs a step of its own"):
        rollouts(causal_lm(model), PROMPTS, 2, 3)


def test_a_model_that_returns_no_cache():
    def model(input_ids, past_key_values, use_cache):
        return SimpleNamespace(logits=torch.zeros(*input_ids.shape, 11), past_key_values=None)

    with pytest.raises(ValueError, match="no cache"):
        rollouts(causal_lm(model), PROMPTS, 2, 3)
