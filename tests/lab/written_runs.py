"""Directories as runs leave them, written without training."""

import json

from carms.lab.report.page import make_page
from carms.lab.runs.gather import gather
from carms.lab.runs.settings import Settings

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
PAPER = {"network": "linear", "categories": 3}
HOSTILE = "<script>alert(1)</script><img src=x onerror=window.hacked=1>"


def write_run(path, found=None, lines=4, versions=None, **settings):
    """A directory as a run leaves it; ``found`` are its log likelihoods if it is finished."""
    settings = Settings(**{"steps": 40, "log_every": 10, "rate": 1e-3} | settings)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(settings.to_json()))
    with (path / "metrics.jsonl").open("w") as file:
        for step in range(1, lines + 1):
            line = {
                "step": step * settings.log_every,
                "objective": -100 + step + settings.seed / 7,
                "gradient_variance": (1 + settings.seed) / step,
                "test_bound": -101 + step,
                "milliseconds": 2.5,
            }
            file.write(json.dumps(line) + "\n")
    if found is not None:
        result = {
            "step": settings.steps,
            "train_log_likelihood": found[0],
            "test_log_likelihood": found[1],
            "training_seconds": 1.5,
            "versions": versions or {"carms": "0.1.0", "torch": "2.13.0"},
        }
        (path / "result.json").write_text(json.dumps(result))
        (path / "samples.png").write_bytes(PICTURE)
    return settings


def page_of(*directories):
    return make_page(gather(directories), "carms report")


def write_good_runs(path):
    """Write loorf with three seeds, unord with one, carms-s unfinished, and another data set."""
    for seed, found in enumerate([(-105.0, -104.0), (-105.5, -104.5), (-106.0, -105.25)]):
        write_run(path / f"loorf-{seed}", found, estimator="loorf", seed=seed, **PAPER)
    write_run(path / "deep" / "er" / "unord", (-104.0, -106.0), estimator="unord", **PAPER)
    write_run(path / "carms-s", lines=2, **PAPER)
    write_run(path / "digits", (-20.0, -21.0), dataset="digits", task="complete")
    return path


def write_hostile_page(path):
    """Write the good runs, one that would do harm in every place it can, and a page of all."""
    write_good_runs(path / "good")
    evil = path / HOSTILE.replace("/", "\N{FULLWIDTH SOLIDUS}")
    for name in ("one", "two"):
        write_run(evil / name, (-1.0, -2.0), dataset=HOSTILE + name, versions={HOSTILE: HOSTILE})
    (path / HOSTILE[:8]).mkdir()
    (path / HOSTILE[:8] / "config.json").write_text(json.dumps({HOSTILE: 1}))
    out = path / "report.html"
    out.write_text(page_of(path))
    return out
