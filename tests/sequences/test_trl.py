"""TRL's trainer itself, for a few steps of a tiny model."""

import pytest
import torch
from datasets import Dataset
from tiny_lm import tiny_lm
from trl import RLOOConfig

from carms.sequences import advantages, places, ratios
from carms.sequences.trl import CoupledRLOOTrainer, check_settings

COUNT = 4


class Watched(CoupledRLOOTrainer):
    """Keeps what was generated, and the logits that the model had at the time."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        tokens, mask = (
            torch.cat((output[f"prompt_{name}"], output[f"completion_{name}"]), -1)
            for name in ("ids", "mask")
        )
        with torch.no_grad():
            logits = self.model(input_ids=tokens, attention_mask=mask).logits
        self.seen = output, logits[:, output["prompt_ids"].shape[1] - 1 : -1]
        self.mode = self.model.training
        return output


def reward(completions, **_):
    return [text.split().count("red") + 0.1 * len(text.split()) for text in completions]


def trainer(tmp_path, rewards=reward, **settings):
    model, tokenizer = tiny_lm()
    settings = {
        "beta": 0.0,
        "num_generations": COUNT,
        "per_device_train_batch_size": 2 * COUNT,
        "max_completion_length": 6,
        "max_steps": 2,
        "temperature": 0.8,
        "disable_dropout": True,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        **settings,
    }
    config = RLOOConfig(str(tmp_path), **settings)
    prompts = Dataset.from_dict({"prompt": ["say something", "say something blue"] * 8})
    return Watched(model, rewards, config, prompts, prompts, processing_class=tokenizer)


def test_advantages_are_those_of_the_completions(tmp_path):
    """Recomputed from what the trainer returns, by the model's own logits."""
    watched = trainer(tmp_path)
    before = [parameter.clone() for parameter in watched.model.parameters()]
    watched.train()
    after = watched.model.parameters()
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))

    output, logits = watched.seen
    tokens = output["completion_ids"].view(2, COUNT, -1)
    mask = output["completion_mask"].view(2, COUNT, -1)
    found = places(logits.view(2, COUNT, *logits.shape[1:]), tokens, 0.8)
    log_probs = (found.probability.log() * mask).sum(-1)
    torch.testing.assert_close(
        output["old_logps"].view(2, COUNT).double(), log_probs, rtol=1e-4, atol=1e-4
    )

    texts = watched.processing_class.batch_decode(
        output["completion_ids"], skip_special_tokens=True
    )
    rewards = torch.tensor(reward(texts)).view(2, COUNT)
    wanted = advantages(rewards, ratios(tokens, *found, mask))
    torch.testing.assert_close(output["advantages"].view(2, COUNT), wanted, rtol=1e-3, atol=1e-4)
    plain = (rewards - rewards.mean(-1, keepdim=True)) * COUNT / (COUNT - 1)
    assert (wanted - plain).abs().max() > 1e-2


def test_evaluation_is_as_trl_does_it(tmp_path):
    watched = trainer(tmp_path)
    found = watched.evaluate()
    assert found["eval_reward"] >= 0
    assert not watched.mode


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 5}, "need top_k=0, got top_k=5"),
        ({"top_p": 0.9}, "need top_p=1.0, got top_p=0.9"),
        ({"normalize_advantages": True}, "need normalize_advantages=False"),
        ({"generation_kwargs": {"typical_p": 0.5}}, "need generation_kwargs=None"),
    ],
)
def test_settings_that_are_refused(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **settings)


def test_a_group_on_two_processes(tmp_path):
    settings = trainer(tmp_path).args
    settings.per_device_train_batch_size = 2
    with pytest.raises(ValueError, match=r"multiple of num_generations=4, got 2"):
        check_settings(settings)


def test_a_reward_of_none(tmp_path):
    watched = trainer(tmp_path, lambda completions, **_: [None] * len(completions))
    with pytest.raises(ValueError, match="8 of 8 completions have no reward"):
        watched.train()
