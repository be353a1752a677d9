import shutil

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fixed_global_stream():
    """Tests that use the global random stream do not depend on which tests ran before."""
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a window; its log has what pages load and print."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs Debian's chromium and chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "hide-scrollbars",
    ):
        options.add_argument(f"--{flag}")
    for flag in ("background-networking", "component-update", "sync"):
        options.add_argument(f"--disable-{flag}")
    options.add_argument("--window-size=1280,900")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver)
    with webdriver.Chrome(options, service) as started:
        yield started
