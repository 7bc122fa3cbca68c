"""The device that estimators with device="cuda" use."""

import pytest

from agbm._device.prediction import DevicePredictions
from agbm._device.source import DeviceRows
from devices import a_device


@pytest.fixture
def device(monkeypatch):
    used = a_device(1)
    monkeypatch.setattr("agbm._base_estimator.rows_of_device", lambda name: DeviceRows(used))
    monkeypatch.setattr("agbm._base_estimator.predictions_on_device", lambda name: DevicePredictions(used))
    return used
