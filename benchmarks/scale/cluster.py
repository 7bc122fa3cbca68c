"""Training on a Dask cluster on this machine: agbm, LightGBM and XGBoost on the same collection, in one run.

The table is created by the workers and stays in their memory. Every library gets the same Dask arrays, and trees of the
same depth, learning rate and number of bins. A library fits twice per round, with few and with many trees:
the second fit gives the time of a complete fit, including set-up, and the difference gives the time per tree. Libraries
take turns. A ratio is the median over the rounds of agbm's time divided by the other library's time in the same round;
below 1 means agbm is faster.

In addition, the rounds of messages of agbm's fits are timed by kind, on the driver and in the kernels of the workers. A
fit with almost no rows shows the overhead of a round.

Writes dask_speed.json to the folder --out. --rows counts the whole table; workers are processes with one thread.

With --workers 1 4 16, only agbm's time per tree is measured, for each of these numbers of workers on this machine.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import dask
import dask.array as da
import distributed
import numpy as np
from dask.delayed import delayed

from agbm import AGBMClassifier
from agbm._engines.distributed.dask_shards import DaskShards
from agbm._engines.distributed.messages import Message, Reply
from agbm.dask import DaskAGBMClassifier
from agbm.methods import GBM
from benchmarks.libraries import BINS, MIN_ROWS_IN_LEAF, RATE, Library, LightGBM, Setting, XGBoost
from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import machine, take_turns

FEATURES = 28
DEPTH = 6
PARTITIONS_PER_WORKER = 4
TEST_ROWS = 200_000
TINY_ROWS = 2_000
Table = tuple[np.ndarray, np.ndarray]


def make_rows(seed: int, n_rows: int) -> Table:
    """A part of the table: normal features, and a class that depends on five of them and on noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, FEATURES), dtype=np.float32)
    score = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] + 0.5 * np.abs(X[:, 4])
    return X, (score + rng.standard_normal(n_rows) > 0.4).astype(np.float64)


def collection(client: Any, n_rows: int, partitions: int) -> tuple[Any, Any]:
    """The table as Dask arrays in the memory of the workers; the rows do not depend on the number of workers."""
    sizes = [len(part) for part in np.array_split(np.empty(n_rows, dtype=np.int8), partitions)]
    parts = [delayed(make_rows, nout=2)(i + 1, n) for i, n in enumerate(sizes)]
    X = da.concatenate([da.from_delayed(p[0], (n, FEATURES), np.float32) for p, n in zip(parts, sizes, strict=True)])
    y = da.concatenate([da.from_delayed(p[1], (n,), np.float64) for p, n in zip(parts, sizes, strict=True)])
    X, y = client.persist([X, y])
    distributed.wait([X, y])
    return X, y


class Contestant(Protocol):
    """A library with its settings."""

    def fit(self, X: Any, y: Any, trees: int) -> Callable[[np.ndarray], np.ndarray]:
        """Fit a model and return a function that predicts the probabilities of the second class."""


def our_parameters(plain: bool, trees: int, n_jobs: int | None = None) -> dict[str, Any]:
    """Parameters of plain boosting, or of one member of the default."""
    parameters: dict[str, Any] = {
        "max_iter": trees, "max_depth": DEPTH, "min_samples_leaf": MIN_ROWS_IN_LEAF, "max_bins": BINS,
        "learning_rate": RATE, "early_stopping": False, "n_members": 1, "n_jobs": n_jobs,
    }  # fmt: skip
    return parameters | {"method": GBM(second_order=True), "l2_regularization": 0.0} if plain else parameters


def our_probabilities(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: np.asarray(model.predict_proba(X))[:, 1]


@dataclass(frozen=True)
class OnDask:
    """agbm on a cluster."""

    plain: bool

    def fit(self, X: Any, y: Any, trees: int) -> Callable[[np.ndarray], np.ndarray]:
        return our_probabilities(DaskAGBMClassifier(**our_parameters(self.plain, trees)).fit(X, y).to_local())


@dataclass(frozen=True)
class Local:
    """agbm without Dask, on arrays in this process."""

    plain: bool
    n_jobs: int

    def fit(self, X: Any, y: Any, trees: int) -> Callable[[np.ndarray], np.ndarray]:
        return our_probabilities(AGBMClassifier(**our_parameters(self.plain, trees, self.n_jobs)).fit(X, y))


@dataclass(frozen=True)
class Peer:
    """Another library on a cluster."""

    library: Library

    def fit(self, X: Any, y: Any, trees: int) -> Callable[[np.ndarray], np.ndarray]:
        return self.library.fit_on_dask(X, y, Setting(1, logistic=True, depth=DEPTH, trees=trees))


PLAIN, ONE_MEMBER, LIGHTGBM, XGBOOST = "agbm, plain", "agbm, one member", "LightGBM", "XGBoost"


def contestants() -> dict[str, Contestant]:
    """All contestants: agbm and the installed peers. Prints the names of peers that are not installed."""
    found: dict[str, Contestant] = {PLAIN: OnDask(plain=True), ONE_MEMBER: OnDask(plain=False)}
    for library in (LightGBM, XGBoost):
        try:
            found[library.name] = Peer(library())
        except ImportError:
            print(f"{library.name} is not installed and is skipped")
    return found


@dataclass(frozen=True)
class Asked:
    """The options of a run."""

    rows: int
    trees: int
    few: int
    rounds: int
    direct: bool
    """Whether Dask's client talks to workers directly instead of via the scheduler."""


@dataclass
class Entry:
    """The results of a contestant, in seconds per round."""

    whole: list[float] = field(default_factory=list)
    """Fits with all trees, including set-up."""
    few: list[float] = field(default_factory=list)
    """Fits with few trees."""
    loss: float = float("nan")

    def per_tree(self, asked: Asked) -> np.ndarray:
        """Seconds per tree. In very short runs the difference may be lost in noise, but a time must be positive."""
        return np.maximum(np.subtract(self.whole, self.few), 1e-6) / (asked.trees - asked.few)


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(y > 0, np.log(p), np.log1p(-p))))


def compete(asked: Asked, taking_part: Mapping[str, Contestant], X: Any, y: Any) -> dict[str, Entry]:
    """Run all contestants on one table; they take turns."""
    X_test, y_test = make_rows(0, TEST_ROWS)
    entries = {name: Entry() for name in taking_part}

    def turn(name: str) -> float:
        entry, clocks = entries[name], []
        for trees in (asked.few, asked.trees):
            began = time.perf_counter()
            predict = taking_part[name].fit(X, y, trees)
            clocks.append(time.perf_counter() - began)
        entry.few.append(clocks[0])
        entry.whole.append(clocks[1])
        entry.loss = log_loss(y_test, predict(X_test))
        print(f"  {name}: {clocks[1]:.2f} s for {asked.trees} trees", flush=True)
        return clocks[1]

    take_turns({name: (lambda name=name: turn(name)) for name in taking_part}, asked.rounds)  # type: ignore[misc]
    return entries


def summary(asked: Asked, where: str, entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
    """One row of the table per contestant."""
    rows = []
    for name, entry in entries.items():
        seconds = float(np.median(entry.per_tree(asked)))
        row: dict[str, Any] = {
            "where": where, "who": name, "fit_seconds": float(np.median(entry.whole)), "tree_seconds": seconds,
            "setup_seconds": float(np.median(entry.whole - asked.trees * entry.per_tree(asked))),
            "rows_per_second": asked.rows / seconds, "test_loss": entry.loss, "rounds": len(entry.whole),
        }  # fmt: skip
        for peer in {LIGHTGBM, XGBOOST} & set(entries):
            if name.startswith("agbm"):
                other = entries[peer]
                row[f"fit over {peer}"] = float(np.median(np.divide(entry.whole, other.whole)))
                row[f"tree over {peer}"] = float(np.median(entry.per_tree(asked) / other.per_tree(asked)))
        rows.append(row)
    return rows


def summary_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of all contestants."""
    ratios = [f"fit over {peer}" for peer in (LIGHTGBM, XGBOOST)]
    heads = ["setting", "library", "fit, s", "ms per tree"]
    heads += [ratio.replace(" over ", " / ") for ratio in ratios]
    cells = []
    for row in rows:
        figures = [f"{row['fit_seconds']:.2f}", f"{1e3 * row['tree_seconds']:.1f}"]
        figures += [f"{row[ratio]:.2f}" if ratio in row else "" for ratio in ratios]
        cells.append([row["where"], row["who"], *figures])
    return table(heads, cells, left=2)


# Rounds of messages, one by one.


@dataclass
class Round:
    """A message to all shards and its reply."""

    number: int
    kind: str
    """The kind of the last order in the message."""
    nodes: int
    """Number of nodes whose histograms are requested; 0 for other kinds."""
    began: float
    seconds: float
    reply_bytes: int
    kernels: float = 0.0
    """Seconds of the slowest shard."""
    kernels_cpu: float = 0.0
    """The largest CPU time of a shard, which does not include waiting for a core."""


def bytes_of(reply: Reply) -> int:
    """Size of the arrays in a reply, without the small overhead of the message."""
    return sum(int(getattr(part, "nbytes", 0)) for part in (*reply.sums, reply.largest))


def kind_of(message: Message) -> tuple[str, int]:
    last = message.orders[-1]
    return last.what, len(last.arguments[1]) if last.what == "histograms" else 0


@contextmanager
def timed_rounds(client: Any) -> Iterator[list[Round]]:
    """Record the rounds of all fits in this context. The times of the workers' kernels are added at its end."""
    rounds: list[Round] = []
    send = DaskShards._send

    def timed(self: DaskShards, message: Message) -> Reply:
        began = time.perf_counter()
        reply = send(self, message)
        seconds = time.perf_counter() - began
        rounds.append(Round(message.round, *kind_of(message), began, seconds, bytes_of(reply)))
        return reply

    client.run(watch_kernels)
    DaskShards._send = timed  # type: ignore[method-assign]
    try:
        yield rounds
    finally:
        DaskShards._send = send  # type: ignore[method-assign]
        found = client.run(kernel_seconds)
        for i, round_ in enumerate(rounds):
            of_round = [times[i] for times in found.values() if i < len(times)]
            round_.kernels, round_.kernels_cpu = (max(column) for column in zip(*of_round, strict=True))


def watch_kernels() -> None:
    """In a worker, record the time and the CPU time of its shard for each message, in order: it has one shard."""
    import agbm._engines.distributed.shard as module

    found: Any = module
    if not hasattr(found, "kernel_seconds"):
        receive = module.Shard.receive

        def timed(self: Any, message: Any) -> Any:
            began, cpu_began = time.perf_counter(), time.thread_time()  # shards have one thread
            reply = receive(self, message)
            found.kernel_seconds.append((time.perf_counter() - began, time.thread_time() - cpu_began))
            return reply

        found.Shard.receive = timed
    found.kernel_seconds = []


def kernel_seconds() -> list[tuple[float, float]]:
    import agbm._engines.distributed.shard as module

    found: Any = module
    return list(found.kernel_seconds)


def steady(rounds: Sequence[Round], leave_out: int) -> list[Round]:
    """The rounds without those of the first trees, in which shards and buffers are created."""
    starts = [i for i, round_ in enumerate(rounds) if round_.kind == "set_residuals"]
    return list(rounds[starts[leave_out] :])


def breakdown(rounds: Sequence[Round], leave_out: int = 2) -> dict[str, Any]:
    """Milliseconds by kind of round, and of the driver in between. Medians are robust against pauses."""
    few = steady(rounds, leave_out)
    trees = sum(round_.kind == "set_residuals" for round_ in few)
    gaps = [(a.kind, b.began - a.began - a.seconds) for a, b in itertools.pairwise(few)]
    kinds = []
    for kind, nodes in sorted({(r.kind, r.nodes) for r in few}):
        same = [r for r in few if (r.kind, r.nodes) == (kind, nodes)]
        kinds.append({
            "kind": kind, "nodes": nodes, "per_tree": len(same) / trees,
            "ms": 1e3 * float(np.median([r.seconds for r in same])),
            "kernel_ms": 1e3 * float(np.median([r.kernels for r in same])),
            "overhead_ms": 1e3 * float(np.median([r.seconds - r.kernels for r in same])),
            "reply_bytes": same[0].reply_bytes,
        })  # fmt: skip
    finding = [seconds for kind, seconds in gaps if kind == "histograms"]
    return {
        "rounds_per_tree": len(few) / trees,
        "ms_per_tree": 1e3 * (few[-1].began + few[-1].seconds - few[0].began) / trees,
        "kernel_ms_per_tree": 1e3 * sum(r.kernels for r in few) / trees,
        "kernel_cpu_ms_per_tree": 1e3 * sum(r.kernels_cpu for r in few) / trees,
        "overhead_ms_per_tree": 1e3 * sum(r.seconds - r.kernels for r in few) / trees,
        "driver_ms_per_tree": 1e3 * sum(seconds for _, seconds in gaps) / trees,
        "split_finding_ms_per_round": 1e3 * float(np.median(finding)),
        "reply_bytes_per_tree": sum(r.reply_bytes for r in few) / trees,
        "kinds": kinds,
    }


def breakdown_sentence(name: str, found: Mapping[str, Any]) -> list[str]:
    """A paragraph on the time of a tree."""
    sentence = (
        f"{name}: {found['ms_per_tree']:.1f} ms per tree in {found['rounds_per_tree']:.1f} rounds, of which kernels of "
        f"the slowest worker take {found['kernel_ms_per_tree']:.1f} ms, overhead "
        f"{found['overhead_ms_per_tree']:.1f} ms, and the driver between rounds {found['driver_ms_per_tree']:.1f} ms."
    )
    return textwrap.wrap(sentence, 120)


def breakdown_lines(name: str, found: Mapping[str, Any]) -> list[str]:
    """The same, with a table of the rounds by kind."""
    heads = ["round", "nodes", "per tree", "ms", "kernels, ms", "overhead, ms", "reply, kB"]
    cells = [
        [
            row["kind"], str(row["nodes"] or ""), f"{row['per_tree']:.2f}", f"{row['ms']:.2f}",
            f"{row['kernel_ms']:.2f}", f"{row['overhead_ms']:.2f}", f"{row['reply_bytes'] / 1e3:.1f}",
        ]
        for row in found["kinds"]
        if row["per_tree"] > 0.5  # in small tables, some nodes cannot be split
    ]  # fmt: skip
    return [*breakdown_sentence(name, found), "", *table(heads, cells), ""]


# Memory of the driver.


def resident(what: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def reset_peak() -> float:
    """Forget the peak of the memory of this process so far; returns its memory now."""
    ctypes.CDLL(None).malloc_trim(0)  # otherwise freed memory could be used again without being counted
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def driver_bytes(X: Any, y: Any) -> dict[str, float]:
    """Peak of resident memory that a fit adds to this process, which includes the scheduler."""
    OnDask(plain=True).fit(X[:1_000], y[:1_000], 2)
    before = reset_peak()
    OnDask(plain=True).fit(X, y, 2)
    peak = resident("VmHWM") - before
    return {"rows": len(y), "peak_bytes": peak, "bytes_per_row": peak / len(y)}


@contextmanager
def cluster(n_workers: int, direct: bool = False) -> Iterator[Any]:
    """A client of worker processes with one thread each; it talks to them via the scheduler, or directly."""
    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0,
        ) as local,
        distributed.Client(local, direct_to_workers=direct) as client,
    ):  # fmt: skip
        yield client


def on_cluster(asked: Asked, n_workers: int, report: dict[str, Any]) -> None:
    where = f"Dask, {n_workers} worker{'s' if n_workers > 1 else ''}"
    with cluster(n_workers, asked.direct) as client:
        X, y = collection(client, asked.rows, PARTITIONS_PER_WORKER * 2)
        print(f"{where}: {asked.rows:,} rows", flush=True)
        small = X[:10_000], y[:10_000]
        for contestant in contestants().values():
            contestant.fit(*small, 2)  # imports modules that are loaded lazily
        report["results"] += summary(asked, where, compete(asked, contestants(), X, y))
        for name, plain in ((PLAIN, True), (ONE_MEMBER, False)):
            with timed_rounds(client) as rounds:
                OnDask(plain).fit(X, y, asked.few + 10)
            report["rounds"][f"{where}, {name}"] = breakdown(rounds)
        tiny = collection(client, TINY_ROWS, n_workers)
        with timed_rounds(client) as rounds:
            OnDask(plain=True).fit(*tiny, 40)
        report["rounds"][f"{where}, {PLAIN}, {TINY_ROWS:,} rows"] = breakdown(rounds, 10)
        if n_workers == 2:
            report["driver"] = [driver_bytes(X[:n], y[:n]) for n in (asked.rows // 5, asked.rows)]


PARTS_OF_TREE = {"kernels": "kernel_ms_per_tree", "overhead": "overhead_ms_per_tree"}


def scaling(asked: Asked, worker_counts: Sequence[int]) -> list[dict[str, Any]]:
    """The time per tree of plain boosting by the number of workers: the slope between two numbers of trees."""
    found: list[dict[str, Any]] = []
    for n_workers in worker_counts:
        with cluster(n_workers, asked.direct) as client:
            X, y = collection(client, asked.rows, PARTITIONS_PER_WORKER * max(worker_counts))
            print(f"{n_workers} workers: {asked.rows:,} rows", flush=True)
            OnDask(plain=True).fit(X[:10_000], y[:10_000], 2)  # imports modules that are loaded lazily
            entry = compete(asked, {PLAIN: OnDask(plain=True)}, X, y)[PLAIN]
            with timed_rounds(client) as rounds:
                OnDask(plain=True).fit(X, y, asked.few + 10)
        seconds = float(np.median(entry.per_tree(asked)))
        first = found[0] if found else {"workers": n_workers, "tree_seconds": seconds}
        speedup = first["tree_seconds"] / seconds
        found.append({
            "workers": n_workers, "tree_seconds": seconds, "fit_seconds": float(np.median(entry.whole)),
            "speedup": speedup, "efficiency": speedup * first["workers"] / n_workers, "test_loss": entry.loss,
            "rounds": breakdown(rounds),
        })  # fmt: skip
    return found


def scaling_lines(report: Mapping[str, Any]) -> list[str]:
    """A table of the times per tree by the number of workers."""
    asked, facts = report["asked"], report["machine"]
    intro = (
        f"`{report['command']}`, {report['date']}, {name_of(facts)}: {asked['rows']:,} "
        f"rows, {FEATURES} features, trees of depth {DEPTH}; the difference of fits with {asked['few']} and "
        f"{asked['trees']} trees, medians over {asked['rounds']} round(s). Kernels are those of the slowest worker."
    )
    heads = ["workers", "ms per tree", "speedup", *(f"{part}, ms" for part in PARTS_OF_TREE), "test loss"]
    cells = [
        [
            str(row["workers"]), f"{1e3 * row['tree_seconds']:.1f}", f"{row['speedup']:.2f}",
            *(f"{row['rounds'][key]:.1f}" for key in PARTS_OF_TREE.values()),
            f"{row['test_loss']:.5f}",
        ]
        for row in report["scaling"]
    ]  # fmt: skip
    return [*textwrap.wrap(intro, 120), "", *table(heads, cells, left=0)]


def on_arrays(asked: Asked, report: dict[str, Any]) -> None:
    parts = [make_rows(i + 1, len(part)) for i, part in enumerate(np.array_split(np.empty(asked.rows, np.int8), 8))]
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    del parts
    for n_jobs in (1, 2):
        taking_part: dict[str, Contestant] = {PLAIN: Local(True, n_jobs), ONE_MEMBER: Local(False, n_jobs)}
        where = f"one process, n_jobs={n_jobs}"
        print(where, flush=True)
        report["results"] += summary(asked, where, compete(asked, taking_part, X, y))


def main() -> None:
    """Run all parts; the results so far are written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--few", type=int, default=5, help="number of trees of the fit that is subtracted")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", help="measure only agbm, with these numbers of workers")
    parser.add_argument("--direct", action="store_true", help="use a client with direct_to_workers=True")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    parser.add_argument("--document", type=Path, help="document to insert the results into, such as docs/scale.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    asked = Asked(args.rows, args.trees, args.few, args.rounds, args.direct)
    packages = ("agbm", "lightgbm", "xgboost-cpu", "dask", "numpy")
    report: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "machine": machine(), "asked": vars(asked),
        "command": f"python -m benchmarks.scale.cluster --rows {asked.rows} --trees {asked.trees} "
        f"--rounds {asked.rounds}"
        + " --direct" * asked.direct
        + (f" --few {asked.few} --workers {' '.join(map(str, args.workers))}" if args.workers else ""),
        "versions": {name: version(name) for name in packages}, "results": [], "rounds": {},
    }  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    if args.workers:
        report["scaling"] = scaling(asked, args.workers)
        (args.out / "dask_scaling.json").write_text(json.dumps(report, indent=1) + "\n")
        print("\n".join(["", *scaling_lines(report)]))
        if args.document is not None:
            fill_in(args.document, {"scaling": scaling_lines(report)})
        return
    parts: list[Callable[[], None]] = [
        lambda: on_cluster(asked, 2, report), lambda: on_cluster(asked, 1, report), lambda: on_arrays(asked, report),
    ]  # fmt: skip
    for part in parts:
        part()
        (args.out / "dask_speed.json").write_text(json.dumps(report, indent=1) + "\n")
    parts_of_document = lines_of(report)
    print("\n".join(line for lines in parts_of_document.values() for line in ["", *lines]))
    if args.document is not None:
        few = [name for name in report["rounds"] if name.startswith(f"Dask, 2 workers, {PLAIN}")]
        sentences = [line for name in few for line in [*breakdown_sentence(name, report["rounds"][name]), ""]]
        fill_in(args.document, parts_of_document | {"rounds": sentences[:-1]})
    print(f"\nwrote {args.out / 'dask_speed.json'}")


def name_of(facts: Mapping[str, str]) -> str:
    """A machine in words. Not every system names its processor."""
    return f"{facts.get('processor', facts['system'])}, {facts['cores']} cores"


def lines_of(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """The lines for a document, by the name of the part."""
    asked, facts = report["asked"], report["machine"]
    intro = (
        f"`{report['command']}`, {report['date']}, {name_of(facts)}: {asked['rows']:,} "
        f"rows, {FEATURES} features, {asked['trees']} trees of depth {DEPTH}, medians over {asked['rounds']} round(s); "
        + ", ".join(f"{name} {number}" for name, number in report["versions"].items()) + "."
    )  # fmt: skip
    first, second = report["driver"]
    slope = (second["peak_bytes"] - first["peak_bytes"]) / (second["rows"] - first["rows"])
    memory = (
        f"At its peak a fit added {first['peak_bytes'] / 1e6:.0f} MB to the driver with {first['rows']:,} rows and "
        f"{second['peak_bytes'] / 1e6:.0f} MB with {second['rows']:,}: {slope:.0f} bytes per additional row."
    )
    rounds = [line for name, found in report["rounds"].items() for line in breakdown_lines(name, found)]
    return {
        "speed": [*textwrap.wrap(intro, 120), "", *summary_lines(report["results"])],
        "rounds": rounds[:-1],
        "driver": textwrap.wrap(memory, 120),
    }


if __name__ == "__main__":
    main()
