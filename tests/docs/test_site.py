"""The site in a browser, on a desktop and on a telephone: nothing is cut off at the right."""

import http.server
import threading
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Pages with the widest tables, formulas and lines of code.
PAGES = [
    "",
    "estimators/",
    "how-to/choose/",
    "how-to/training-loop/",
    "mathematics/circular/",
    "mathematics/trapezoid/",
    "results/benchmarks/",
    "results/training/",
]
# Elements that stick out of the window, and on a desktop those that have to be scrolled sideways.
CUT = """
const width = document.documentElement.clientWidth
const scrolls = (e) => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
const inside = (e) => e !== document.body && (scrolls(e) || inside(e.parentElement))
const cut = (e) =>
  scrolls(e)
    ? width > 1000 && e.scrollWidth > e.clientWidth + 1
    : e.getBoundingClientRect().right > width + 1 && !inside(e)
return [...document.querySelectorAll('.md-content *')]
  .filter((e) => e.checkVisibility() && cut(e))
  .map((e) => `${e.localName}: ${e.textContent.trim().slice(0, 60)}`)
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    mkdocs = pytest.importorskip("mkdocs.commands.build")
    from mkdocs.config import load_config

    directory = str(tmp_path_factory.mktemp("site"))
    mkdocs.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=directory, strict=True))
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=directory)
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_cut_off(browser, site, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 1000}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for page in PAGES:
        browser.get(f"{site}/{page}")
        assert browser.execute_script(CUT) == [], page


def test_brackets_grow_around_fractions(browser, site):
    browser.get(f"{site}/mathematics/circular/")
    height = "return arguments[0].getBoundingClientRect().height"
    fraction, bracket = (
        browser.execute_script(height, browser.find_element("css selector", f"math {name}"))
        for name in ("mfrac", "mo[stretchy='true']")
    )
    assert bracket >= 0.9 * fraction
