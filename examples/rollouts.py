"""A transformer learns to add by policy gradient alone: correlated rollouts in a plain loop.

A prompt is two numbers of two digits to the base 4; the answer is their sum, two digits again
(the carry is lost), rewarded by the share of right digits. ``--copula independent`` is RLOO.
"""

import argparse

import torch
from torch import Tensor, nn

from carms import sequences

BASE, DIGITS = 4, 2


class Model(nn.Module):
    """One causal block; tokens are digits, two times two of a prompt and two of the answer."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.token = nn.Embedding(BASE, width)
        self.place = nn.Parameter(torch.randn(3 * DIGITS, width))
        self.block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.head = nn.Linear(width, BASE)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``[rows, t, base]`` of the token after each one."""
        length = tokens.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        hidden = self.token(tokens) + self.place[:length]
        return self.head(self.block(hidden, future))


def digits(number: Tensor) -> Tensor:
    """The lowest digit first: then the carry can be seen."""
    return torch.stack([number // BASE**k % BASE for k in range(DIGITS)], -1)


def main() -> None:
    """Train, and print how many digits are right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copula", default="circular", choices=["circular", "independent"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    model = Model()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def policy(tokens: Tensor, cache: None) -> tuple[Tensor, None]:
        return model(tokens)[:, -1], cache

    right, every = 0.0, max(1, arguments.steps // 6)
    for step in range(1, arguments.steps + 1):
        numbers = torch.randint(BASE**DIGITS, (16, 2))
        prompts = digits(numbers).flatten(1)
        group = sequences.rollouts(policy, prompts, 16, DIGITS, arguments.copula)
        wanted = digits(numbers.sum(-1))
        rewards = (group.tokens == wanted.unsqueeze(1)).float().mean(-1)

        advantages = sequences.advantages(rewards, group)  # in the place of leave-one-out
        tokens = torch.cat((prompts.repeat_interleave(16, 0), group.tokens.flatten(0, 1)), 1)
        logits = model(tokens[:, :-1])[:, -DIGITS:].log_softmax(-1)
        log_probs = logits.gather(-1, tokens[:, -DIGITS:, None]).squeeze(-1).sum(-1)
        loss = -(advantages.flatten() * log_probs).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

        right += float(rewards.mean()) / every
        if step % every == 0:
            print(f"step {step}: {right:.1%} of the digits right")
            right = 0.0


if __name__ == "__main__":
    main()
