"""TRL's RLOO trainer with correlated rollouts and their advantages, on a toy without downloads.

Two methods are replaced: the one that draws completions and the one that makes advantages of their
rewards. The rest of TRL stays as it is. On one process; for TRL 1.x, of which both are internals.
"""

import argparse
import importlib.util
import sys
import tempfile

import torch

from carms import sequences

WORDS = ["<pad>", "<eos>", "<unk>", "red", "green", "blue", "say", "something"]


def coupled_trainer():
    """The trainer's class; TRL is imported here and nowhere else."""
    from trl import RLOOTrainer

    class CoupledRLOOTrainer(RLOOTrainer):
        def _generate_single_turn(self, prompt_ids, images, multimodal_fields):
            # TRL repeats a prompt for each of its completions.
            prompts = [torch.tensor(ids) for ids in prompt_ids[:: self.num_generations]]
            ones = [torch.ones_like(ids) for ids in prompts]
            pad = torch.nn.utils.rnn.pad_sequence
            training = self.model.training
            self.group = sequences.rollouts(
                sequences.causal_lm(self.model.eval(), pad(ones, True, 0, "left")),
                pad(prompts, True, self.processing_class.pad_token_id, "left"),
                self.num_generations,
                self.max_completion_length,
                temperature=self.temperature,
                eos=self.eos_token_ids,
            )
            self.model.train(training)
            rows = zip(self.group.tokens.flatten(0, 1), self.group.lengths.flatten(), strict=True)
            return [tokens[:length].tolist() for tokens, length in rows]

        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            # Leave-one-out advantages are N/(N-1) times the rewards, up to a constant per prompt,
            # and differences of rewards are all that is needed.
            count = self.group.samples
            rewards = output["advantages"].view(-1, count) * (count - 1) / count
            output["advantages"] = sequences.advantages(rewards, self.group).flatten()
            return output

    return CoupledRLOOTrainer


def main() -> None:
    """Teach a tiny model with random weights to say "red"."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    if importlib.util.find_spec("trl") is None:
        sys.exit("this example needs TRL: pip install trl")
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
    from trl import RLOOConfig

    words = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    config = GPT2Config(
        vocab_size=len(WORDS),
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = coupled_trainer()(
            GPT2LMHeadModel(config),
            lambda completions, **_: [text.split().count("red") / 6 for text in completions],
            RLOOConfig(
                folder,
                beta=0.0,
                num_generations=16,
                per_device_train_batch_size=32,
                max_completion_length=6,
                learning_rate=3e-3,
                max_steps=steps,
                logging_steps=max(1, steps // 4),
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
            ),
            Dataset.from_dict({"prompt": ["say something", "say something blue"] * 16}),
            processing_class=tokenizer,
        )
        trainer.train()
    for line in trainer.state.log_history:
        if "reward" in line:
            print(f"step {line['step']}: mean reward {line['reward']:.2f}")


if __name__ == "__main__":
    main()
