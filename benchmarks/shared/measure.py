"""Time measurements of several contestants that take turns, and their ratios."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Turn = Callable[[], float]
"""A function that does its work and returns the time it took, in seconds."""

# The threads of the previous library keep a core busy for some milliseconds while they wait for more work.
PAUSE = 0.05
# A contestant that takes longer than SLOW seconds, and more than FAR_BEHIND times as long as the fastest, runs only
# once; this time is used for all rounds, since its ratio is clear.
SLOW, FAR_BEHIND = 2.0, 20.0


@dataclass(frozen=True)
class Result:
    """One ratio: `value` of the subject divided by `reference` of the contestant `against`, both in `unit`."""

    case: str
    setting: str
    subject: str
    against: str
    value: float
    reference: float
    unit: str
    ratio: float
    target: float | None = None
    remark: str = ""
    """How the contestant `against` differs from the others."""
    note: str = ""
    """A note on the setting."""


def clocked(work: Callable[[], object], least: int = 1, seconds: float = 0.2) -> Turn:
    """A turn that measures the median time of a call, with at least `least` calls and `seconds` seconds.

    If there are several calls, the first one, which wakes threads and fills caches, does not count.
    """

    def turn() -> float:
        times: list[float] = []
        while len(times) < least or sum(times) < seconds:
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
        return float(np.median(times[1:] or times))

    return turn


def take_turns(turns: Mapping[str, Turn], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each turn, round after round, so that a busy machine affects all contestants alike."""
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        fastest = min(values[0] if values else 0.0 for values in seconds.values())
        for name, turn in turns.items():
            if seconds[name] and seconds[name][0] > max(SLOW, FAR_BEHIND * fastest):
                seconds[name].append(seconds[name][0])
            else:
                time.sleep(PAUSE)
                seconds[name].append(turn())
    return {name: np.array(values) for name, values in seconds.items()}


def compare(
    case: str,
    setting: str,
    subject: str,
    seconds: Mapping[str, np.ndarray],
    targets: Mapping[str, float],
    remarks: Mapping[str, str],
    unit: str = "ms",
) -> list[Result]:
    """Compare the subject with each other contestant: the median over the rounds of the ratio within a round."""
    scale = {"s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9}[unit]
    return [
        Result(
            case, setting, subject, other, scale * float(np.median(seconds[subject])), scale * float(np.median(times)),
            unit, float(np.median(seconds[subject] / times)), targets.get(other), remarks.get(other, ""),
        )
        for other, times in seconds.items()
        if other != subject
    ]  # fmt: skip


def machine() -> dict[str, str]:
    """A description of this machine."""
    facts = {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "caches": ", ".join(_caches()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }
    return {name: fact for name, fact in facts.items() if fact}


def _field(file: str, name: str) -> str:
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def _caches() -> Sequence[str]:
    folders = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    parts = [[(folder / name).read_text().strip() for name in ("level", "type", "size")] for folder in folders]
    return [f"L{level} {size}" for level, kind, size in parts if kind != "Instruction"]
