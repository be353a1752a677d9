"""TRL's RLOO trainer with correlated rollouts and their advantages, on a toy without downloads.

A tiny model with random weights learns to say "red". ``CoupledRLOOTrainer`` takes the place of
``trl.RLOOTrainer``, with the same arguments; ``--independent`` trains with TRL's own.
"""

import argparse
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import RLOOConfig, RLOOTrainer

from carms.sequences.trl import CoupledRLOOTrainer

WORDS = ["<pad>", "<eos>", "<unk>", "red", "green", "blue", "say", "something"]


def toy() -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """A model of two layers, and a tokenizer of eight words."""
    words = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    size = {"vocab_size": len(WORDS), "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
    config = GPT2Config(**size, bos_token_id=1, eos_token_id=1, pad_token_id=0)
    torch.manual_seed(0)
    return GPT2LMHeadModel(config), tokenizer


def main() -> None:
    """Train, and print the mean reward four times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--independent", action="store_true", help="use TRL's own trainer")
    chosen = parser.parse_args()
    model, tokenizer = toy()
    trainer_class = RLOOTrainer if chosen.independent else CoupledRLOOTrainer
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            model,
            lambda completions, **_: [text.split().count("red") / 6 for text in completions],
            RLOOConfig(
                folder,
                beta=0.0,
                num_generations=16,
                per_device_train_batch_size=32,
                max_completion_length=6,
                learning_rate=3e-3,
                max_steps=chosen.steps,
                logging_steps=max(1, chosen.steps // 4),
                disable_dropout=True,
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
