"""Settings of ``generate`` that change the scores of the next token, by transformers' names."""

import math
from collections.abc import Mapping
from typing import Any, TypedDict

from t5x_like.index_checks import check_token_ids
from t5x_like.inference.logits_processors import LogitsProcessors
from t5x_like.nested_values import leaves_of, one_or_several
from t5x_like.value_types import fits


class LogitsSettings(TypedDict, total=False):
    """Arguments of ``generate`` with transformers' names and formulas.

    Those that are ``None`` or left out are the model's own, of ``generation_config.json``.

    Attributes:
      repetition_penalty: Above 1, tokens of the prompt and those written become less likely; padding doesn't count.
      no_repeat_ngram_size: No n-gram of this size is written twice; 0 allows all.
      min_length: Fewest tokens before the end, counting the prompt of a decoder or the start token.
      min_new_tokens: Fewest new tokens before the end; comes before ``min_length``.
      bad_words_ids: Sequences of ids that are never written.
      forced_bos_token_id: First token after the start token, such as the language of a multilingual model's output.
      forced_eos_token_id: Token, or one of several, that is written where the length ends a row.
      suppress_tokens: Ids that are never written.
      begin_suppress_tokens: Ids that are not written first, or right after ``forced_bos_token_id``.
      renormalize_logits: Beams add log-probabilities that sum to 1 after all of these changes, as of Marian's models.
    """

    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    min_length: int | None
    min_new_tokens: int | None
    bad_words_ids: list[list[int]] | None
    forced_bos_token_id: int | None
    forced_eos_token_id: int | list[int] | None
    suppress_tokens: list[int] | None
    begin_suppress_tokens: list[int] | None
    renormalize_logits: bool | None


NAMES = tuple(LogitsSettings.__annotations__)


def read_processors(
    settings: Mapping[str, Any],
    *,
    vocab_size: int,
    eos_ids: tuple[int, ...],
    num_before: int,
    in_encoder: bool,
) -> LogitsProcessors | None:
    """Return the processors for settings of ``generate``; ``None`` if they change nothing.

    Args:
      settings: Values by the names of ``LogitsSettings``, where ``None`` changes nothing.
      vocab_size: Size of the model's vocabulary.
      eos_ids: Ids that end a row.
      num_before: Tokens that the decoder has before it writes.
      in_encoder: Whether an encoder reads the prompts.

    Raises:
      ValueError: A setting is out of its range.
    """
    values = {name: settings.get(name) for name in NAMES}
    for name, value in values.items():
        if value is not None and not _is_valid(name, value):
            raise ValueError(f"{name} is {value!r}; give {_WANTED[name]}")
    bad_words = [tuple(word) for word in values["bad_words_ids"] or ()]
    ids = {
        name: one_or_several(values[name])
        for name in NAMES
        if name.startswith(("forced", "suppress", "begin"))
    }
    for name, numbers in {
        **ids,
        "bad_words_ids": [token_id for word in bad_words for token_id in word],
    }.items():
        check_token_ids(numbers, name, vocab_size)
    at_start = num_before == 1  # transformers forces no token after a prompt
    forced = ids["forced_bos_token_id"] if at_start else ()
    min_new_tokens = values["min_new_tokens"]
    if min_new_tokens is None:
        min_new_tokens = max((values["min_length"] or 0) - num_before, 0)
    changes = LogitsProcessors(
        repetition_penalty=float(values["repetition_penalty"] or 1),
        no_repeat_ngram_size=values["no_repeat_ngram_size"] or 0,
        bad_words_ids=tuple(word for word in bad_words if word not in [(token_id,) for token_id in eos_ids]),
        min_new_tokens=min_new_tokens if eos_ids else 0,
        forced_first_id=forced[0] if forced else None,
        forced_last_ids=ids["forced_eos_token_id"],
        suppress_tokens=ids["suppress_tokens"],
        begin_suppress_tokens=ids["begin_suppress_tokens"],
        begin_index=1 if forced else 0,
        counts_prompt=not in_encoder,
        renormalize_logits=bool(values["renormalize_logits"]),
    )
    nothing = LogitsProcessors(
        begin_index=changes.begin_index,
        counts_prompt=changes.counts_prompt,
        renormalize_logits=changes.renormalize_logits,
    )
    return None if changes == nothing else changes


def _is_valid(name: str, value: Any) -> bool:
    if not fits(value, LogitsSettings.__annotations__[name]):
        return False
    if name == "repetition_penalty":
        return 0 < float(value) < math.inf
    return all(token_id >= 0 for token_id in leaves_of(value)) and (
        name != "bad_words_ids" or all(len(word) > 0 for word in value)
    )


_COUNT, _IDS = "a whole number of tokens, 0 or more", "a list of ids"
_WANTED = {
    "repetition_penalty": "a positive, finite number; 1 changes nothing",
    "no_repeat_ngram_size": "a whole number; 0 allows all",
    "min_length": _COUNT,
    "min_new_tokens": _COUNT,
    "bad_words_ids": "a list of lists of ids, such as [[5], [7, 9]]",
    "forced_bos_token_id": "an id",
    "forced_eos_token_id": "an id or a list of ids",
    "suppress_tokens": _IDS,
    "begin_suppress_tokens": _IDS,
    "renormalize_logits": "True or False",
}
