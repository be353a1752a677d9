import pytest
from helpers import BINARY_ONLY

import carms


@pytest.fixture(params=carms.available())
def name(request):
    return request.param


@pytest.fixture
def categories(name):
    return 2 if name in BINARY_ONLY else 4
