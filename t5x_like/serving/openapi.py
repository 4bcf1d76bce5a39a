"""The OpenAPI description of a server, from the fields of its requests."""

from collections.abc import Mapping
from typing import Any

from t5x_like.serving.request_fields import RequestField
from t5x_like.version import __version__

_REQUIRED = {"completions": "prompt", "chat/completions": "messages", "embeddings": "input"}
_GETS = {
    "/v1/models": "The model, its task, and the endpoints that it answers",
    "/health": "Whether the server works, and its number of requests in work or waiting",
    "/openapi.json": "This description",
}
_POSTS = {
    "completions": "Complete prompts; with echo, logprobs and max_tokens 0 or 1 also score them",
    "chat/completions": "Answer a conversation, by the model's own chat template",
    "embeddings": "A vector for each text",
}
_ERRORS = {
    "400": "The request is wrong; the message says what is needed",
    "404": "There is no such model or path",
    "413": "The body is too large",
    "415": "The body is not declared as JSON",
    "429": "Too many requests wait",
    "503": "The request took too long",
}


def openapi_document(name: str, fields: Mapping[str, Mapping[str, RequestField]]) -> dict[str, object]:
    """Return the description in OpenAPI 3.1.

    Args:
      name: Name of the model.
      fields: Fields of each endpoint.
    """
    good = {"200": {"description": "The answer"}}
    errors = {status: {"description": text} for status, text in _ERRORS.items()}
    paths: dict[str, Any] = {
        path: {"get": {"summary": text, "responses": good}} for path, text in _GETS.items()
    }
    for endpoint, text in _POSTS.items():
        schema = {
            "type": "object",
            "properties": {field: each.schema() for field, each in fields[endpoint].items()},
            "required": [_REQUIRED[endpoint]],
            "additionalProperties": False,
        }
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths[f"/v1/{endpoint}"] = {
            "post": {"summary": text, "requestBody": body, "responses": good | errors}
        }
    info = {"title": f"t5x-like serve: {name}", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths}
