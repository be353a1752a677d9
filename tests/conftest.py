import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fixed_global_stream():
    """Tests that use the global random stream do not depend on which tests ran before."""
    torch.manual_seed(0)
