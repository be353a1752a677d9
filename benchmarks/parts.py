"""The command line of benchmarks that have several parts."""

import argparse
from collections.abc import Callable, Mapping

import torch

Part = Callable[[argparse.Namespace], None]


def parser_of(
    description: str, parts: Mapping[str, Part], problems: int, samples: list[int]
) -> argparse.ArgumentParser:
    """A parser with the options that all such benchmarks have, and the given defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("parts", nargs="*", choices=[[], *parts], help="default: all")
    parser.add_argument("--problems", type=int, default=problems, help="number of random problems")
    parser.add_argument("--samples", type=int, nargs="+", default=samples)
    parser.add_argument("--rounds", type=int, default=9, help="number of timed calls")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def run_parts(parts: Mapping[str, Part], parser: argparse.ArgumentParser) -> None:
    """Run the parts that the command line names, each from the same seed and on one thread."""
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.parts or parts:
        torch.manual_seed(arguments.seed)
        parts[name](arguments)
