"""Serve a saved model with FastAPI, columns by name: `python examples/serve_fastapi.py model.agbm --port 8000`.

    POST /predict   {"age": 40, "city": "Bern", "joined": "2026-03-01"}: the columns in any order; null is missing,
                    dates are ISO 8601
                    -> {"prediction": ...}, for a classifier the probabilities by class
    POST /batch     {"rows": [{...}, ...]} -> {"predictions": [...]}
    GET /health     -> {"model": "AGBMClassifier", "fingerprint": "...", "features": [...]}
    GET /docs       the types of all columns

Needs `pip install fastapi uvicorn`. Columns that are missing or of another type are refused with 422 and their names,
and so are unknown ones, unless --unknown=ignore. This is a recipe, meant to be copied; in production, put a proxy with
TLS in front of it.
"""

import argparse
import socket
from collections.abc import Callable
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr, create_model
from starlette.types import ASGIApp, Receive, Scope, Send

import agbm

LONGEST_BODY = 10_000_000
MOST_ROWS = 10_000
# Columns of booleans are numbers to a model.
Number = Annotated[
    float,
    BeforeValidator(lambda value: float(value) if isinstance(value, bool) else value),
    Field(strict=True, allow_inf_nan=False),
]
Date = Annotated[StrictStr, AfterValidator(lambda text: datetime.fromisoformat(text).isoformat())]
Model = agbm.AGBMClassifier | agbm.AGBMRegressor


class Limited:
    """Refuses bodies that are too long before they are read."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; a body without a length is refused, too."""
        headers = dict(scope.get("headers", []))
        if b"transfer-encoding" in headers:
            await refusal(411, ["Content-Length is required"])(scope, receive, send)
        elif int(headers.get(b"content-length", 0)) > LONGEST_BODY:
            await refusal(413, [f"the body must have at most {LONGEST_BODY} bytes"])(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def refusal(status: int, errors: list[str]) -> JSONResponse:
    """The response to an invalid request."""
    return JSONResponse({"errors": errors}, status)


def row_of(model: Model, unknown: str) -> type[BaseModel]:
    """The type of a row by name, with the type of every column."""
    reader = model.model_.reader
    if reader.names is None:
        raise ValueError("the columns of the model have no names: fit it to a data frame, or use examples/serve.py")
    columns: dict[str, Any] = {
        f"column_{f}": (_type_of(model, f), Field(alias=str(name))) for f, name in enumerate(reader.names)
    }
    return create_model("Row", __config__=ConfigDict(extra="forbid" if unknown == "refuse" else "ignore"), **columns)


def _type_of(model: Model, f: int) -> Any:
    reader = model.model_.reader
    derived = reader.derivation
    if f in derived.dates:
        return (StrictStr if derived.dates[f].form else Date) | None
    if f in derived.numbers:
        return StrictStr | Number | None
    if f in derived.ordered:
        return Literal[*derived.ordered[f]] | None
    kinds = {bool: StrictBool, str: StrictStr}
    values = reader.categories.of.get(f, [0.0])
    return reduce(or_, dict.fromkeys(kinds.get(type(value), Number) for value in values), None)


def predictions_of(model: Model) -> Callable[[list[dict[str, Any]]], list[Any]]:
    """A function from rows to what the service returns for each."""
    model.set_params(n_jobs=1)  # requests are handled in parallel
    if not isinstance(model, agbm.AGBMClassifier):
        predict = model.predictor()
        return lambda rows: list(predict(rows).tolist())
    probabilities, classes = model.predictor("predict_proba"), [str(name) for name in model.classes_.tolist()]
    return lambda rows: [dict(zip(classes, row, strict=True)) for row in probabilities(rows).tolist()]


def service(model: Model, unknown: str = "refuse") -> FastAPI:
    """The application for a model whose columns have names."""
    Row, predictions = row_of(model, unknown), predictions_of(model)
    rows: Any = Annotated[list[Row], Field(min_length=1, max_length=MOST_ROWS)]  # type: ignore[valid-type]
    Rows = create_model("Rows", rows=(rows, ...))
    health_report = {
        "model": type(model).__name__,
        "fingerprint": model.fingerprint_,
        "features": [str(name) for name in model.feature_names_in_],
    }
    app = FastAPI(title="agbm")
    app.add_middleware(Limited)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return refusal(422, [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()[:20]])

    @app.exception_handler(ValueError)
    def refused(_: Request, error: ValueError) -> JSONResponse:
        # What only the model can check, such as text that is no date.
        return refusal(422, [str(error)])

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return health_report

    @app.post("/predict")
    async def predict(row: Row) -> dict[str, Any]:  # type: ignore[valid-type]
        return {"prediction": predictions([row.model_dump(by_alias=True)])[0]}  # type: ignore[attr-defined]

    # Not async: it runs in a thread, and other requests do not wait for it.
    @app.post("/batch")
    def batch(body: Rows) -> dict[str, Any]:  # type: ignore[valid-type]
        return {"predictions": predictions(body.model_dump(by_alias=True)["rows"])}  # type: ignore[attr-defined]

    return app


def main() -> None:
    """Load the model and serve until stopped."""
    parser = argparse.ArgumentParser(description="Serve a saved model with FastAPI.")
    parser.add_argument("model", help="model file written by model.save")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 for any free port")
    parser.add_argument("--unknown", choices=["refuse", "ignore"], default="refuse", help="what to do with other names")
    args = parser.parse_args()
    try:
        app = service(agbm.load(args.model), args.unknown)
    except (OSError, ValueError) as error:
        parser.exit(1, f"{error}\n")
    listening = socket.create_server((args.host, args.port))
    # Connections inherit it. With Nagle's algorithm, each response waits 40 ms for the client to confirm its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://{args.host}:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])


if __name__ == "__main__":
    main()
