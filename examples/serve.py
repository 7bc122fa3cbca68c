"""Serve a saved model over HTTP with the standard library: `python examples/serve.py model.agbm --port 8000`.

    POST /predict   {"rows": [[5.1, 3.5, null], ...]}: a list per row, in the order of the features; null is missing
                    -> {"predictions": [...]}, for a classifier the probabilities by class
    GET /health     -> {"model": "AGBMClassifier", "features": [...]}

Every request gets a response: 400 with an error message if it is invalid, 413 if it is too long. This is a reference
implementation, meant to be read; in production, put a proxy with TLS and its own limits in front of it.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import warnings
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

import agbm

LONGEST_BODY = 10_000_000
MOST_ROWS = 10_000
SECONDS_TO_WAIT = 10.0


class RequestError(Exception):
    """An invalid request, with its HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """A model, and what is needed to parse its input."""

    def __init__(self, model: agbm.AGBMClassifier | agbm.AGBMRegressor) -> None:
        self.model = model
        self.n_features = model.n_features_in_
        self.names = [str(name) for name in getattr(model, "feature_names_in_", range(self.n_features))]
        self.categorical = model.model_.reader.categories.counts(self.n_features)
        # One thread per request, since requests are handled in parallel.
        model.set_params(n_jobs=1)

    def health(self) -> dict[str, Any]:
        """Return the type and the features of the model."""
        return {"model": type(self.model).__name__, "features": self.names}

    def predict(self, body: bytes) -> dict[str, Any]:
        """Return the predictions for the rows of a request."""
        X = self._rows(self._parse(body))
        with np.errstate(all="ignore"):
            if isinstance(self.model, agbm.AGBMClassifier):
                classes = [str(name) for name in self.model.classes_.tolist()]
                found = [dict(zip(classes, row, strict=True)) for row in self.model.predict_proba(X).tolist()]
                return {"predictions": found}
            return {"predictions": self.model.predict(X).tolist()}

    def _parse(self, body: bytes) -> list[Any]:
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error
        rows = request.get("rows") if isinstance(request, dict) else None
        if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_ROWS:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"'rows' must be a list of 1 to {MOST_ROWS} rows")
        return rows

    def _rows(self, rows: list[Any]) -> np.ndarray:
        table = np.empty((len(rows), self.n_features), dtype=object if self.categorical.any() else np.float64)
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != self.n_features:
                raise RequestError(HTTPStatus.BAD_REQUEST, f"row {i} must be a list of {self.n_features} values")
            for f, value in enumerate(row):
                table[i, f] = self._value(i, f, value)
        return table

    def _value(self, i: int, f: int, value: Any) -> Any:
        if value is None:
            return None if self.categorical[f] else math.nan
        if self.categorical[f] and isinstance(value, (str, int, float)):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(_as_float(value)):
            raise RequestError(
                HTTPStatus.BAD_REQUEST, f"row {i}: {self.names[f]!r} must be a number or null, got {str(value)[:50]!r}"
            )
        return float(value)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer that is too large
        return math.inf


class Handler(BaseHTTPRequestHandler):
    """Request handler, one thread per connection."""

    protocol_version = "HTTP/1.1"
    timeout = SECONDS_TO_WAIT
    service: Service

    def do_GET(self) -> None:
        """Handle GET /health. If there is a body, the connection is closed: it would be read as the next request."""
        self.close_connection = self.close_connection or bool({"Content-Length", "Transfer-Encoding"} & {*self.headers})
        self._answer(lambda: self.service.health() if self.path == "/health" else self._nothing_here())

    def do_POST(self) -> None:
        """Handle POST /predict."""
        self._answer(lambda: self.service.predict(self._body()) if self.path == "/predict" else self._nothing_here())

    def _body(self) -> bytes:
        # Ambiguous body lengths allow request smuggling.
        if "Transfer-Encoding" in self.headers or len(self.headers.get_all("Content-Length", [])) > 1:
            raise RequestError(HTTPStatus.BAD_REQUEST, "one Content-Length is required, without Transfer-Encoding")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "Content-Length is required")
        if len(length) > 12 or int(length) > LONGEST_BODY:
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body must have at most {LONGEST_BODY} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise RequestError(HTTPStatus.BAD_REQUEST, "the body is shorter than its Content-Length")
        return body

    def _nothing_here(self) -> dict[str, Any]:
        raise RequestError(HTTPStatus.NOT_FOUND, "not found; use POST /predict or GET /health")

    def _answer(self, make: Any) -> None:
        status, answer = HTTPStatus.OK, {}
        try:
            answer = make()
        except RequestError as error:
            status, answer = error.status, {"error": str(error)}
            self.close_connection = True  # the rest of the request must not be read as the next one
        except ValueError as error:  # raised by the model for invalid rows
            status, answer = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except Exception as error:  # respond to the client and keep serving
            status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": type(error).__name__}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


class Server(ThreadingHTTPServer):
    """Server that sends responses without delay and ignores clients that disconnect."""

    daemon_threads = True
    request_queue_size = 128

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection and disable Nagle's algorithm."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of clients that have disconnected."""


def main() -> None:
    """Load the model and serve until stopped."""
    parser = argparse.ArgumentParser(description="Serve a saved model over HTTP.")
    parser.add_argument("model", help="model file written by model.save")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 for any free port")
    args = parser.parse_args()
    # Requests contain lists, in the order of the features.
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    try:
        Handler.service = Service(agbm.load(args.model))
    except (OSError, agbm.ModelFileError) as error:
        parser.exit(1, f"{error}\n")
    with Server((args.host, args.port), Handler) as server:
        print(f"http://{args.host}:{server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    main()
