"""Jobs done on a Ray cluster."""

import ipaddress
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from carms.lab.extras import how_to_install
from carms.lab.sweep.jobs import Job, Outcome, Work, attempt

__all__ = ["host_and_port", "on_ray"]

# How often Ray begins a task again that died with its worker or its node.
RETRIES = 30


def on_ray(work: Work, jobs: Sequence[Job[Any]], address: str) -> Iterator[Outcome | None]:
    """Do jobs as tasks of a Ray cluster, all of whose nodes see the directories of the runs.

    Args:
        work: trains the run of a job.
        jobs: what to train.
        address: ``"HOST:PORT"`` or ``"ray://HOST:PORT"`` of a cluster that runs already, or
            ``"auto"`` for one that was started on this machine.
    """
    # Ray reads these when it is imported. Otherwise it tries to connect for 13 minutes, and looks
    # for a cluster on loopback at another address of this machine.
    if _on_loopback(address):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    try:
        import ray
    except ImportError as error:
        raise ValueError(f"--ray needs Ray: {how_to_install('ray')}") from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError) as error:
        raise ValueError(f"there is no Ray cluster at {address!r}: {error}") from error
    try:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(attempt)
        waiting = {task.remote(work, replace(job, path=job.path.absolute())): job for job in jobs}
        while waiting:
            done, _ = ray.wait([*waiting], timeout=1)
            for reference in done:
                job = waiting.pop(reference)
                try:
                    yield replace(ray.get(reference), job=job)
                except ray.exceptions.RayError as error:
                    yield Outcome(job, f"{type(error).__name__}: {error}")
            yield None
    finally:
        ray.shutdown()


def host_and_port(address: str) -> tuple[str, int] | None:
    """Host and port of a cluster; None for ``"auto"``, and an error if it is no address."""
    if address == "auto":
        return None
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal():
        raise ValueError(
            f"--ray takes HOST:PORT, ray://HOST:PORT or auto, got {address!r}; "
            "to use this machine alone, leave it out"
        )
    return host, int(port)


def _on_loopback(address: str) -> bool:
    """Whether a cluster is on the loopback of this machine; an error if nobody listens there."""
    place = host_and_port(address)
    if place is None:
        return False
    try:
        with socket.create_connection(place, timeout=10) as connection:
            return ipaddress.ip_address(connection.getpeername()[0]).is_loopback
    except (OSError, OverflowError, UnicodeError) as error:
        raise ValueError(f"there is no Ray cluster at {address!r}: {error}") from error
