"""Freed memory is reused."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import torch
import carms

torch.set_num_threads(1)
logits = torch.randn(50, 20, 10, requires_grad=True)
weight = torch.randn(784, 200)

def step():
    carms.expectation(
        lambda z: (z.flatten(-2) @ weight.T).square().mean(-1), logits, "carms-i", samples=10
    ).sum().backward()

for _ in range(10):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator of glibc")
def test_a_step_of_a_user_hardly_faults():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    # Without care it is about a thousand pages.
    assert float(done.stdout) < 100, done.stderr
