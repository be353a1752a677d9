"""Random problems with so few sequences that all of them can be enumerated."""

from dataclasses import dataclass

import torch
from torch import Tensor

from carms.sequences import Rollouts, rollouts

# Scale of the logits, and whether rewards are sparse.
KINDS = {
    "peaked, sparse": (2.0, True),
    "peaked, dense": (2.0, False),
    "flat, sparse": (0.5, True),
    "flat, dense": (0.5, False),
}


@dataclass
class Problem:
    """Random logits for every prefix, and a reward for every sequence.

    Attributes:
        logits: ``[V^t, V]`` for each ``t``.
        rewards: ``[V^T]``; if sparse, one in ten is 1 and the others are 0, otherwise normal.
    """

    logits: list[Tensor]
    rewards: Tensor

    @staticmethod
    def random(vocabulary: int, length: int, scale: float, sparse: bool) -> "Problem":
        sizes = [vocabulary**t for t in range(length + 1)]
        logits = [scale * torch.randn(size, vocabulary).double() for size in sizes[:-1]]
        rewards = torch.randn(sizes[-1]).double()
        if sparse:
            threshold = rewards.topk(round(0.1 * sizes[-1])).values.min()
            rewards = (rewards >= threshold).double()
        return Problem(logits, rewards)

    def index(self, tokens: Tensor) -> Tensor:
        """Number of each sequence ``[..., t]``."""
        number = torch.zeros(tokens.shape[:-1], dtype=torch.long)
        for token in tokens.unbind(-1):
            number = number * self.logits[0].shape[-1] + token
        return number

    def step(self, tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        return self.logits[tokens.shape[1]][self.index(tokens)], cache

    def draw(self, groups: int, samples: int, epsilon: float) -> Rollouts:
        nothing = torch.zeros(groups, 0, dtype=torch.long)
        return rollouts(self.step, nothing, samples, len(self.logits), epsilon=epsilon)

    def probs_and_scores(self) -> tuple[Tensor, Tensor]:
        """Probabilities ``[V^T]``, and the gradients ``[V^T, parameters]`` of their logarithms."""
        log_probs, scores = torch.zeros(1).double(), torch.zeros(1, 0).double()
        for logits in self.logits:
            vocabulary = logits.shape[-1]
            own = torch.eye(vocabulary) - logits.softmax(-1).unsqueeze(1)
            block = torch.block_diag(*own)
            scores = torch.cat((scores.repeat_interleave(vocabulary, 0), block), 1)
            log_probs = (log_probs.unsqueeze(-1) + logits.log_softmax(-1)).flatten()
        return log_probs.exp(), scores

    def gradient(self) -> Tensor:
        """Exact gradient ``[parameters]`` of the mean reward."""
        probs, scores = self.probs_and_scores()
        return (probs * self.rewards) @ scores


def random_problems(kind: str, vocabulary: int, length: int, count: int) -> list[Problem]:
    """Problems of one of ``KINDS``."""
    scale, sparse = KINDS[kind]
    return [Problem.random(vocabulary, length, scale, sparse) for _ in range(count)]
