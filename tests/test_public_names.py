"""What ``import carms`` offers."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import carms


def test_tab_shows_the_public_names_alone():
    assert dir(carms) == sorted(carms.__all__)
    assert {"Estimator", "Draw", "expectation", "make"} < set(dir(carms))


@pytest.mark.parametrize("name", carms.__all__)
def test_every_public_name_is_there(name):
    home = carms._HOMES.get(name)
    module = importlib.import_module(f"carms.{home or name}")
    assert getattr(carms, name) is (getattr(module, name) if home else module)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'carms' has no attribute 'expection'"):
        carms.expection  # noqa: B018


def test_no_function_hides_a_module():
    modules = {module.name for module in pkgutil.iter_modules(carms.__path__)}
    for name in modules & set(carms.__all__):
        assert getattr(carms, name) is importlib.import_module(f"carms.{name}")


def test_importing_the_package_does_not_import_torch():
    program = "import sys, carms; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
