"""The device that estimators with device="cuda" use."""

import pytest

from agbm._engines.device.prediction import DevicePredictions
from agbm._engines.device.source import DeviceSource
from devices import a_device


@pytest.fixture
def device(monkeypatch):
    used = a_device(1)
    monkeypatch.setattr("agbm._estimators.base.rows_of_device", lambda name: DeviceSource(used))
    monkeypatch.setattr("agbm._estimators.base.predictions_on_device", lambda name: DevicePredictions(used))
    return used
