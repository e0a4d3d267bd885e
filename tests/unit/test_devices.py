"""One job, one device: no GPU is needed to show who gets which."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from support import PYTHONPATH, ROOT

from gnorm import devices

HOLD = """
import sys, time
from gnorm.devices import lease
print(lease(sys.argv[1:], every=0.05), flush=True)
time.sleep(60)
"""


@pytest.fixture
def hold():
    """Starts processes that lease one of the named devices and keep it; none outlives the test."""
    started = []

    def start(names):
        command, environment = [sys.executable, "-c", HOLD, *names], os.environ | {"PYTHONPATH": PYTHONPATH}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def names(tmp_path, count):
    """Devices that no other test has."""
    return [f"{tmp_path}-{i}" for i in range(count)]


def test_as_many_jobs_as_devices_get_one_each_and_the_next_waits(tmp_path, hold):
    pretended = names(tmp_path, 3)
    jobs = [hold(pretended) for _ in range(3)]
    got = [int(job.stdout.readline()) for job in jobs]
    assert sorted(got) == [0, 1, 2]
    late = hold(pretended)
    time.sleep(0.5)
    assert late.poll() is None
    jobs[1].send_signal(signal.SIGKILL)  # whatever ends a job frees its device
    assert int(late.stdout.readline()) == got[1]


def test_a_device_is_known_by_its_name_not_by_its_place(tmp_path, hold):
    first, second, third = names(tmp_path, 3)
    job = hold([second, third])
    assert job.stdout.readline() == "0\n"
    assert devices.lease([second, first]) == 1


@pytest.mark.parametrize("count,expected", [(0, "cpu"), (1, "cuda:0"), (2, "cuda:1")])
def test_the_device_of_a_job(count, expected, tmp_path, monkeypatch, caplog, hold):
    """Two visible GPUs of which another job holds the first; one visible GPU is the one given; or none."""
    pretended = names(tmp_path, count)
    if count > 1:
        hold(pretended[:1]).stdout.readline()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: SimpleNamespace(uuid=pretended[i]))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    torch.use_deterministic_algorithms(False)  # training, in another test, has set it
    try:
        with caplog.at_level("INFO", logger="gnorm"):
            found = devices.device.__wrapped__()
        assert torch.are_deterministic_algorithms_enabled() == (count > 0)
    finally:
        torch.use_deterministic_algorithms(False)
    assert str(found) == expected and chosen == ([found] if count else [])
    assert f"on {expected}; CUDA_VISIBLE_DEVICES is 6,7" in caplog.text
