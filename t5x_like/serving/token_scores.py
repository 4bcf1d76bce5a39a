"""Log-probabilities of the tokens of a text, in the form of OpenAI's completions."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.inference.length_batches import pad_prompts, round_length
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

_LOWEST_LOG_PROB = -9999.0  # for impossible tokens: JSON has no infinity


class TokenLogProbs(NamedTuple):
    """Log-probabilities of a token and of the best tokens in its place.

    Attributes:
      chosen: Log-probability of the token.
      top: Log-probabilities of the best tokens and of this one, by their form in the vocabulary.
    """

    chosen: float
    top: dict[str, float]


class TokenScorer:
    """Scores tokens by reading a text once more.

    Args:
      pretrained: A model that writes.
      text_of: Function from ids to their text.
      count_program: Called with the sizes of each program that may be compiled.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        *,
        text_of: Callable[[Sequence[int]], str],
        count_program: Callable[..., None],
    ):
        self._pretrained, self._text_of, self._count_program = pretrained, text_of, count_program
        self._family = pretrained.checkpoint.family

    def score(
        self, prompt: list[int], new: list[int], *, best: int, all_tokens: bool
    ) -> list[TokenLogProbs | None]:
        """Return log-probabilities of all tokens or of the new ones, by reading them once more.

        Args:
          prompt: Ids of the prompt.
          new: Ids after it.
          best: Number of tokens to list in the place of each.
          all_tokens: Whether a decoder's prompt is scored, too.
        """
        if self._family == "encoder_decoder":
            inputs, mask = self._padded(prompt)
            start = self._pretrained.special_ids.decoder_start
            outputs, _ = self._padded([start, *new[:-1]])
            self._count_program("score", inputs.shape, outputs.shape)
            arguments: dict[str, Any] = {
                "input_ids": inputs,
                "attention_mask": mask,
                "decoder_input_ids": outputs,
            }
            targets = new
        else:
            targets = (prompt + new)[1:]
            inputs, mask = self._padded((prompt + new)[: max(len(targets), 1)])
            self._count_program("score", inputs.shape)
            arguments = {"input_ids": inputs, "attention_mask": mask}
        first = 0 if all_tokens or self._family == "encoder_decoder" else len(prompt) - 1
        if not targets[first:]:
            return [None] if all_tokens and prompt else []
        logits = np.asarray(self._pretrained(**arguments).logits)[0, first : len(targets)]
        logits = logits[:, : self._pretrained.config.vocab_size]
        logits = logits - logits.max(axis=-1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        entries = [
            self._entry(row, target, best) for row, target in zip(log_probs, targets[first:], strict=True)
        ]
        return [None, *entries] if all_tokens else list(entries)

    def in_form_of_openai(
        self, ids: list[int], entries: Sequence[TokenLogProbs | None], *, end: int | None
    ) -> dict[str, object]:
        """Return the lists of OpenAI's form.

        Args:
          ids: Tokens of a text.
          entries: Log-probabilities of each.
          end: Character of the text before which tokens must begin; None for all of them.
        """
        offsets = [len(self._text_of(ids[:index])) for index in range(len(ids))]
        count = sum(offset < end for offset in offsets) if end is not None else len(ids)
        return {
            "tokens": [self._piece(token_id) for token_id in ids[:count]],
            "token_logprobs": [entry and entry.chosen for entry in entries[:count]],
            "top_logprobs": [entry and entry.top for entry in entries[:count]],
            "text_offset": offsets[:count],
        }

    def _entry(self, log_probs: np.ndarray, target: int, best: int) -> TokenLogProbs:
        count = min(best, len(log_probs))
        top = np.argpartition(-log_probs, count - 1)[:count] if count else np.zeros(0, int)
        ordered = sorted(top.tolist(), key=lambda token_id: (-log_probs[token_id], token_id))
        values = {
            token_id: max(float(log_probs[token_id]), _LOWEST_LOG_PROB) for token_id in [*ordered, target]
        }
        return TokenLogProbs(
            values[target], {self._piece(token_id): value for token_id, value in values.items()}
        )

    def _piece(self, token_id: int) -> str:
        """Return a token as its vocabulary writes it: unlike its text, no other token's is the same."""
        tokenizer = self._pretrained.vocabulary
        return f"<{token_id}>" if tokenizer is None else tokenizer.piece(token_id)

    def _padded(self, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and mask, [1, L], padded on the right to a round length that the model can read."""
        max_positions = self._pretrained.checkpoint.max_positions
        return pad_prompts([ids], length=round_length(len(ids), max_positions))
