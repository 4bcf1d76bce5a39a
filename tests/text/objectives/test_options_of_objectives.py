"""Options of objectives that a combination would ignore: each changes examples, or is refused."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from t5x_like.text.objectives.blank_infilling import BlankInfilling
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.fill_in_the_middle import FillInTheMiddle
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.noise import IidNoise, MaskTokens, RegularNoise, SpanNoise
from t5x_like.text.objectives.permutation_lm import PermutationLM
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.principal_sentences import PrincipalSentences
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.objectives.sentence_order import SentenceOrder
from t5x_like.text.objectives.sentence_pairs import SentencePairs
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.objectives.unilm import UniLM
from t5x_like.text.objectives.word_masking import SpanMasking, TokenMasking
from tests.text.objectives.encoder_rows import IDS, examples_of, window_of

VOCABULARY = replace(IDS, num_sentinels=100, bos=99)
# Words and pieces that repeat, in sentences of several documents.
PIECES = np.random.default_rng(0).choice(np.arange(104, 880, 64), 997)
DOCUMENTS = [[7, 9, 5, 8, 6]] * 6 + [[4, 6]] * 6

OBJECTIVES: tuple[Any, ...] = (
    BlankInfilling(),
    BlankInfilling(document_rate=0.4, sentence_rate=0.3),
    CausalLM(),
    FillInTheMiddle(),
    MaskedLM(),
    PermutationLM(),
    PrefixLM(),
    PrincipalSentences(gap_rate=0.8),
    ReplacedTokenDetection(),
    SentenceOrder(),
    SentencePairs(),
    SpanCorruption(),
    UniLM(),
    *(MaskedLM(masking=each) for each in (TokenMasking(), SpanMasking())),
    *(Denoising(noise=each) for each in (IidNoise(), SpanNoise(), RegularNoise())),
    *(Denoising(inputs=each) for each in (MaskTokens(), "unique_sentinels")),
)
# Files, ids of vocabularies and epochs.
NOT_HERE = ("frequencies", "special", "num_copies")
# Values that show where twice or half the default would not.
TELLING: dict[str, Any] = {
    "shares": (0.1, 0.1, 0.8),
    "masking": TokenMasking(noise_density=0.4),
    "noise": IidNoise(noise_density=0.4),
    "inputs": "dropped",
    "input_format": "documents",
    "segments": "sentences",
    "short_rate": 0.9,
    "begin_with": "bos",
    "document_rate": 0.5,
    "mean_length": 6.0,
    "predicted_from": "previous",
    "mean_noise_span_length": 6.0,
    "sentence_rate": 0.5,
    "targets": "text",
    "fim_rate": 1.0,
    "least_share": 0.95,
    "score_noise": 1.0,
}


def parts_of(objective: Any) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
    """Yield the objective and the dataclasses in it, each with a function that puts another in its place."""
    yield objective, lambda part: part
    for field in dataclasses.fields(objective):
        inner: Any = getattr(objective, field.name)
        if dataclasses.is_dataclass(inner) and field.name not in NOT_HERE:
            yield inner, lambda part, name=field.name: dataclasses.replace(objective, **{name: part})


def examples(objective):
    window = window_of(DOCUMENTS, pieces=PIECES, eos=102 if objective.spec.ends_documents else None)
    texts, made = examples_of(objective, window, 40, ids=VOCABULARY, targets=80)
    arrays = [each for row in made for each in (*row[:8], row.label) if each is not None]
    return [np.asarray(each, np.float64) for each in arrays], len(texts)


def other_value(field, value):
    if field.name in TELLING and TELLING[field.name] != value:
        return TELLING[field.name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2 or 0.4
    return value + 2


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_each_option_of_an_objective_changes_examples_or_is_refused(objective):
    for part, whole in parts_of(objective):
        fields = {each.name: each for each in dataclasses.fields(part) if each.name not in NOT_HERE}
        switches = [
            {},
            *({name: not getattr(part, name)} for name in fields if isinstance(getattr(part, name), bool)),
        ]
        for switch in switches:
            base = dataclasses.replace(part, **switch)
            before, num_texts = examples(whole(base))
            for name in fields.keys() - switch.keys():
                try:
                    other = dataclasses.replace(
                        base, **{name: other_value(fields[name], getattr(base, name))}
                    )
                except ValueError as error:
                    assert "has no effect" in str(error)  # noqa: PT017
                    continue
                after, num_others = examples(whole(other))
                same = len(before) == len(after) and all(map(np.array_equal, before, after))
                assert not same or num_texts != num_others, f"{other} is as {base}"
