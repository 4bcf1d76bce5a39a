import numpy as np
import pytest

from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.entity_denoising import EntityDenoising
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.sentence_pairs import SentencePairs
from tests.text.objectives.encoder_rows import FIRST_WORD, IDS, KEY, examples_of, seeds

NUM_ENTITIES = 50
LENGTHS = Lengths(64, 2)


def entity_rows(count, *, spans=((0, 2, 7), (5, 6, 8)), size=10, **settings):
    """Texts with the same mentions, and their examples."""
    objective = EntityDenoising(**{"objective": MaskedLM(), "num_entities": NUM_ENTITIES} | settings)
    tokens = np.arange(FIRST_WORD, FIRST_WORD + size, dtype=np.int32)
    text = Text(tokens, size, spans=np.array(spans, np.int64).reshape(-1, 3))
    return objective.make([text] * count, seeds(count), LENGTHS, IDS)


def test_an_entity_belongs_to_the_first_token_of_its_mention():
    (example,) = entity_rows(1, replace_rate=0.0, mask_rate=0.0)
    expected = np.full(12, -1)
    expected[[1, 6]] = 7, 8  # [CLS] comes before the text
    np.testing.assert_array_equal(example.declared["entities"], expected)
    np.testing.assert_array_equal(example.declared["entity_targets"], expected)


def test_a_twentieth_is_replaced_and_three_twentieths_are_left_out():
    examples = entity_rows(4000)
    seen = np.stack([example.declared["entities"] for example in examples])[:, [1, 6]]
    right = np.stack([example.declared["entity_targets"] for example in examples])[:, [1, 6]]
    np.testing.assert_array_equal(right, np.broadcast_to([7, 8], right.shape))
    hidden, kept = np.mean(seen == -1), np.mean(seen == right)
    assert abs(hidden - 0.15) < 0.015
    assert abs(kept - 0.80) < 0.015
    assert abs(1 - hidden - kept - 0.05) < 0.01


def test_replacements_are_all_other_entities_equally_often():
    examples = entity_rows(4000, replace_rate=1.0, mask_rate=0.0)
    seen = np.array([example.declared["entities"][1] for example in examples])
    counts = np.bincount(seen, minlength=NUM_ENTITIES)
    assert counts[7] == 0
    assert np.delete(counts, 7).min() > 40  # 82 on average


def test_tokens_are_masked_as_without_entities():
    tokens = np.arange(FIRST_WORD, FIRST_WORD + 10, dtype=np.int32)
    texts = [Text(tokens, 10)] * 5
    for example, other in zip(entity_rows(5), MaskedLM().make(texts, seeds(5), LENGTHS, IDS), strict=True):
        np.testing.assert_array_equal(example.inputs, other.inputs)
        np.testing.assert_array_equal(example.weights, other.weights)


def test_entities_of_both_segments_find_their_tokens():
    records = [
        {
            "tokens": np.arange(FIRST_WORD + 40 * n, FIRST_WORD + 40 * n + 30, dtype=np.int32),
            "sentence_ends": np.array([10, 20, 30]),
            # The entity's number is that of its token.
            "spans": np.array([[s, s + 1, 40 * n + s] for s in (0, 4, 12, 25)], np.int32),
        }
        for n in range(4)
    ]
    window = lay_window(records, chunks=np.zeros(4, np.uint64))
    objective = EntityDenoising(objective=SentencePairs(), num_entities=200, replace_rate=0.0, mask_rate=0.0)
    _, examples = examples_of(objective, window, 33, key=KEY)
    num_found = 0
    for example in examples:
        entities, places = example.declared["entities"], np.flatnonzero(example.declared["entities"] >= 0)
        np.testing.assert_array_equal(example.targets[places], entities[places] + FIRST_WORD)
        num_found += len(places)
    assert num_found > 8


def test_mentions_that_a_cut_divides_are_left_out():
    records = [{"tokens": np.arange(200, 220, dtype=np.int32), "spans": np.array([[0, 2, 1], [9, 12, 2]])}]
    window = lay_window(records, chunks=np.zeros(1, np.uint64))
    cuts = MaskedLM(input_format="documents").cut(window, Lengths(12, 2), KEY)
    spans = [text.spans.tolist() for text in texts_of(window, cuts, np.arange(2))]
    assert spans == [[[0, 2, 1]], []]


def test_a_text_without_a_mention_has_no_entity():
    (example,) = entity_rows(1, spans=())
    assert (example.declared["entities"] == -1).all()


@pytest.mark.parametrize("spans", [None, np.array([[0, 2]])])
def test_documents_without_entities_are_refused(spans):
    objective = EntityDenoising(objective=MaskedLM(), num_entities=5)
    text = Text(np.arange(200, 210, dtype=np.int32), 10, spans=spans)
    with pytest.raises(
        ValueError, match=r"texts have no entities; give their task spans_column, .* entity_names"
    ):
        objective.make([text], seeds(1), LENGTHS, IDS)


def test_a_number_beyond_the_entities_is_refused():
    with pytest.raises(ValueError, match="entity number 8, counted from 0, and num_entities is 8"):
        entity_rows(1, num_entities=8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replace_rate": 0.6, "mask_rate": 0.5}, "replace_rate \\+ mask_rate must lie between 0 and 1"),
        ({"mask_rate": -0.1}, "mask_rate must lie between 0 and 1"),
        ({"num_entities": 1}, "num_entities is 1; give the number of entities, at least 2"),
        ({"objective": CausalLM()}, "entities join rows of SentencePairs"),
    ],
)
def test_settings_that_cant_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        entity_rows(1, **settings)
