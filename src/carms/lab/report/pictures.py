"""The pictures of runs, inside a page."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from carms.lab.figures.labels import PICTURES
from carms.lab.figures.png import read_picture
from carms.lab.report.blocks import Block, variant
from carms.lab.runs.gather import RecordedRun

__all__ = ["embed_pictures"]

# Most pictures of a page.
LIMIT = 24


class Picture(NamedTuple):
    """A picture of a run, with the place of its block and its rank within the block."""

    rank: int
    place: int
    run: RecordedRun
    name: str


def embed_pictures(blocks: Sequence[Block]) -> str:
    """HTML with pictures of one run of each group, or of as many blocks as the limit allows."""
    found = [
        Picture(rank, place, run, name)
        for place, block in enumerate(blocks)
        for rank, group in enumerate(block.groups)
        for run, name in _of_group(group)
    ]
    if not found:
        return '<p class="note">No pictures: they are drawn when a run is finished.</p>'
    chosen = sorted(found, key=lambda one: (one.rank, one.place))[:LIMIT]
    shown = "".join(map(_figure, sorted(chosen, key=lambda one: (one.place, one.rank))))
    rest = f" {LIMIT} of {len(found):,} are shown." if len(found) > LIMIT else ""
    return (
        '<p class="note">One run for each estimator and its settings: the one with the lowest seed '
        f'that has pictures.{rest}</p><div class="pictures">{shown}</div>'
    )


def _of_group(group: Sequence[RecordedRun]) -> list[tuple[RecordedRun, str]]:
    """The first run that has pictures, with their names."""
    for run in group:
        names = [name for name in PICTURES if read_picture(run.path / f"{name}.png")]
        if names:
            return [(run, name) for name in names]
    return []


def _figure(picture: Picture) -> str:
    settings = picture.run.settings
    data = b64encode(read_picture(picture.run.path / f"{picture.name}.png") or b"").decode()
    title, rows = PICTURES[picture.name]
    shown = f"{title}; rows: {', '.join(rows)}" if rows else title
    where = f"{settings.task}, {settings.dataset}, {settings.network}, {settings.categories:,}"
    text = f"{where} categories, seed {settings.seed}"
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{escape(shown)}" loading="lazy">'
        f"<figcaption><b>{escape(variant(settings))}</b> {escape(text)}</figcaption></figure>\n"
    )
