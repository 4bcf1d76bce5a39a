"""The web application: OpenAI-compatible completions, chats and embeddings of one model, and pages for people.

It reads JSON only: a web page of another site can't send that without being asked by the browser.
"""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from t5x_like.serving.answers import Answer, completion_request
from t5x_like.serving.model_worker import ModelWorker
from t5x_like.serving.openapi import openapi_document
from t5x_like.serving.request_fields import (
    CHAT_ROLES,
    RequestError,
    chat_fields,
    completion_fields,
    embedding_fields,
    read_fields,
)
from t5x_like.serving.served_model import ServedModel
from t5x_like.serving.web_pages import documentation_page, try_it_page

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Handler = Callable[[Request], Awaitable[Response]]

# Pages have their own script and style, and nothing from elsewhere.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}


def build_application(model: ServedModel, *, hosts: tuple[str, ...] = ()) -> Starlette:
    """Return the application.

    Args:
      model: The model.
      hosts: Names by which it may be addressed; any if empty. On the loopback interface this keeps a web site from
        reaching it under a name of its own.
    """
    limits = model.limits
    worker = ModelWorker(waiting=limits.waiting, seconds=limits.seconds)
    roles = CHAT_ROLES if model.chat is None else model.chat.roles
    fields = {
        "completions": completion_fields(limits),
        "chat/completions": chat_fields(limits, roles),
        "embeddings": embedding_fields(limits),
    }
    document = openapi_document(model.name, fields)
    created = int(time.time())

    async def read(request: Request, endpoint: str) -> dict[str, Any]:
        return read_fields(await _read_json(request, limits.body_bytes, limits.seconds), fields[endpoint])

    async def completions(request: Request) -> Response:
        return await complete(request, await read(request, "completions"))

    async def chat(request: Request) -> Response:
        return await complete(request, completion_request(await read(request, "chat/completions")))

    async def complete(request: Request, parsed: dict[str, Any]) -> Response:
        answer = Answer(model.name, parsed)
        if not parsed["stream"]:
            completed = await _while_connected(request, worker.run(model.complete, parsed))
            return JSONResponse(answer.whole(completed))
        outcomes = worker.stream(model.complete, parsed)
        first = await _while_connected(request, anext(outcomes))  # before it, an error has its own status
        events = answer.events(first, outcomes)
        return StreamingResponse(
            events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
        )

    async def embeddings(request: Request) -> Response:
        parsed = await read(request, "embeddings")
        vectors, num_tokens = await _while_connected(request, worker.run(model.embed, parsed))
        is_text = parsed["encoding_format"] == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
                if is_text
                else vector.tolist(),
            }
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
        return JSONResponse({"object": "list", "model": model.name, "data": data, "usage": usage})

    async def models(_: Request) -> Response:
        listed = {
            "id": model.name,
            "object": "model",
            "created": created,
            "owned_by": "t5x_like",
            "task": model.task,
            "parameters": model.num_parameters,
            "endpoints": model.abilities,
        }
        return JSONResponse({"object": "list", "data": [listed]})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "model": model.name, "requests": worker.num_requests})

    async def description(_: Request) -> Response:
        return JSONResponse(document)

    async def documentation(_: Request) -> Response:
        return HTMLResponse(documentation_page(document), headers=_PAGE_HEADERS)

    async def try_it(_: Request) -> Response:
        return HTMLResponse(try_it_page(), headers=_PAGE_HEADERS)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        worker.close()

    gets = {
        "/": try_it,
        "/docs": documentation,
        "/openapi.json": description,
        "/health": health,
        "/v1/models": models,
    }
    posts = {
        "/v1/completions": completions,
        "/v1/chat/completions": chat,
        "/v1/embeddings": embeddings,
    }
    return Starlette(
        routes=[
            *(Route(path, _guarded(handler, hosts), methods=["GET"]) for path, handler in gets.items()),
            *(Route(path, _guarded(handler, hosts), methods=["POST"]) for path, handler in posts.items()),
        ],
        exception_handlers={HTTPException: _refuse_path},
        lifespan=lifespan,
    )


def _guarded(handler: Handler, hosts: tuple[str, ...]) -> Handler:
    """Return a handler that answers every error with JSON, and never ends the server."""

    async def guarded(request: Request) -> Response:
        try:
            host = urlsplit(f"//{request.headers.get('host', '')}").hostname
            if hosts and host not in hosts:
                raise RequestError(f"host {host!r} is not served here, but {', '.join(hosts)}")
            return await handler(request)
        except RequestError as error:
            return _error(error)
        except Exception as error:
            log.exception("a request to %s failed", request.url.path)
            return _error(RequestError(f"the server failed: {type(error).__name__}; see its log", status=500))

    return guarded


async def _read_json(request: Request, most: int, seconds: float) -> object:
    """Return the body of a request.

    Raises:
      RequestError: It is too large, comes too slowly, or is no JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("send JSON with the header Content-Type: application/json", status=415)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise RequestError(f"the body has more than {most:,} bytes", status=413)
    except TimeoutError as error:
        raise RequestError(f"the body took more than {seconds:g} s", status=408) from error
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no JSON: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


async def _while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of work, which ends early when the client of a request that was read leaves."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RequestError("the client left", status=499)
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


def _error(error: RequestError) -> Response:
    headers = {"Retry-After": "1"} if error.status in (429, 503) else None
    return JSONResponse(error.body(), status_code=error.status, headers=headers)


async def _refuse_path(request: Request, error: Exception) -> Response:
    """Answer a path or a method that doesn't exist."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}; see /docs"
    return _error(RequestError(message, status=error.status_code))
