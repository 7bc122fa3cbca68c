"""Work that is spread over processes, each on cores of its own, so that times are comparable."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    work: Callable[[Item], Iterable[Result]], items: Sequence[Item], n_processes: int, n_cores: int
) -> Iterator[Result]:
    """The results of `work` for all items, as they come: a process takes the next item when it has done one.

    Each process has `n_cores` cores. One that crashes loses the rest of its item; the others continue.
    """
    cores = sorted(os.sched_getaffinity(0))
    if n_processes * n_cores > len(cores):
        raise ValueError(
            f"{n_processes} processes with {n_cores} cores each need {n_processes * n_cores} cores; there are "
            f"{len(cores)}."
        )
    # The work is inherited, not pickled: contestants are closures.
    context = multiprocessing.get_context("fork")
    taken = context.Value("q", 0)

    def run(own: set[int], results: Connection) -> None:
        os.sched_setaffinity(0, own)
        while True:
            with taken.get_lock():
                number, taken.value = taken.value, taken.value + 1
            if number >= len(items):
                return
            for result in work(items[number]):
                results.send(result)

    started = {}
    for number in range(n_processes):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=run, args=({*cores[number * n_cores :][:n_cores]}, writer), daemon=True)
        process.start()
        writer.close()  # so that the end of the process is the end of the pipe
        started[reader] = process
    while started:
        for reader in cast(list[Connection], wait(list(started))):
            try:
                yield reader.recv()
            except EOFError:
                process = started.pop(reader)
                process.join()
                if process.exitcode:
                    print(f"a process ended with exit code {process.exitcode}; start again to measure what it has lost")
