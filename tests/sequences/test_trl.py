"""TRL's trainer itself, for a few steps of a tiny model."""

import pytest
import torch
from datasets import Dataset
from tiny_lm import tiny_lm
from transformers import GPT2LMHeadModel
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
        self.seen = output
        self.logits = [
            model(input_ids=tokens, attention_mask=mask).logits.detach()[
                :, output["prompt_ids"].shape[1] - 1 : -1
            ]
            for model in (self.model, self.first)
        ]
        self.mode = self.model.training
        return output


def reward(completions, **_):
    return [text.split().count("red") + 0.1 * len(text.split()) for text in completions]


def trainer(tmp_path, rewards=reward, **settings):
    model, tokenizer = tiny_lm(scale=10.0)
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
    # Of one length: for padded prompts of models with absolute positions, TRL's loss counts the
    # padding, and generation does not.
    prompts = Dataset.from_dict({"prompt": ["say something", "something blue"] * 8})
    # TRL loads the reference model of a KL penalty from where the model was.
    model.save_pretrained(tmp_path)
    model, first = (GPT2LMHeadModel.from_pretrained(tmp_path) for _ in range(2))
    watched = Watched(model, rewards, config, prompts, prompts, processing_class=tokenizer)
    watched.first = first.eval()
    return watched


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_advantages_are_those_of_the_completions(tmp_path, beta):
    """Recomputed from what the trainer returns, by the model's own logits."""
    watched = trainer(tmp_path, beta=beta, learning_rate=1e-2)
    watched.train()
    tokens, mask = (
        watched.seen[f"completion_{name}"].view(2, COUNT, -1) for name in ("ids", "mask")
    )
    now, first = (places(logits.unflatten(0, (2, COUNT)), tokens, 0.8) for logits in watched.logits)
    log_probs, before = ((each.probability.log() * mask).sum(-1) for each in (now, first))
    assert (log_probs - before).abs().max() > 1e-2
    torch.testing.assert_close(
        watched.seen["old_logps"].view(2, COUNT).double(), log_probs, rtol=1e-4, atol=1e-4
    )

    ids = watched.seen["completion_ids"]
    texts = watched.processing_class.batch_decode(ids, skip_special_tokens=True)
    rewards = torch.tensor(reward(texts)).view(2, COUNT) - beta * (log_probs - before)
    wanted = advantages(rewards, ratios(tokens, *now, mask)).float()
    found = watched.seen["advantages"].view(2, COUNT)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
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
        ({"mask_truncated_completions": True}, "need mask_truncated_completions=False"),
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
