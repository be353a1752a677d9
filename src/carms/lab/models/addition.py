"""Addition with a lost carry, and a transformer small enough to learn it by trial and error."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from carms import sequences

__all__ = [
    "BASE",
    "DIGITS",
    "Adder",
    "answers",
    "digits",
    "held_out",
    "mean_reward",
    "problems",
    "rewards",
]

BASE, DIGITS = 4, 3
# Number of prompts, of all 4,096, that are never trained on.
HELD_OUT = 512
# Width of the residual stream, and number of attention heads.
WIDTH, HEADS = 64, 4

Memory = tuple[Tensor, Tensor]
"""Keys and values ``[rows, HEADS, t, WIDTH / HEADS]`` of all tokens so far."""


def digits(numbers: Tensor) -> Tensor:
    """``[..., DIGITS]``, the lowest first, so that a carry comes before it is needed.

    Examples:
        >>> digits(torch.tensor([1, 27]))
        tensor([[1, 0, 0],
                [3, 2, 1]])
    """
    return torch.stack([numbers // BASE**k % BASE for k in range(DIGITS)], -1)


def _prompts(numbers: Tensor) -> Tensor:
    """``[P, 2 * DIGITS]``: the digits of ``a`` and of ``b``, ``numbers`` being ``a + 64 b``."""
    size = BASE**DIGITS
    return torch.cat((digits(numbers % size), digits(numbers // size)), -1)


def _shuffled() -> Tensor:
    """All prompts in one order, whatever the seed, so that the same ones are always held out."""
    return torch.randperm(BASE ** (2 * DIGITS), generator=torch.Generator().manual_seed(0))


def held_out() -> Tensor:
    """``[512, 2 * DIGITS]`` prompts that ``problems`` never gives."""
    return _prompts(_shuffled()[:HELD_OUT])


def problems(count: int, stream: torch.Generator) -> Tensor:
    """``[count, 2 * DIGITS]`` random prompts to train on."""
    known = _shuffled()[HELD_OUT:]
    return _prompts(known[torch.randint(len(known), (count,), generator=stream)])


def answers(prompts: Tensor) -> Tensor:
    """``[P, DIGITS]``: the digits of ``a + b``, without what is carried beyond the last one.

    Examples:
        >>> answers(torch.tensor([[3, 2, 1, 1, 0, 3]]))  # 123 + 301 = 1030 to the base 4
        tensor([[0, 3, 0]])
    """
    weights = BASE ** torch.arange(DIGITS)
    return digits((prompts.unflatten(-1, (2, DIGITS)) * weights).sum((-2, -1)))


def rewards(prompts: Tensor, tokens: Tensor) -> Tensor:
    """``[P, N]``: the share of right digits in the rollouts ``tokens [P, N, DIGITS]``."""
    return (tokens == answers(prompts).unsqueeze(1)).float().mean(-1)


class Adder(nn.Module):
    """A decoder of one block; the tokens are the digits of a prompt and of its answer.

    Args:
        stream: source of the first weights.
    """

    def __init__(self, stream: torch.Generator) -> None:
        super().__init__()
        self.token = nn.Embedding(BASE, WIDTH)
        self.place = nn.Embedding(3 * DIGITS, WIDTH)
        self.block = Block()
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, BASE)
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Embedding):
                nn.init.normal_(layer.weight, 0, layer.weight.shape[1] ** -0.5, stream)
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.bias)

    def forward(self, tokens: Tensor, memory: Memory | None = None) -> tuple[Tensor, Memory]:
        """Logits ``[rows, t, BASE]`` of what follows each of the tokens, which come after those in
        the memory, and the memory with them.
        """
        seen = memory[0].shape[2] if memory else 0
        hidden = self.token(tokens) + self.place.weight[seen : seen + tokens.shape[1]]
        hidden, memory = self.block(hidden, memory)
        return self.head(self.norm(hidden)), memory

    def step(self, tokens: Tensor, memory: Memory | None) -> tuple[Tensor, Memory]:
        """The step that [`carms.sequences.rollouts`][] takes: logits of the next token."""
        logits, memory = self(tokens if memory is None else tokens[:, -1:], memory)
        return logits[:, -1], memory

    def log_probs(self, prompts: Tensor, tokens: Tensor) -> Tensor:
        """Log probabilities ``[P, N]`` of rollouts ``[P, N, DIGITS]``, with their graph."""
        rows = torch.cat((prompts.repeat_interleave(tokens.shape[1], 0), tokens.flatten(0, 1)), 1)
        logits, _ = self(rows[:, :-1])
        chosen = logits[:, -DIGITS:].log_softmax(-1).gather(-1, rows[:, -DIGITS:, None])
        total: Tensor = chosen.sum((-2, -1)).view(tokens.shape[:2])
        return total

    @torch.no_grad()
    def greedy(self, prompts: Tensor) -> Tensor:
        """``[P, 1, DIGITS]``: answers of the likeliest digit each time."""
        tokens, memory = prompts, None
        for _ in range(DIGITS):
            logits, memory = self.step(tokens, memory)
            tokens = torch.cat((tokens, logits.argmax(-1, keepdim=True)), 1)
        return tokens[:, -DIGITS:].unsqueeze(1)


class Block(nn.Module):
    """Attention and two layers, each after a norm and added to what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_layers = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.together = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor, past: Memory | None) -> tuple[Tensor, Memory]:
        """Activations of the same shape, and the memory with these tokens."""
        mixed = self.queries_keys_values(self.before_attention(hidden))
        query, key, value = mixed.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if past is not None:
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        seen = scaled_dot_product_attention(query, key, value, is_causal=past is None)
        hidden = hidden + self.together(seen.transpose(1, 2).flatten(2))
        return hidden + self.down(gelu(self.up(self.before_layers(hidden)))), (key, value)


def mean_reward(
    model: Adder,
    prompts: Tensor,
    samples: int,
    copula: str,
    epsilon: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The mean reward of new rollouts, with the policy gradient behind it."""
    group = sequences.rollouts(
        model.step, prompts, samples, DIGITS, copula, epsilon, generator=generator
    )
    log_probs = model.log_probs(prompts, group.tokens)
    return sequences.surrogate(rewards(prompts, group.tokens), log_probs, group).mean()
