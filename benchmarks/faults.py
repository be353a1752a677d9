"""Let faults happen to small runs, and count how often a result is lost.

A fault is survived if the same result comes out in the end, bit for bit, or if the command says in
one error what is wrong, and changes nothing. All else is lost: another result, a traceback, a
command that hangs.
"""

import argparse
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from math import ceil
from pathlib import Path

from hunt.attempts import Attempt, Fault, Lab
from hunt.children import fork, prepare
from hunt.damage import deleted, failing, flipped, truncated
from hunt.disks import small_disks
from hunt.hostile import hostile_directories
from hunt.kills import killed_anywhere, killed_at_operations, stopped
from hunt.runs import TASKS, undisturbed
from hunt.sharing import two_commands
from hunt.sweeps import driver_killed, ray_killed, worker_killed
from pages import put_table
from timing import print_table

FAULTS: dict[str, Fault] = {
    "SIGKILL at a random moment": killed_anywhere,
    "SIGKILL at each file operation": killed_at_operations,
    "SIGINT, SIGTERM or SIGHUP at a random moment": stopped,
    "a bit of a file flipped": flipped,
    "a file truncated": truncated,
    "a file or directory deleted": deleted,
    "EIO or EACCES at each file operation": failing,
    "a small disk": small_disks,
    "two commands on a directory": two_commands,
    "a hostile directory": hostile_directories,
    "a worker of a sweep killed": worker_killed,
    "the driver of a sweep killed": driver_killed,
    "a worker, the driver or a node of Ray killed": ray_killed,
}


def attempt(one: Attempt) -> str | None:
    """Why the result is lost, or None if it is not; a defect of the hunt counts as a loss."""
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as folder:
        try:
            return one(Path(folder))
        except Exception:
            return f"the hunt failed:\n{traceback.format_exc()}"


def some_of(attempts: list[Attempt], share: float) -> list[Attempt]:
    """A share of the attempts, the same ones every time."""
    return random.Random(0).sample(attempts, ceil(share * len(attempts)))


def hunt(names: list[str], share: float, workers: int) -> Iterator[list[str]]:
    """Yield a row for each kind of fault, and print each loss at once."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        tasks = {name: undisturbed(words, Path(folder, name)) for name, words in TASKS.items()}
        other = undisturbed([*TASKS["vae"], "--seed", "1"], Path(folder, "other"))
        lab = Lab(tasks, other)
        # All of them now: later there are threads beside this one.
        attempts = {name: some_of([*FAULTS[name](lab)], share) for name in names}
        with ProcessPoolExecutor(workers, mp_context=fork) as pool:
            for name, chosen in attempts.items():
                lost = 0
                for why in pool.map(attempt, chosen):
                    lost += why is not None
                    if why is not None:
                        print(f"{name}: {why}", file=sys.stderr, flush=True)
                yield [name, f"{len(chosen):,}", f"{len(chosen) - lost:,}", f"{lost:,}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="faults with such a word in them")
    parser.add_argument("--share", type=float, default=1.0, help="share of the tries to make")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--page", type=Path, help="put the table on this page")
    options = parser.parse_args()
    if options.page and options.only:
        parser.error("the page has all faults: --page and --only do not go together")
    names = [name for name in FAULTS if any(word in name for word in options.only or [""])]
    if not names:
        parser.error(f"no such fault; there are {', '.join(FAULTS)}")
    prepare()
    header, rows = ["fault", "tries", "survived", "lost"], list[list[str]]()
    for row in hunt(names, options.share, options.workers):
        rows.append(row)
        print(*row, sep="  ", flush=True)
    print_table("Faults", header, rows)
    if options.page:
        put_table(options.page, "faults", [header, *rows])


if __name__ == "__main__":
    main()
