import itertools
import json
import random

import numpy as np
import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.open_tasks import open_tasks
from t5x_like.text.objectives.knowledge_masking import KnowledgeMasking
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.objectives.sentence_order import SentenceOrder
from t5x_like.text.objectives.sentence_pairs import SentencePairs
from t5x_like.text.objectives.word_masking import SpanMasking, TokenMasking
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of
from tests.text.objectives.encoder_rows import SEP, examples_of, window_of

IDS = ids_of(open_tokenizer("bytes"))  # mask, cls and sep are sentinels'
OBJECTIVES = {
    "tokens": MaskedLM(),
    "words": MaskedLM(masking=TokenMasking(whole_words=True), input_format="documents"),
    "n-grams": MaskedLM(masking=TokenMasking(max_ngram=3)),
    "spans": MaskedLM(masking=SpanMasking(), input_format="full_sentences"),
    "annotated": MaskedLM(masking=KnowledgeMasking(), input_format="doc_sentences"),
    "pairs": SentencePairs(),
    "short pairs": SentencePairs(segments="sentences"),
    "order": SentenceOrder(),
    "replaced": ReplacedTokenDetection(),
}
_numbers = itertools.count()


@pytest.fixture
def make_task(tmp_path):
    """Registers a task of documents of some sentences, annotated where the objective needs it; gives its name."""

    def make(objective, num_documents=60):
        chooser = random.Random(2)
        rows = []
        for index in range(num_documents):
            sentences = [
                " ".join(chooser.choices(["it", "rains", "in", "New York", "today"], k=5)) + "."
                for _ in range(chooser.randint(2, 6))
            ]
            text = f"{index} " + " ".join(sentences)
            place = text.find("New York")
            rows.append({"text": text, "spans": json.dumps([[place, place + 8]] if place >= 0 else [])})
        file = tmp_path / "documents.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        name = f"encoder_{next(_numbers)}"
        annotated = isinstance(getattr(objective, "masking", None), KnowledgeMasking)
        task = PretrainingTask(
            name=name,
            vocabulary="bytes",
            files={"train": str(file)},
            objective=objective,
            spans_column="spans" if annotated else None,
        )
        registry.register([task])
        return name

    return make


def config(name, **changes):
    settings = {"mixture": name, "batch_size": 4, "inputs_length": 64, "targets_length": 2, "seed": 3}
    return LoaderConfig(**(settings | changes))


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_loader_makes_batches_of_them(make_task, objective):
    loader = build_loader(config(make_task(objective)))
    for batch in itertools.islice(loader, 5):
        assert batch.decoder_input_tokens is None
        inputs, real = batch.encoder_input_tokens, batch.encoder_segment_ids > 0
        assert inputs.shape == batch.target_tokens.shape == batch.loss_weights.shape == (4, 64)
        is_special = np.isin(inputs, [IDS.cls, IDS.sep, IDS.eos])
        assert batch.loss_weights[real & ~is_special].any()
        assert not batch.loss_weights[~real | is_special].any()
        assert (inputs[:, 0] == IDS.cls).all()
        if not isinstance(objective, ReplacedTokenDetection):
            unchanged = real & (batch.loss_weights == 0)
            np.testing.assert_array_equal(inputs[unchanged], batch.target_tokens[unchanged])
        if objective.spec.fills_rows:
            assert set(batch.sequence_labels.tolist()) <= {0, 1}
            np.testing.assert_array_equal(batch.token_types[real].max(), 1)
        else:
            assert batch.sequence_labels is None


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.seqio
def test_seqio_gives_examples_of_them_from_a_task(make_task, objective):
    task = registration.get_task(make_task(objective))
    lengths = {"inputs": 64, "targets": 64}
    rows = list(task.get_dataset(lengths, "train", shuffle=False, seed=1).as_numpy_iterator())
    again = list(task.get_dataset(lengths, "train", shuffle=False, seed=1).as_numpy_iterator())
    assert len(rows) > 10
    for row, same in zip(rows, again, strict=True):
        np.testing.assert_array_equal(row["inputs"], same["inputs"])
        assert (row["inputs"][0], row["inputs"][-1]) == (IDS.cls, IDS.sep)
        assert set(row) == {"inputs", "targets", *objective.spec.fields}
        assert len(row["inputs"]) == len(row["targets"]) == len(row["weights"]) <= 64


@pytest.mark.seqio
def test_a_task_read_as_a_stream_keeps_all_of_the_targets(make_task):
    loader = build_loader(config(make_task(MaskedLM()), max_tokens_in_memory=1, repeat=False))
    batch = next(loader)
    unchanged = batch.loss_weights == 0
    np.testing.assert_array_equal(batch.encoder_input_tokens[unchanged], batch.target_tokens[unchanged])
    assert batch.loss_weights[:, 2:].any()


def epochs_of(name, count):
    """The inputs of each of the first epochs."""
    (source,) = open_tasks(config(name), registry.resolve(name)).sources
    epochs = []
    for epoch in range(count):
        positions = list(range(source.remaining(epoch, 0)))
        epochs.append([tuple(example.inputs.tolist()) for example in source.examples(epoch, positions)])
    return epochs


@pytest.mark.parametrize("kind", [MaskedLM, SentencePairs, SentenceOrder, ReplacedTokenDetection])
def test_static_masks_come_again_after_num_copies_epochs_in_another_order(make_task, kind):
    first, second, third, fourth = epochs_of(make_task(kind(num_copies=2)), 4)
    assert sorted(first) == sorted(third)
    assert sorted(second) == sorted(fourth)
    assert first != third
    assert not set(first) & set(second)


def test_dynamic_masks_are_new_in_every_epoch(make_task):
    epochs = epochs_of(make_task(MaskedLM(input_format="documents")), 4)
    long = [
        {row for row in epoch if len(row) > 20} for epoch in epochs
    ]  # few masks fit a document's short rest
    assert len(set().union(*long)) == sum(map(len, long)) > 100


def test_runs_and_sentences_separate_documents_by_an_end_and_documents_are_single():
    window = window_of([[2], [3], [1]], eos=SEP)
    shared = [104, 105, SEP, 106, 107, 108, SEP, 109]
    texts, _ = examples_of(MaskedLM(), window, 11)
    assert [text.tokens.tolist() for text in texts] == [[*shared, SEP]]
    texts, _ = examples_of(MaskedLM(input_format="full_sentences"), window, 11)
    assert [text.tokens.tolist() for text in texts] == [shared]
    texts, _ = examples_of(MaskedLM(input_format="doc_sentences"), window, 11)
    assert [text.tokens.tolist() for text in texts] == [[104, 105], [106, 107, 108], [109]]
    texts, _ = examples_of(MaskedLM(input_format="documents"), window_of([[2], [3], [1]]), 11)
    assert [text.tokens.tolist() for text in texts] == [[104, 105], [106, 107, 108], [109]]
