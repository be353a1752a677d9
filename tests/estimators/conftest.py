import pytest
from estimator_cases import NAMES, suits

import carms


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def categories(name):
    return 3 if suits(name, 3) else 2


@pytest.fixture
def estimator(name):
    return carms.make(name, samples=4)
