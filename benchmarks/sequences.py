"""Correlated rollouts against RLOO: variance, the choice of epsilon, products, speed, length, and
the effects of another program's logits and of groups with equal rewards.
"""

from parts import parser_of, run_parts
from rollouts.drift import drift_table
from rollouts.lessons import lessons_table
from rollouts.products import product_table
from rollouts.speed import long_table, processor_table, speed_table
from rollouts.variance import variance_tables

PARTS = {
    "variance": variance_tables,
    "product": product_table,
    "speed": speed_table,
    "processor": processor_table,
    "long": long_table,
    "drift": drift_table,
    "lessons": lessons_table,
}


def main() -> None:
    parser = parser_of(__doc__, PARTS, problems=24, samples=[4, 8, 16, 32])
    parser.add_argument("--rows", type=int, default=160_000, help="rollouts per measurement")
    parser.add_argument("--vocabulary", type=int, default=4)
    parser.add_argument("--length", type=int, default=4)
    parser.add_argument("--large", type=int, default=32_000, help="vocabulary for time and length")
    parser.add_argument("--tokens", type=int, default=5000, help="length of very long rollouts")
    run_parts(PARTS, parser)


if __name__ == "__main__":
    main()
