"""The device that the tests of devices run on: the emulation, or with AGBM_GPU=1 the GPU of this machine."""

import os

from emulated_device import LAUNCH, EmulatedArray, EmulatedDevice, address_of

GPU = os.environ.get("AGBM_GPU", "") not in ("", "0")


class RecordedDevice:
    """A device that notes the kernels it has launched, as the emulation does."""

    def __init__(self, device):
        self._device = device
        self.launched = []
        self.streams = {}
        self._functions = []

    def __getattr__(self, name):
        return getattr(self._device, name)

    def launch(self, kernel, *args, **options):
        self.launched.append(kernel)
        self._device.launch(kernel, *args, **options)

    def new_stream(self):
        stream = self._device.new_stream()
        self.streams[stream] = 0
        return stream

    def on(self, stream):
        self.streams[stream] += 1
        return self._device.on(stream)

    def calls(self, kernels):
        found = self._device.calls(kernels)
        names, launch = dict(zip(found.kernels, kernels, strict=True)), LAUNCH(found.launch)

        def recorded(kernel, *args):
            self.launched.append(names[kernel])
            return launch(kernel, *args)

        self._functions.append(LAUNCH(recorded))
        return found._replace(launch=address_of(self._functions[-1]))


def a_device(n_processors=1):
    """A device; the number of processors is that of the emulation."""
    if not GPU:
        return EmulatedDevice(n_processors)
    from agbm._engines.device.cuda import cuda_device

    return RecordedDevice(cuda_device())


def is_on_device(array):
    """Whether an array is one of the device."""
    return hasattr(array, "__cuda_array_interface__") if GPU else isinstance(array, EmulatedArray)
