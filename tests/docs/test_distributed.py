"""What the page on distributed training says."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import carms

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "distributed.md"

CHECKS = """
import os

def everywhere(tensor):
    found = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(found, tensor)
    return found


def flat(module):
    return torch.cat([each.detach().flatten() for each in module.parameters()])


one, other = everywhere(flat(model))
assert torch.equal(one, other), "parameters differ between ranks"
assert not torch.equal(flat(model.module.estimator), flat(carms.make("rodeo", samples=4)))

logits = torch.zeros(50, 2, 3)
draws = carms.make("carms-s", samples=4)
torch.manual_seed(0)
one, other = everywhere(draws.sample(logits).indices)
assert torch.equal(one, other), "equal seeds, equal samples"
one, other = everywhere(draws.sample(logits, generator).indices)
assert not torch.equal(one, other), "a generator for each rank, other samples"


class WithRelax(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.estimator = carms.make("relax", samples=4, **options)

    def forward(self, logits):
        return self.estimator.expectation(f, logits)


lazy = WithRelax()
try:
    DistributedDataParallel(lazy)
except RuntimeError as error:
    assert "uninitialized parameters" in str(error)
else:
    raise AssertionError("parameters without shapes were taken")
logits.requires_grad_()
lazy(logits)
DistributedDataParallel(lazy)(logits).sum().backward()
one, other = everywhere(lazy.estimator.network.outer.grad)
assert torch.equal(one, other), "gradients of relax differ between ranks"
shaped = DistributedDataParallel(WithRelax(features=6))
shaped(logits).sum().backward()

# Left outside, a learned estimator learns something else on every rank.
outside = carms.make("rodeo", samples=4)
outside.expectation(f, logits, generator).sum().backward()
one, other = everywhere(outside.scales.grad)
assert not torch.equal(one, other)
print("done", flush=True)
dist.barrier()
# At the end of the interpreter, threads of the group that are still alive abort the process.
os._exit(0)
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_two_processes(tmp_path):
    (program,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "train.py"
    path.write_text(program + CHECKS)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    place = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *place, path], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2


# From torch's own code.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_a_generator_breaks_the_graph():
    logits = torch.zeros(5, 2, 3, requires_grad=True)
    source = torch.Generator()

    def value(logits, generator=None):
        return carms.expectation(lambda z: z[..., 0].sum(-1), logits, "loorf", 4, generator).sum()

    torch.compiler.reset()
    torch.compile(value, fullgraph=True, backend="eager")(logits).backward()
    assert logits.grad.abs().sum() > 0
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(value, fullgraph=True, backend="eager")(logits, source)
    torch.compiler.reset()
    assert torch.compile(value, backend="eager")(logits, source).requires_grad
    torch.compiler.reset()


def test_a_generator_is_resumed():
    logits, source = torch.zeros(5, 2, 3), torch.Generator().manual_seed(3)
    estimator = carms.make("carms-s", samples=4)
    state = source.get_state()
    first = estimator.sample(logits, source).indices
    again = torch.Generator()
    again.set_state(state)
    assert torch.equal(estimator.sample(logits, again).indices, first)
