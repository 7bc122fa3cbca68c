"""A load test of a service on this machine: `python examples/load_test.py serve.py --requests 4000 --clients 8`.

The service is serve.py or serve_fastapi.py. The script trains and saves a small model, starts the service and sends
requests. Some are malformed: truncated, too long, invalid JSON, rows of the wrong length, binary noise. With --rows,
all are valid and have that many rows. Every request must get the expected response, predictions must equal those of the
model exactly, and the service must still run at the end. Prints latencies.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from agbm import AGBMClassifier

SERVICES = {"serve.py": "/predict", "serve_fastapi.py": "/batch"}
"""Where each takes several rows: lists, or objects by name."""
NAMES = load_breast_cancer().feature_names.tolist()


def malformed(named: bool) -> dict[str, bytes]:
    """Bodies of requests that must be refused."""

    def rows(values: list[Any]) -> bytes:
        return json.dumps({"rows": [dict(zip(NAMES, values, strict=False)) if named else values]}).encode()

    return {
        "invalid JSON": b"{",
        "deep JSON": b"[" * 100_000,
        "noise": bytes(range(256)),
        "no rows": b'{"rows": []}',
        "short row": rows([1, 2]),
        "text": rows(["x"] * 30),
        "huge number": rows([10**4000, *[1] * 29]),
        "infinity": rows([float("inf")] * 30),
    }


class Client:
    """A client of the service that counts the results of its requests."""

    def __init__(self, service: str, port: int, n_rows: int | None, X: np.ndarray, expected: np.ndarray) -> None:
        self.path, self.named = SERVICES[service], service == "serve_fastapi.py"
        self.port, self.n_rows, self.X, self.expected = port, n_rows, X, expected
        self.malformed = malformed(self.named)
        self.latencies: list[float] = []
        self.counts: Counter[str] = Counter()
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)

    def send(self, k: int) -> None:
        """Send request number k; one in five is malformed, unless all have the same number of rows."""
        if self.n_rows is not None or k % 5 != 4:
            self._ask(k)
        elif k % 25 == 24:
            self._hang_up()
        elif k % 25 == 19:
            self._claim_too_much()
        else:
            name = list(self.malformed)[k // 5 % len(self.malformed)]
            status, _ = self._post(self.malformed[name])
            self._count(name, status in (400, 422))

    def _ask(self, k: int) -> None:
        rows = (k + np.arange(self.n_rows or 1 + k % 3)) % len(self.X)
        values = self.X[rows].tolist()
        sent = [dict(zip(NAMES, row, strict=True)) for row in values] if self.named else values
        body = json.dumps({"rows": sent}).encode()
        began = time.perf_counter()
        status, answer = self._post(body)
        self.latencies.append(time.perf_counter() - began)
        found = [list(row.values()) for row in answer.get("predictions", [])]
        self._count("predictions", status == 200 and found == self.expected[rows].tolist())

    def _post(self, body: bytes) -> tuple[int, dict[str, list[dict[str, float]]]]:
        self._connection.request("POST", self.path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def _hang_up(self) -> None:
        """Close the connection in the middle of a request."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
        self._count("hung up", True)

    def _claim_too_much(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n".encode())
            self._count("too long", b" 413 " in connection.recv(100))

    def _count(self, name: str, right: bool) -> None:
        self.counts[name if right else f"WRONG: {name}"] += 1


def start(service: str, model: Path) -> tuple[subprocess.Popen[str], int]:
    """Start the service; return its process and port."""
    command: list[str | Path] = [sys.executable, Path(__file__).with_name(service), model, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().rsplit(":", 1)[1])


def with_service(name: str, use: Callable[[int, np.ndarray, np.ndarray], None]) -> None:
    """Train and save a model, serve it while `use` runs, and check that the service survived."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = AGBMClassifier().fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.agbm"
        model.save(path)
        service, port = start(name, path)
        try:
            use(port, X.to_numpy(), model.predict_proba(X))
            assert service.poll() is None, "the service has exited"
        finally:
            service.terminate()
            service.wait()


def main() -> None:
    """Send the requests and print the results."""
    parser = argparse.ArgumentParser(description="Load test of a service on this machine.")
    parser.add_argument("service", choices=SERVICES)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rows", type=int, help="rows per request")
    args = parser.parse_args()

    def use(port: int, X: np.ndarray, expected: np.ndarray) -> None:
        clients = [Client(args.service, port, args.rows, X, expected) for _ in range(args.clients)]

        def run(number: int) -> None:
            for k in range(number, args.requests, args.clients):
                clients[number].send(k)

        began = time.perf_counter()
        with ThreadPoolExecutor(args.clients) as pool:
            list(pool.map(run, range(args.clients)))
        seconds = time.perf_counter() - began
        counts = sum((client.counts for client in clients), Counter[str]())
        assert counts.total() == args.requests, "requests were lost"
        latencies = 1000 * np.concatenate([client.latencies for client in clients])
        for name, count in sorted(counts.items()):
            print(f"{name:24s} {count}")
        print(f"{args.requests / seconds:.0f} requests per second with {args.clients} clients; latency in ms: "
              f"median {np.median(latencies):.1f}, 99th percentile {np.percentile(latencies, 99):.1f}, "
              f"maximum {latencies.max():.1f}")  # fmt: skip
        if any(name.startswith("WRONG") for name in counts):
            sys.exit(1)

    with_service(args.service, use)


if __name__ == "__main__":
    main()
