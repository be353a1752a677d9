"""With the packages themselves: models are built from configurations, and nothing is downloaded."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from helpers import generator
from tiny_lm import EOS, tiny_lm
from transformers import GPT2LMHeadModel

from carms.sequences import (
    CoupledProcessor,
    causal_lm,
    pair_ratio,
    places,
    ratios,
    rollouts,
)

PROMPTS = torch.tensor([[6, 7, 3], [0, 0, 6]])
MASK = torch.tensor([[1, 1, 1], [0, 0, 1]])


def completion_logits(model, completions):
    """``[P, N, length, vocabulary]``, as a trainer computes them: all tokens at once."""
    count = completions.shape[1]
    prompts, mask = (x.repeat_interleave(count, 0) for x in (PROMPTS, MASK))
    tokens = torch.cat((prompts, completions.flatten(0, 1)), -1)
    mask = torch.cat((mask, mask.new_ones(len(mask), completions.shape[-1])), -1)
    position = (mask.cumsum(-1) - 1).clamp_min(0)
    with torch.no_grad():
        logits = model(input_ids=tokens, attention_mask=mask, position_ids=position).logits
    return logits[:, PROMPTS.shape[1] - 1 : -1].unflatten(0, completions.shape[:2])


def test_ratios_by_a_trainers_forward_pass():
    """Drawn token by token with a cache, recomputed at once without: logits differ a little."""
    model, _ = tiny_lm()
    step = causal_lm(model, MASK)
    group = rollouts(step, PROMPTS, 8, 12, eos=EOS, temperature=0.9, generator=generator())
    assert 1 < group.lengths.double().mean() < 12
    found = places(completion_logits(model, group.tokens), group.tokens, 0.9)
    computed = ratios(group.tokens, *found, group.mask, reported=group.shares)
    torch.testing.assert_close(computed, pair_ratio(group), rtol=1e-3, atol=0)


@pytest.mark.parametrize("do_sample", [True, False])
def test_generate(do_sample):
    """The tokens that ``generate`` returns are those that the processor draws by itself."""
    model, _ = tiny_lm()
    samples, length = 4, 10
    policy = {"temperature": 0.7, "top_k": 5, "top_p": 0.95}
    prompts, mask = PROMPTS, MASK
    returned = {"num_return_sequences": samples}
    if not do_sample:
        prompts, mask = (x.repeat_interleave(samples, 0) for x in (prompts, mask))
        returned = {}
    tokens = model.generate(
        prompts,
        attention_mask=mask,
        max_new_tokens=length,
        do_sample=do_sample,
        logits_processor=[CoupledProcessor(samples, seed=3, **policy)],
        **returned,
    )[:, PROMPTS.shape[1] :]
    tokens = torch.nn.functional.pad(tokens, (0, length - tokens.shape[1]))
    alone = CoupledProcessor(samples, seed=3, **policy)
    drawn = torch.zeros(2 * samples, 0, dtype=torch.long)
    for _ in range(length):
        padded = torch.nn.functional.pad(drawn, (0, 1))
        logits = completion_logits(model, padded.view(2, samples, -1))[:, :, -1]
        scores = alone(drawn, logits.flatten(0, 1))
        drawn = torch.cat((drawn, scores.argmax(-1, keepdim=True)), -1)
    ended = (drawn == EOS).long()
    assert 0 < ended.any(-1).sum() < len(drawn)
    assert torch.equal(tokens, drawn.masked_fill(ended.cumsum(-1) > ended, 0))


class StandInLLM:
    """vLLM's offline engine as the page uses it, on ``generate`` of transformers."""

    def __init__(self, path):
        self.model = GPT2LMHeadModel.from_pretrained(path)

    def generate(self, prompts, settings):
        return [
            self._one(torch.tensor([p["prompt_token_ids"]]), s)
            for p, s in zip(prompts, settings, strict=True)
        ]

    def _one(self, prompt, setting):
        ours = setting.extra_args
        processor = CoupledProcessor(ours["carms_samples"], ours["carms_seed"], ours["carms_group"])
        rows = self.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=setting.max_tokens,
            do_sample=True,
            num_return_sequences=setting.n,
            logits_processor=[processor],
        )[:, prompt.shape[1] :].tolist()
        ends = [row.index(EOS) + 1 if EOS in row else len(row) for row in rows]
        samples = [
            SimpleNamespace(token_ids=row[:end]) for row, end in zip(rows, ends, strict=True)
        ]
        return SimpleNamespace(outputs=samples)


def test_the_program_of_the_page_for_vllm(tmp_path, monkeypatch):
    """vLLM itself needs a GPU; everything else is what the page shows."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "rollouts.md"
    (program,) = re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL)
    model, _ = tiny_lm(scale=1.0)
    model.save_pretrained(tmp_path)
    engine = ModuleType("vllm")
    engine.LLM, engine.SamplingParams = StandInLLM, SimpleNamespace
    monkeypatch.setitem(sys.modules, "vllm", engine)
    smaller = {"your/model": str(tmp_path), "8, 100": "8, 3", "max_tokens=64": "max_tokens=6"}
    for shown, value in smaller.items():
        assert shown in program
        program = program.replace(shown, value)
    names = {}
    exec(compile(program, page.name, "exec"), names)
    before, after = model.state_dict(), names["model"].state_dict()
    assert names["advantages"].shape == (8,)
    assert any(not torch.equal(before[name], after[name]) for name in before)
