"""The harness' requests as token ids: likelihoods of continuations, and generated continuations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.inference.length_batches import run_by_length
from t5x_like.inference.scorer import LikelihoodRequest
from t5x_like.pretrained.checkpoint import Checkpoint


class Likelihood(NamedTuple):
    """Log-likelihood in nats; and True if greedy decoding would write the continuation."""

    log_likelihood: float
    is_greedy: bool


class RequestRunner:
    """Runner of requests on one model.

    Requests that are too long lose their beginning, as in the harness.

    Args:
      checkpoint: The model.
      batch_size: Requests in a batch.
      max_length: Tokens of a request, at most.
    """

    def __init__(self, checkpoint: Checkpoint, *, batch_size: int, max_length: int):
        self.checkpoint = checkpoint
        self.batch_size = batch_size
        self.max_length = max_length
        self._model = TextModel.of_checkpoint(checkpoint)

    def score(
        self,
        requests: Sequence[LikelihoodRequest],
        answered: Callable[[int, Likelihood], object] = lambda *_: None,
    ) -> list[Likelihood]:
        """Score each continuation.

        Requests of similar length share batches, the longest first. Equal requests are computed once.

        Args:
          requests: Contexts with their continuations.
          answered: Called with the position and result of each request when it is known.

        Raises:
          ValueError: A continuation without tokens, or longer than the model can read.
        """
        positions: dict[LikelihoodRequest, list[int]] = {}
        for index, request in enumerate(requests):
            positions.setdefault(self._truncated(request), []).append(index)
        unique = list(positions)

        def run(numbers: list[int]) -> list[Likelihood]:
            scored = self._model.score(
                self.checkpoint.params,
                [unique[index] for index in numbers],
                batch_size=self.batch_size,
                limit=self.max_length,
            )
            likelihoods = [Likelihood(*row) for row in zip(*(each.tolist() for each in scored), strict=True)]
            for index, likelihood in zip(numbers, likelihoods, strict=True):
                for position in positions[unique[index]]:
                    answered(position, likelihood)
            return likelihoods

        sizes = [len(request.prompt) + len(request.target) for request in unique]
        scored = dict(zip(unique, run_by_length(sizes, self.batch_size, run), strict=True))
        return [scored[self._truncated(request)] for request in requests]

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        config: GenerationConfig,
        *,
        stops: Sequence[str] = (),
        answered: Callable[[int, str], object] = lambda *_: None,
    ) -> list[str]:
        """Generate a continuation of each prompt, up to a stop text or the model's own end.

        Args:
          prompts: Token ids.
          config: Decoding settings.
          stops: Texts that end a continuation.
          answered: Called with the position and text of each continuation when it is known.

        Raises:
          ValueError: No room for a prompt next to the new tokens.
        """
        available = self._available_length(config.max_new_tokens)
        stop_ids = self._single_token_stops(stops)
        texts = [""] * len(prompts)
        written = self._model.generate(
            self.checkpoint.params,
            [prompt[-available:] for prompt in prompts],
            config,
            batch_size=self.batch_size,
            limit=available,
            stop_ids=stop_ids,
        )
        for index, text in written:
            texts[index] = truncate_at_stop(text, stops)
            answered(index, texts[index])
        return texts

    def _truncated(self, request: LikelihoodRequest) -> LikelihoodRequest:
        if not len(request.target):
            raise ValueError("a continuation has no token of its own; a task asks how likely nothing is")
        if len(request.target) > self.max_length:
            raise ValueError(
                f"a continuation has {len(request.target)} tokens, the model reads {self.max_length}; raise "
                "max_length if it can read more"
            )
        # A decoder reads all but the last token of the continuation after the context.
        num_fed = len(request.target) - 1 if self.checkpoint.kind == "decoder" else 0
        return request._replace(prompt=request.prompt[-max(self.max_length - num_fed, 1) :])

    def _available_length(self, max_new_tokens: int) -> int:
        """Return the tokens of a prompt that can be read."""
        if self.checkpoint.kind != "decoder":
            return self.max_length
        if max_new_tokens >= self.max_length:
            raise ValueError(
                f"{max_new_tokens} new tokens leave no room for a prompt among the {self.max_length} that the model "
                "reads; lower max_gen_toks"
            )
        return self.max_length - max_new_tokens

    def _single_token_stops(self, stops: Sequence[str]) -> tuple[int, ...]:
        """Return ids of stop texts that are a single token, at which a batch may end early."""
        tokenizer = self.checkpoint.tokenizer
        encoded = [(stop, tokenizer.encode(stop)) for stop in stops if stop]
        return tuple(ids[0] for stop, ids in encoded if len(ids) == 1 and tokenizer.decode(ids) == stop)


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """Return a text up to the first stop text in it.

    Args:
      text: Generated text.
      stops: Stop texts.
    """
    ends = [position for stop in stops if stop and (position := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text


def rolling_windows(ids: Sequence[int], *, prefix: int, max_length: int) -> list[LikelihoodRequest]:
    """Split a long text into windows that score every token once with as much context as fits.

    The first window follows ``prefix``. The last one is as long as the others and overlaps with tokens scored before
    (the harness' own rule, with a context of at least one token).

    Args:
      ids: Token ids of the text.
      prefix: Id that precedes the text.
      max_length: Tokens in a window.
    """
    windows = []
    for start in range(0, len(ids), max_length):
        end = min(start + max_length, len(ids))
        before = [prefix] if start == 0 else list(ids[max(end - max_length - 1, 0) : start])
        windows.append(LikelihoodRequest(tuple(before), tuple(ids[start:end])))
    return windows
