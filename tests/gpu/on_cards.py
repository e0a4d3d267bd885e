"""A plugin for pytest: tests of this folder run on pretended cards (`make test-gpu`); other runs leave them out."""

import pretended
import pytest

pretended.install(cards=2)

import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fresh():
    """A device is chosen once in a process; here, once in a test, or whenever this is called."""
    from gnorm import devices

    def forget():
        devices.device.cache_clear()
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = True
        for held in devices._held:
            held.close()
        devices._held.clear()
        pretended.NOW.card = 0

    forget()
    yield forget
    forget()


@pytest.fixture
def short_probe(monkeypatch):
    """Probes for a batch size end early: a pretended card takes seconds for large batches."""
    from gnorm.engine import memory

    monkeypatch.setattr(memory, "MOST", 1024)
