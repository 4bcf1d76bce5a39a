import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.fill_in_the_middle import FillInTheMiddle, InfillingIds
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.objectives.random_bits import seeds_of_rows
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

EOS, BOS = 1, 2
PRE, SUF, MID = 99_999, 99_998, 99_997
IDS = VocabularyIds(vocab_size=100_000, pad=0, eos=EOS, bos=BOS, first_sentinel=PRE, num_sentinels=3)
KEY = np.array([3, 4], np.uint64)


def window_of(lengths):
    """Documents of these many tokens, each token once."""
    numbers = iter(range(3, 3 + sum(lengths)))
    records = [{"tokens": np.array([next(numbers) for _ in range(length)], np.int32)} for length in lengths]
    return lay_window(records, chunks=np.zeros(len(lengths), np.uint64), eos=EOS)


def examples_of(objective, lengths, row, ids=IDS):
    window = window_of(lengths)
    cuts = objective.cut(window, Lengths(2, row), KEY)
    texts = texts_of(window, cuts, np.arange(len(cuts.starts)))
    return (
        window,
        texts,
        objective.make(texts, seeds_of_rows(KEY, np.arange(len(texts))), Lengths(2, row), ids),
    )


def restored(targets):
    """The documents of a row in their own order, and the format of each."""
    documents, formats = [], []
    for part in np.split(targets, np.flatnonzero(targets == EOS) + 1):
        tokens = part.tolist()
        if not tokens:
            continue
        if PRE not in tokens:
            documents.append(tokens)
            formats.append("plain")
            continue
        assert tokens[0] == PRE, "a document's prefix comes first"
        assert tokens[-1] == EOS, "a rearranged document is ended"
        suffix, middle = tokens.index(SUF), tokens.index(MID)
        if suffix == 1:  # also a PSM document with an empty prefix, which restores differently
            document, form = tokens[middle + 1 : -1] + tokens[2:middle], "spm"
        else:
            document, form = tokens[1:suffix] + tokens[middle + 1 : -1] + tokens[suffix + 1 : middle], "psm"
        documents.append(document)
        formats.append(form)
    return documents, formats


def one_document(objective, size, seed):
    document = np.arange(3, 3 + size, dtype=np.int32)
    text = texts_of(window_of([size]), objective.cut(window_of([size]), Lengths(2, size + 9), KEY), [0])[0]
    (example,) = objective.make([text], np.array([[seed, 1]], np.uint64), Lengths(2, size + 9), IDS)
    return document.tolist(), example


@given(size=st.integers(1, 40), seed=st.integers(0, 2**32), spm_rate=st.sampled_from([0.0, 1.0]))
def test_a_document_is_restored_from_both_formats(size, seed, spm_rate):
    document, example = one_document(FillInTheMiddle(fim_rate=1.0, spm_rate=spm_rate), size, seed)
    tokens = example.targets.tolist()
    assert (tokens[0], tokens[-1]) == (PRE, EOS)
    suffix, middle = tokens.index(SUF), tokens.index(MID)
    if spm_rate:
        assert suffix == 1
        assert tokens[middle + 1 : -1] + tokens[2:middle] == document
    else:
        assert tokens[1:suffix] + tokens[middle + 1 : -1] + tokens[suffix + 1 : middle] == document
    assert example.inputs.tolist() == [EOS, *tokens[:-1]]


def test_formats_look_as_in_the_paper():
    objectives = FillInTheMiddle(fim_rate=1.0, spm_rate=0.0), FillInTheMiddle(fim_rate=1.0, spm_rate=1.0)
    psm, spm = (one_document(objective, 8, seed=2)[1].targets.tolist() for objective in objectives)
    assert psm == [PRE, 3, 4, 5, 6, 7, 8, SUF, 10, MID, 9, EOS]
    assert spm == [PRE, SUF, 10, MID, 3, 4, 5, 6, 7, 8, 9, EOS]


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    row=st.integers(6, 40),
    isolated=st.booleans(),
    fim_rate=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_rows_fit_and_hold_every_token_once(lengths, row, isolated, fim_rate):
    objective = FillInTheMiddle(fim_rate=fim_rate, isolate_documents=isolated)
    window, texts, examples = examples_of(objective, lengths, row)
    for text, example in zip(texts, examples, strict=True):
        assert len(example.targets) == len(example.inputs) <= row
        np.testing.assert_array_equal(example.inputs[1:], example.targets[:-1])
        own = [token for token in example.targets.tolist() if token not in (PRE, SUF, MID, EOS)]
        assert sorted(own) == sorted(token for token in text.tokens[1:].tolist() if token != EOS)
    words = [token for example in examples for token in example.targets.tolist() if 2 < token < MID]
    assert sorted(words) == sorted(window.tokens[window.tokens != EOS].tolist())


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=12), row=st.integers(8, 40))
def test_without_rearranging_it_is_the_causal_language_model_with_room_to_spare(lengths, row):
    window, _, examples = examples_of(FillInTheMiddle(fim_rate=0.0), lengths, row)
    targets = np.concatenate([example.targets for example in examples])
    inputs = np.concatenate([example.inputs for example in examples])
    np.testing.assert_array_equal(targets, window.tokens)
    np.testing.assert_array_equal(inputs, np.roll(window.tokens, 1))


def test_rates_and_cuts_are_those_asked_for():
    objective = FillInTheMiddle(fim_rate=0.7, spm_rate=0.4)
    _, _, examples = examples_of(objective, [19] * 4000, 24)
    documents, formats = zip(*(restored(example.targets) for example in examples), strict=True)
    results = [form for row in formats for form in row]
    assert {len(row) for row in documents} == {1}
    assert len(results) == 4000
    assert results.count("plain") / 4000 == pytest.approx(0.3, abs=0.03)
    # An empty prefix, 1 of the 20 first cuts of two, looks as SPM does.
    empty = 1 - (19 / 20) ** 2
    expected = 0.7 * (0.4 + 0.6 * empty)
    assert results.count("spm") / 4000 == pytest.approx(expected, abs=0.03)
    starts = [
        row.index(SUF) - 1
        for row in (example.targets.tolist() for example in examples)
        if PRE in row and row.index(SUF) > 1
    ]
    # The smaller of two uniform cuts from 0 to 19 that isn't 0.
    chances = np.array([(20 - cut) ** 2 - (19 - cut) ** 2 for cut in range(1, 20)], np.float64)
    assert np.mean(starts) == pytest.approx(chances @ np.arange(1, 20) / chances.sum(), rel=0.05)


def test_documents_of_a_row_are_drawn_independently_by_the_rows_seed():
    objective = FillInTheMiddle()
    _, texts, examples = examples_of(objective, [9] * 400, 100)
    seeds = seeds_of_rows(KEY, np.arange(len(texts)))
    forms = [restored(example.targets)[1] for example in examples]
    assert any(len(set(row)) > 1 for row in forms), "documents of a row have different formats"
    again = [
        objective.make([text], seeds[n : n + 1], Lengths(2, 100), IDS)[0] for n, text in enumerate(texts)
    ]
    for one, other in zip(examples, again, strict=True):
        np.testing.assert_array_equal(one.targets, other.targets)
        np.testing.assert_array_equal(one.inputs, other.inputs)


def test_marks_can_be_a_vocabularys_own_and_documents_begin_with_bos():
    objective = FillInTheMiddle(
        fim_rate=1.0, begin_with="bos", special=InfillingIds(prefix=7, suffix=9, middle=8)
    )
    _, _, (example,) = examples_of(objective, [2, 2], 30, replace(IDS, num_sentinels=0))
    ends = np.flatnonzero(example.targets == EOS)
    assert len(ends) == 2
    assert [int(np.count_nonzero(example.targets == mark)) for mark in (7, 8, 9)] == [2, 2, 2]
    assert example.inputs[0] == example.inputs[ends[0] + 1] == BOS
    assert EOS not in example.inputs


@pytest.fixture
def make_task(tmp_path, request):
    def make(objective):
        file = tmp_path / "text.txt"
        file.write_text("\n".join(f"document {index}" for index in range(200)) + "\n")
        name = f"infilling_{zlib.crc32(request.node.name.encode())}"
        task = PretrainingTask(name=name, vocabulary="bytes", files={"train": str(file)}, objective=objective)
        registry.register([task])
        return name

    return make


@pytest.mark.parametrize("isolated", [False, True])
def test_batches_are_the_same_again_with_workers_and_with_packing_isolated(make_task, isolated):
    name = make_task(FillInTheMiddle(isolate_documents=isolated))
    settings = {"mixture": name, "batch_size": 4, "inputs_length": 2, "targets_length": 64}
    loaders = [build_loader(LoaderConfig(**settings, num_workers=number)) for number in (0, 0, 2)]
    try:
        for _ in range(20):
            first, second, third = (next(loader) for loader in loaders)
            for name, one, other, another in zip(first._fields, first, second, third, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=name)
                np.testing.assert_array_equal(one, another, err_msg=name)
            assert (first.decoder_segment_ids.max() >= 3) == isolated, (
                "an epoch's short last row may share another's"
            )
            begins = (first.decoder_positions == 0) & (first.decoder_segment_ids > 0)
            rearranged = first.target_tokens == 358
            assert (first.decoder_input_tokens[begins & rearranged] == EOS).all()
            assert (first.loss_weights == (first.decoder_segment_ids > 0)).all()
    finally:
        for loader in loaders:
            loader.close()


@pytest.mark.seqio
def test_seqio_gives_examples_of_the_same_documents(make_task):
    task = registration.get_task(make_task(FillInTheMiddle(fim_rate=1.0)))
    rows = list(task.get_dataset({"targets": 50}, "train", shuffle=False).as_numpy_iterator())
    marks = {358, 357, 356}
    assert all(marks <= set(row["targets"].tolist()) for row in rows)
    words = sum(np.isin(row["targets"], [EOS, *marks], invert=True).sum() for row in rows)
    assert words == sum(len(f"document {index}") for index in range(200))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fim_rate": 1.5}, "fim_rate must lie between 0 and 1, got 1.5"),
        ({"spm_rate": -0.1}, "spm_rate must lie between 0 and 1, got -0.1"),
        ({"begin_with": "cls"}, "'eos' or 'bos', got 'cls'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        FillInTheMiddle(**settings)


@pytest.mark.parametrize(
    ("special", "changes", "row", "message"),
    [
        (
            InfillingIds(),
            {"num_sentinels": 2},
            8,
            "has 2 sentinels, 3 are needed .* raise num_sentinels, or give",
        ),
        (InfillingIds(prefix=5), {"num_sentinels": 0}, 8, "has 0 sentinels, 3 are needed"),
        (InfillingIds(prefix=100_000), {}, 8, "100000 is not below the vocabulary's size of 100000"),
        (InfillingIds(prefix=5, suffix=5), {}, 8, "need ids of their own"),
        (InfillingIds(), {}, 5, "targets_length of 5 is too short for a document and 3 marks; set it to 6"),
    ],
)
def test_vocabularies_and_lengths_that_do_not_fit_are_refused(special, changes, row, message):
    with pytest.raises(ValueError, match=message):
        FillInTheMiddle(special=special).check(Lengths(2, row), replace(IDS, **changes))


def test_a_missing_beginning_of_sequence_is_refused_as_by_the_causal_language_model():
    for objective in (CausalLM(begin_with="bos"), FillInTheMiddle(begin_with="bos")):
        with pytest.raises(ValueError, match="lacks; use begin_with='eos', or raise num_sentinels"):
            objective.check(Lengths(8, 8), replace(IDS, bos=None))
