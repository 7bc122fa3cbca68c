"""Training on a GPU: arrays and kernels of a device, with the bits of the CPU."""
