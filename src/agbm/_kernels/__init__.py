"""C++ headers that belong to the package because NVRTC compiles them when a GPU is first used.

`formulas/` has what the CPU and the GPU both compile, `cuda/` has the kernels. Only `_engines.device` imports it, it
imports nothing; native code includes headers of `formulas/`, never of `cuda/`.
"""

from pathlib import Path

KERNELS = Path(__file__).parent
"""The folder, which compilers need as an include path."""
