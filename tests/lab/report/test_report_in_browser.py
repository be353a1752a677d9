"""The page about runs, as a browser shows it."""

import json

import pytest
from written_runs import write_hostile_page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return write_hostile_page(tmp_path_factory.mktemp("hostile"))


def plots(browser, ready="return document.querySelectorAll('.plot .legendtoggle').length > 0"):
    """Elements with plots, once the first is drawn."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 120).until(lambda driver: driver.execute_script(ready))
    return browser.find_elements("css selector", ".plot")


def test_in_a_browser(browser, hostile):
    browser.get(hostile.as_uri())
    browser.execute_script("document.querySelector('.plot').scrollIntoView()")
    first = plots(browser)[0]
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.hacked") is None
    entries = browser.get_log("performance")
    messages = [json.loads(entry["message"])["message"] for entry in entries]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    # The browser's own pages ask for others.
    own = [one["request"]["url"] for one in sent if one["documentURL"] == hostile.as_uri()]
    assert [url for url in own if not url.startswith(("data:", "blob:"))] == [hostile.as_uri()]

    # In another one, that stands beside it, too.
    hidden = (
        "return document.querySelectorAll('.plot')[{}].data.some(t => t.visible === 'legendonly')"
    )
    assert not browser.execute_script(hidden.format(0))
    first.find_element("css selector", ".legendtoggle").click()
    plots(browser, hidden.format(0))
    plots(browser, hidden.format(1))
    first.find_element("css selector", ".legendtoggle").click()
    plots(browser, f"return !({hidden.format(1).removeprefix('return ')})")
    assert browser.get_log("browser") == []


def column(browser, number):
    return browser.execute_script(
        "return [...document.querySelector('table').tBodies[0].rows]"
        f".map(row => row.cells[{number}].dataset.value ?? null)"
    )


def test_tables_sort_by_click_and_by_key(browser, hostile):
    browser.get(hostile.as_uri())
    heads = browser.find_elements("css selector", "table:first-of-type th button")
    names = [head.text for head in heads]
    ours = names.index("ours")
    heads[ours].click()
    values = [float(value) for value in column(browser, ours) if value]
    assert values == sorted(values)
    assert column(browser, ours)[len(values) :] == [None] * (
        len(column(browser, ours)) - len(values)
    )
    heads[ours].send_keys("\n")
    assert [float(value) for value in column(browser, ours) if value] == values[::-1]
    assert heads[ours].find_element("xpath", "..").get_attribute("aria-sort") == "descending"
    estimator = names.index("estimator")
    heads[estimator].send_keys(" ")
    assert column(browser, estimator) == sorted(column(browser, estimator))


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_follows_light_and_dark(browser, hostile, width, scheme):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(hostile.as_uri())
    browser.execute_script("document.querySelector('.plot').scrollIntoView()")
    first = plots(browser)[0]
    root = browser.execute_script(
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth, innerWidth]"
    )
    assert root[0] == root[1]
    assert root[2] == width
    back = browser.execute_script("return arguments[0].layout.paper_bgcolor", first)
    assert back == {"light": "#ffffff", "dark": "#14171b"}[scheme]
    assert first.size["width"] <= width
    titles = browser.execute_script(
        "return ['xaxis', 'yaxis'].map(name => arguments[0].layout[name].title.text)", first
    )
    assert titles == ["step", "nats"]
    # The whole table of settings is seen without scrolling.
    box = browser.find_element("css selector", "#settings .box")
    assert box.get_property("scrollWidth") <= box.get_property("clientWidth")
