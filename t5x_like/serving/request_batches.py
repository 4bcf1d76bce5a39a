"""Prompts of several requests, computed in batches of those that are alike."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from t5x_like.serving.model_worker import ModelRequest
from t5x_like.serving.request_fields import RequestError

Result = TypeVar("Result")

_MOST_TOKENS = 16_384  # tokens of the prompts of a batch


class ReadPrompt(NamedTuple):
    """A prompt as the model reads it.

    Attributes:
      ids: Its token ids.
      fields: Those of its request.
      alike: Prompts with an equal value may be rows of one batch.
      num_special: Special ids that begin it.
      seed: Seed of its draws.
    """

    ids: list[int]
    fields: dict[str, Any]
    alike: tuple[object, ...] = ()
    num_special: int = 0
    seed: int = 0


def compute_together(
    requests: Sequence[ModelRequest],
    read: Callable[[dict[str, Any]], list[ReadPrompt]],
    compute: Callable[[list[ReadPrompt]], Sequence[Result]],
    *,
    most_rows: int,
) -> Iterator[tuple[int, tuple[list[Result], int] | RequestError]]:
    """Yield the index of each request once it is done, and the results of its prompts with their number of tokens.

    A request that is refused, or that nobody waits for, has the error that answers it instead.

    Args:
      requests: The requests.
      read: Returns the prompts of a request.
      compute: Returns a result for each of some prompts that are alike.
      most_rows: Rows of a batch.
    """
    pending: dict[int, list[ReadPrompt]] = {}
    alike: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for index, request in enumerate(requests):
        try:
            pending[index] = read(request.fields)
        except RequestError as error:
            yield index, error
            continue
        for place, prompt in enumerate(pending[index]):
            alike.setdefault(prompt.alike, []).append((index, place))
    results: dict[tuple[int, int], Result] = {}
    for places in alike.values():
        size = _batch_size([pending[index][place] for index, place in places if index in pending], most_rows)
        for start in range(0, len(places), size):
            batch = [each for each in places[start : start + size] if each[0] in pending]
            for index in {index for index, _ in batch if requests[index].is_cancelled()}:
                del pending[index]
                yield index, RequestError("the request took too long", status=503)
            batch = [each for each in batch if each[0] in pending]
            if not batch:
                continue
            try:
                computed = compute([pending[index][place] for index, place in batch])
                results |= zip(batch, computed, strict=True)
            except RequestError as error:
                for index in {index for index, _ in batch}:
                    del pending[index]
                    yield index, error
                continue
            for index in dict.fromkeys(index for index, _ in batch):
                places_of_request = [(index, place) for place in range(len(pending[index]))]
                if all(place in results for place in places_of_request):
                    num_tokens = sum(len(prompt.ids) for prompt in pending.pop(index))
                    yield index, ([results[place] for place in places_of_request], num_tokens)


def _batch_size(prompts: Sequence[ReadPrompt], most_rows: int) -> int:
    """Return the number of prompts of a batch; fewer of long ones, whose activations need memory."""
    longest = max((len(prompt.ids) for prompt in prompts), default=1)
    return max(min(most_rows, _MOST_TOKENS // max(longest, 1)), 1)
