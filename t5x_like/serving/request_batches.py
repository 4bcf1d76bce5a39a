"""Prompts of several requests, computed in batches of those that are alike."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from t5x_like.serving.model_worker import ModelRequest
from t5x_like.serving.request_fields import RequestError

Result = TypeVar("Result")


class ReadPrompt(NamedTuple):
    """A prompt as the model reads it.

    Attributes:
      ids: Its token ids.
      fields: Those of its request.
      alike: Prompts with an equal value may be rows of one batch.
      num_special: Special ids that begin it.
      num_rows: Rows that it needs.
      seed: Seed of its draws.
    """

    ids: list[int]
    fields: dict[str, Any]
    alike: tuple[object, ...]
    num_special: int = 0
    num_rows: int = 1
    seed: int = 0


def compute_together(
    requests: Sequence[ModelRequest],
    read: Callable[[dict[str, Any]], list[ReadPrompt]],
    compute: Callable[[list[ReadPrompt]], Sequence[Result]],
    *,
    most_rows: int,
) -> list[tuple[list[Result], int] | RequestError]:
    """Return the results of each request's prompts and their number of tokens, or the error that answers it.

    Args:
      requests: The requests.
      read: Returns the prompts of a request.
      compute: Returns a result for each of some prompts that are alike.
      most_rows: Rows of a batch; a prompt that needs more is a batch of its own.
    """
    prompts = [_read(request, read) for request in requests]
    alike: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for index, own in enumerate(prompts):
        for place, prompt in enumerate(() if isinstance(own, RequestError) else own):
            alike.setdefault(prompt.alike, []).append((index, place))
    results: dict[tuple[int, int], Result] = {}
    errors: dict[int, RequestError] = {}
    for places in alike.values():
        size = max(most_rows // _at(prompts, *places[0]).num_rows, 1)
        for start in range(0, len(places), size):
            batch = [each for each in places[start : start + size] if not requests[each[0]].is_cancelled()]
            if not batch:
                continue
            try:
                computed = compute([_at(prompts, *each) for each in batch])
                results |= zip(batch, computed, strict=True)
            except RequestError as error:
                errors |= {index: error for index, _ in batch}

    def outcome(index: int, own: list[ReadPrompt] | RequestError) -> tuple[list[Result], int] | RequestError:
        if isinstance(own, RequestError):
            return own
        if index in errors:
            return errors[index]
        places = [(index, place) for place in range(len(own))]
        if any(place not in results for place in places):
            return RequestError("the request took too long", status=503)
        return [results[place] for place in places], sum(len(prompt.ids) for prompt in own)

    return [outcome(index, own) for index, own in enumerate(prompts)]


def _read(
    request: ModelRequest, read: Callable[[dict[str, Any]], list[ReadPrompt]]
) -> list[ReadPrompt] | RequestError:
    try:
        return read(request.fields)
    except RequestError as error:
        return error


def _at(prompts: Sequence[list[ReadPrompt] | RequestError], index: int, place: int) -> ReadPrompt:
    own = prompts[index]
    assert not isinstance(own, RequestError)
    return own[place]
