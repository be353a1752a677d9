"""Draws rooms.svg: the rooms of the package, and an arrow for each room that imports another."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "carms"
# From the top floor to the ground: a room imports only rooms below it.
ROOMS = {
    "__main__": "the command carms",
    "lab": "train, sweep, draw, report",
    "doors": "expectation, compare, Paths, importance_bound",
    "subsets": "k of n items, and rankings",
    "sequences": "autoregressive models",
    "estimators": "one file per estimator",
    "couplings": "uniforms to categories and pair ratios",
    "copulas": "correlated uniforms",
    "sampling": "intervals, independent draws, Gumbel noise",
    "core": "what all rooms share",
}
COLOURS = (
    *("#777", "#8a5a2b", "#c4482f", "#7a3fa0", "#2f8f6f"),
    *("#2f6fc4", "#b08900", "#444", "#b0307a", "#000"),
)
WIDTH, ROW, BOX = 800, 48, 470


def room_of(module: str) -> str:
    """The room of a module ``carms.room.file``; the modules beside the rooms are the doors."""
    room = module.removeprefix("carms").strip(".").partition(".")[0]
    return room if room in ROOMS else "doors"


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """``(module, name)`` of each import of the package itself, also of those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        found: list[tuple[str, str]] = []
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [(node.module or "", alias.name) for alias in node.names]
        for module, name in found:
            if module == "carms" and name in ROOMS:
                yield f"carms.{name}", ""
            elif module.partition(".")[0] == "carms":
                yield module, name


def arrows() -> set[tuple[str, str]]:
    """Each room with each other room that it imports."""
    found = {
        (room_of(module_of(path)), room_of(module))
        for path in PACKAGE.rglob("*.py")
        for module, _ in imports(path)
    }
    return {(room, other) for room, other in found if room != other}


def picture() -> str:
    """The rooms from top to bottom, with an arc from each to every room that it imports."""
    order = list(ROOMS)
    shapes = []
    for source, target in sorted(arrows(), key=lambda pair: [order.index(room) for room in pair]):
        rows = order.index(source), order.index(target)
        start, end = (rows[0] + 0.7) * ROW, (rows[1] + 0.3) * ROW
        bend = BOX + 40 + 42 * abs(rows[1] - rows[0])
        shapes.append(
            f'<path d="M{BOX + 8} {start:g} C{bend} {start:g} {bend} {end:g} {BOX + 12} {end:g}" '
            f'class="room{rows[0]}" marker-end="url(#head)"/>'
        )
    for row, (room, contents) in enumerate(ROOMS.items()):
        top = row * ROW
        shapes.append(f'<rect x="8" y="{top + 5}" width="{BOX}" height="{ROW - 10}" rx="6"/>')
        shapes.append(
            f'<text x="22" y="{top + 29}"><tspan class="name">{room}</tspan>'
            f'<tspan x="122">{contents}</tspan></text>'
        )
    strokes = [f".room{row} {{stroke: {colour}}}" for row, colour in enumerate(COLOURS)]
    return STYLE.format(width=WIDTH, height=ROW * len(ROOMS), strokes=" ".join(strokes)) + (
        "\n".join([*shapes, "</svg>", ""])
    )


STYLE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
font-family="sans-serif" font-size="14">
<style>
rect {{fill: #f3f1ea; stroke: #d3cdbb}} .name {{font-weight: bold}} text {{fill: #222}}
path {{fill: none; stroke-width: 1.4}} {strokes}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0L8 4L0 8z" style="fill: context-stroke; stroke: none"/></marker></defs>
<rect width="{width}" height="{height}" style="fill: white; stroke: none"/>
"""


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture())
