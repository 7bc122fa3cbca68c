"""The device that estimators with device="cuda" use, and those with device="auto" for large tables."""

import pytest

from devices import a_device


@pytest.fixture
def device(monkeypatch):
    used = a_device(1)
    monkeypatch.setattr("agbm._engines.device.cuda.cuda_device", lambda: used)
    return used
