"""Models small enough to list every sequence, and what follows from the list."""

from dataclasses import dataclass
from functools import cached_property

import torch
from helpers import generator
from torch import Tensor

from carms.sequences import Rollouts, rollouts
from carms.sequences.policy import Policy


class Table(torch.nn.Module):
    """Random logits of its own for every prefix."""

    def __init__(self, vocabulary: int, length: int, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        source = generator(seed)
        self.vocabulary = vocabulary
        self.logits = torch.nn.ParameterList(
            scale * torch.randn(vocabulary**t, vocabulary, generator=source, dtype=torch.float64)
            for t in range(length)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits[tokens.shape[1]][code(tokens, self.vocabulary)]


class TinyTransformer(torch.nn.Module):
    """One causal block over learned embeddings; the first position is a start token."""

    def __init__(self, vocabulary: int, length: int, width: int = 8, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = torch.nn.Embedding(vocabulary + 1, width)
            self.position = torch.nn.Embedding(length + 1, width)
            self.block = torch.nn.TransformerEncoderLayer(
                width, 2, 2 * width, dropout=0.0, batch_first=True
            )
            self.head = torch.nn.Linear(width, vocabulary)
        self.vocabulary = vocabulary
        self.double()

    def forward(self, tokens: Tensor) -> Tensor:
        start = tokens.new_full((len(tokens), 1), self.vocabulary)
        inputs = torch.cat((start, tokens), -1)
        steps = torch.arange(inputs.shape[1])
        mask = torch.nn.Transformer.generate_square_subsequent_mask(len(steps)).double()
        hidden = self.block(self.embedding(inputs) + self.position(steps), mask, is_causal=True)
        return 3 * self.head(hidden[:, -1])


def code(tokens: Tensor, vocabulary: int) -> Tensor:
    """Sequences ``[..., t]`` as one number each."""
    number = torch.zeros_like(tokens[..., 0]) if tokens.shape[-1] else tokens.new_zeros(len(tokens))
    for token in tokens.unbind(-1):
        number = number * vocabulary + token
    return number


def decode(numbers: Tensor, vocabulary: int, length: int) -> Tensor:
    """The sequences ``[..., length]`` of these numbers."""
    powers = vocabulary ** torch.arange(length - 1, -1, -1)
    return numbers.unsqueeze(-1) // powers % vocabulary


@dataclass
class Listed:
    """Every sequence of a model up to a length, in the order of their tokens.

    Ended ones are filled up with the end token, as rollouts are.
    """

    model: torch.nn.Module
    length: int
    eos: int | None = None
    policy: Policy = Policy()  # noqa: RUF009

    def step(self, tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        """The model, asked once for each prefix however many rows have it."""
        numbers, row = code(tokens, self.model.vocabulary).unique(return_inverse=True)
        return self.model(decode(numbers, self.model.vocabulary, tokens.shape[1]))[row], cache

    @cached_property
    def tokens(self) -> Tensor:
        rows = torch.zeros(1, 0, dtype=torch.long)
        for _ in range(self.length):
            grown = []
            for row in rows:
                over = self.eos is not None and self.eos in row
                following = [self.eos] if over else range(self.model.vocabulary)
                grown += [torch.cat((row, torch.tensor([token]))) for token in following]
            rows = torch.stack(grown)
        return rows

    @cached_property
    def lengths(self) -> Tensor:
        ended = (self.tokens == self.eos).long() if self.eos is not None else 0 * self.tokens
        return (ended.cumsum(-1) == ended).sum(-1)

    def log_probs(self) -> Tensor:
        """``[sequences]``, with a graph to the model."""
        return self.token_log_probs().sum(-1)

    def token_log_probs(self) -> Tensor:
        """``[sequences, length]``, zero after the end."""
        found = []
        for t in range(self.length):
            logits = self.model(self.tokens[:, :t]) / self.policy.temperature
            kept = self.policy.probabilities(self.model(self.tokens[:, :t])) > 0
            each = torch.where(kept, logits, -torch.inf).log_softmax(-1)
            each = each.gather(-1, self.tokens[:, t : t + 1]).squeeze(-1)
            found.append(torch.where(t < self.lengths, each, 0))
        return torch.stack(found, -1)

    @cached_property
    def probs(self) -> Tensor:
        return self.log_probs().detach().exp()

    @cached_property
    def scores(self) -> Tensor:
        """``[sequences, parameters]``: gradients of the log probabilities."""
        parameters = list(self.model.parameters())
        rows = []
        for value in self.log_probs():
            gradients = torch.autograd.grad(
                value, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
        return torch.stack(rows)

    def gradient(self, rewards: Tensor) -> Tensor:
        """Of the expected reward."""
        return (self.probs * rewards) @ self.scores

    def index(self, tokens: Tensor) -> Tensor:
        """Which of the listed sequences ``tokens [..., length]`` are."""
        base = self.model.vocabulary
        place = torch.full((base**self.length,), -1)
        place[code(self.tokens, base)] = torch.arange(len(self.tokens))
        found = place[code(tokens, base)]
        assert (found >= 0).all(), "a sequence that cannot be drawn"
        return found


NOTHING = torch.zeros(1, 0, dtype=torch.long)
MODELS = {
    "coins": lambda: Listed(Table(2, 6, seed=1), 6),
    "table": lambda: Listed(Table(5, 3, 1.5, seed=2), 3),
    "ends": lambda: Listed(Table(3, 5, seed=3), 5, eos=1),
    "transformer": lambda: Listed(TinyTransformer(3, 4, seed=4), 4, eos=2),
    "hot": lambda: Listed(Table(4, 3, seed=5), 3, policy=Policy(temperature=2.5)),
    "top-k": lambda: Listed(Table(5, 3, seed=6), 3, policy=Policy(top_k=2)),
    "top-p": lambda: Listed(Table(5, 3, seed=7), 3, eos=0, policy=Policy(0.7, top_p=0.8)),
}


def draw(listed: Listed, groups: int, samples: int = 4, seed: int = 0, **options) -> Rollouts:
    """Groups of rollouts of a listed model, without prompts."""
    policy = listed.policy
    return rollouts(
        listed.step,
        NOTHING.expand(groups, 0),
        samples,
        listed.length,
        temperature=policy.temperature,
        top_k=policy.top_k,
        top_p=policy.top_p,
        eos=listed.eos,
        generator=generator(seed),
        **options,
    )
