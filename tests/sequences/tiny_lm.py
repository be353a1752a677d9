"""A language model of eight words with random weights, and its tokenizer."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS = ["<pad>", "<eos>", "<unk>", "red", "green", "blue", "say", "something"]
EOS = 1


def tiny_lm(scale: float = 40.0) -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """The larger the scale, the more the logits depend on the tokens before."""
    words = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    size = {"vocab_size": len(WORDS), "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = GPT2Config(**size, bos_token_id=EOS, eos_token_id=EOS, pad_token_id=0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(scale)
    return model, tokenizer
