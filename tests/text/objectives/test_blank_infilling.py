import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.blank_infilling import BlankIds, BlankInfilling
from t5x_like.text.objectives.blanks import Blanks, infilling_examples
from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

PAD, END, START, CLS, MASK, FIRST = 0, 1, 5001, 5002, 5003, 5100
IDS = VocabularyIds(
    vocab_size=5101,
    pad=PAD,
    eos=END,
    bos=START,
    unk=2,
    cls=CLS,
    mask=MASK,
    first_sentinel=FIRST,
    num_sentinels=90,
)
LENGTHS = Lengths(2, 512)
SHORT, DOCUMENT, SENTENCES = range(3)


def text(size, label=-1, sentence_ends=None):
    ends = None if sentence_ends is None else np.array(sentence_ends, np.int64)
    return Text(np.arange(3, 3 + size, dtype=np.int32), size, label, None, ends)


def seeds_of(count, seed=0):
    return np.stack([np.full(count, seed), np.arange(count)], axis=1).astype(np.uint64)


def blanks_of(example):
    """Tokens of each blank as part B writes them, with the position of each; and part A without cls."""
    in_a = example.prefix == 1
    assert example.inputs[0] == CLS
    assert (np.diff(in_a.astype(int)) <= 0).all()
    np.testing.assert_array_equal(example.weights, ~in_a)
    np.testing.assert_array_equal(example.positions[in_a], np.arange(in_a.sum()))
    assert (example.block_positions[in_a] == 0).all()
    inputs, targets = example.inputs[~in_a], example.targets[~in_a]
    positions, inside = example.positions[~in_a], example.block_positions[~in_a]
    begins = np.flatnonzero(inputs == START).tolist()
    results = []
    for begin, stop in zip(begins, [*begins[1:], len(inputs)], strict=True):
        assert targets[stop - 1] == END
        np.testing.assert_array_equal(inputs[begin + 1 : stop], targets[begin : stop - 1])
        np.testing.assert_array_equal(inside[begin:stop], np.arange(1, stop - begin + 1))
        (position,) = set(positions[begin:stop].tolist())
        results.append((position, targets[begin : stop - 1].tolist()))
    return example.inputs[in_a], results


def filled_in(example, mask):
    """The text that an example was made of."""
    part_a, blanks = blanks_of(example)
    of_position = dict(blanks)
    assert set(of_position) == set(np.flatnonzero(part_a == mask).tolist())
    tokens = [of_position.get(place, [token]) for place, token in enumerate(part_a.tolist())]
    return [token for part in tokens[1:] for token in part]


def test_the_papers_example_reads_and_writes_as_in_its_figure():
    # x1 … x6 with x3 and x5 x6 blank, filled in the other way round (figure 2 of the paper).
    tokens = np.array([11, 12, 13, 14, 15, 16], np.int32)
    blanks = Blanks(*(np.array(each) for each in ([0, 0], [2, 4], [3, 6], [MASK, MASK], [1, 0])))
    (example,) = infilling_examples([Text(tokens, 6)], blanks, cls=CLS, start=START, end=END)
    assert example.inputs.tolist() == [CLS, 11, 12, MASK, 14, MASK, START, 15, 16, START, 13]
    assert example.targets.tolist()[6:] == [15, 16, END, 13, END]
    assert example.positions.tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5, 3, 3]
    assert example.block_positions.tolist() == [0, 0, 0, 0, 0, 0, 1, 2, 3, 1, 2]
    assert example.prefix.tolist() == [1] * 6 + [0] * 5
    assert example.weights.tolist() == [0] * 6 + [1] * 5


@given(size=st.integers(1, 400), noise_density=st.floats(0.02, 0.5), seed=st.integers(0, 2**62))
@settings(deadline=None)
def test_short_blanks_keep_every_token_and_reach_their_share(size, noise_density, seed):
    objective = BlankInfilling(noise_density=noise_density)
    if objective._text_length(SHORT, LENGTHS.targets) < size:
        return
    (example,) = objective.make([text(size)], seeds_of(1, seed), LENGTHS, IDS)
    assert filled_in(example, MASK) == list(range(3, 3 + size))
    assert len(example.targets) <= LENGTHS.targets
    part_a, blanks = blanks_of(example)
    num_blank = sum(len(tokens) for _, tokens in blanks)
    assert max(int(noise_density * size), 1) <= num_blank
    longest = max(len(tokens) for _, tokens in blanks)
    assert num_blank - longest < max(int(noise_density * size), 1)
    masks = np.flatnonzero(part_a == MASK)
    assert (np.diff(masks) > 1).all()  # blanks don't touch


def test_short_blanks_have_poisson_lengths_and_any_order():
    objective = BlankInfilling()
    size = objective._text_length(SHORT, 512)
    examples = objective.make([text(size)] * 800, seeds_of(800), LENGTHS, IDS)
    results = [blanks_of(example)[1] for example in examples]
    lengths = np.array([len(tokens) for blanks in results for _, tokens in blanks])
    # Poisson(3) without 0: 3 / (1 - e^-3), but for the longer chance of a long blank to be the last one.
    assert abs(lengths.mean() - 3.157) < 0.1
    assert abs(np.mean(lengths == 1) - 0.157) < 0.02
    in_order = [np.mean(np.diff([position for position, _ in blanks]) > 0) for blanks in results]
    assert abs(np.mean(in_order) - 0.5) < 0.05
    share = sum(lengths) / 800 / size
    assert 0.15 <= share < 0.16


@given(size=st.integers(1, 400), seed=st.integers(0, 2**62))
@settings(deadline=None)
def test_a_documents_blank_is_its_last_half_or_more(size, seed):
    objective = BlankInfilling(document_rate=1.0)
    (example,) = objective.make([text(size, DOCUMENT)], seeds_of(1, seed), LENGTHS, IDS)
    assert filled_in(example, FIRST) == list(range(3, 3 + size))
    ((position, tokens),) = blanks_of(example)[1]
    assert size / 2 <= len(tokens) <= size
    assert position == size - len(tokens) + 1
    assert tokens[-1] == 2 + size


@given(ends=st.sets(st.integers(1, 299), max_size=40), seed=st.integers(0, 2**62))
@settings(deadline=None)
def test_blank_sentences_are_whole(ends, seed):
    objective = BlankInfilling(sentence_rate=1.0)
    (example,) = objective.make([text(300, SENTENCES, sorted(ends))], seeds_of(1, seed), LENGTHS, IDS)
    assert filled_in(example, FIRST - 1) == list(range(3, 303))
    blanks = blanks_of(example)[1]
    edges = {3, 303, *(3 + end for end in ends)}
    for _, tokens in blanks:
        assert tokens[0] in edges
        assert tokens[-1] + 1 in edges
        assert not edges & set(tokens[1:])
    num_blank = sum(len(tokens) for _, tokens in blanks)
    assert num_blank >= 45 or len(blanks) == 12
    assert len(example.targets) <= 300 + 1 + 2 * 12


def window_of(sizes, with_sentences):
    records = []
    for size in sizes:
        record = {"tokens": np.arange(3, 3 + size, dtype=np.int32)}
        if with_sentences:
            record["sentence_ends"] = np.append(np.arange(7, size, 7), size)
        records.append(record)
    return lay_window(records, chunks=np.zeros(len(sizes), np.uint64))


@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    limit=st.integers(16, 128),
    seed=st.integers(0, 2**60),
)
@settings(deadline=None)
def test_cuts_cover_documents_and_every_kind_fits_the_limit(sizes, limit, seed):
    objective = BlankInfilling(document_rate=0.3, sentence_rate=0.3)
    lengths = Lengths(2, limit)
    objective.check(lengths, IDS)
    window = window_of(sizes, True)
    cuts = objective.cut(window, lengths, np.array([seed, 1], np.uint64))
    assert np.concatenate([[0], cuts.ends[:, 0]]).tolist() == [*cuts.starts[:, 0].tolist(), sum(sizes)]
    assert set(window.ends.tolist()) <= set(cuts.ends[:, 0].tolist())
    texts = texts_of(window, cuts, np.arange(len(cuts.starts)))
    for example in objective.make(texts, seeds_of(len(texts)), lengths, IDS):
        assert len(example.targets) <= limit
        assert example.weights.sum() >= 2


def test_kinds_come_at_their_rates():
    objective = BlankInfilling(document_rate=0.5, sentence_rate=0.2)
    cuts = objective.cut(window_of([40] * 4000, False), LENGTHS, np.array([1, 2], np.uint64))
    np.testing.assert_allclose(np.bincount(cuts.labels) / 4000, [0.3, 0.5, 0.2], atol=0.03)


def test_rows_do_not_depend_on_each_other():
    objective = BlankInfilling(document_rate=0.4, sentence_rate=0.4)
    texts = [
        text(100, SHORT),
        text(7, DOCUMENT),
        text(60, SENTENCES, [9, 30]),
        text(1, SHORT),
        text(250, SHORT),
    ]
    seeds = seeds_of(5)
    together = objective.make(texts, seeds, LENGTHS, IDS)
    for row in range(5):
        (alone,) = objective.make(texts[row : row + 1], seeds[row : row + 1], LENGTHS, IDS)
        for left, right in zip(alone, together[row], strict=True):
            np.testing.assert_array_equal(left, right)
    again = objective.make(texts, seeds + np.uint64(7), LENGTHS, IDS)
    assert not np.array_equal(again[4].inputs, together[4].inputs)


def test_a_vocabulary_made_for_glm_gives_its_own_ids():
    objective = BlankInfilling(document_rate=1.0, special=BlankIds(generation_mask=77, start=78, end=79))
    (example,) = objective.make([text(10, DOCUMENT)], seeds_of(1), LENGTHS, IDS)
    assert 77 in example.inputs
    assert 78 in example.inputs
    assert example.targets[-1] == 79


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_an_id_that_the_vocabulary_lacks_is_refused(wrong):
    with pytest.raises(ValueError, match=f"special.start holds {wrong}; the vocabulary has the ids 0 …"):
        BlankInfilling(special=BlankIds(start=wrong)).check(LENGTHS, IDS)


@pytest.fixture
def task(tmp_path, request):
    file = tmp_path / "text.txt"
    file.write_text(
        "".join(f"In year {index} it rained. The river rose! Who saw it?\n" for index in range(60))
    )
    name = f"blanks_{zlib.crc32(request.node.name.encode())}"
    objective = BlankInfilling(document_rate=0.3, sentence_rate=0.3)
    registry.register(
        [PretrainingTask(name=name, vocabulary="bytes", files={"train": str(file)}, objective=objective)]
    )
    return name


def test_the_loader_gives_packed_rows_with_both_positions(task):
    loader = build_loader(LoaderConfig(mixture=task, batch_size=4, inputs_length=2, targets_length=160))
    for _ in range(5):
        batch = next(loader)
        real = batch.decoder_segment_ids > 0
        assert batch.decoder_segment_ids.max() >= 2
        assert not batch.loss_weights[~real].any()
        assert not (batch.loss_weights * batch.prefix).any()
        np.testing.assert_array_equal(batch.block_positions > 0, batch.loss_weights > 0)
        assert (batch.decoder_input_tokens[(batch.block_positions == 1)] == 262).all()


@pytest.mark.seqio
def test_seqio_gives_examples_from_a_task(task):
    dataset = registration.get_task(task).get_dataset({"targets": 160}, "train", shuffle=False, seed=3)
    rows = list(dataset.as_numpy_iterator())
    assert len(rows) >= 60
    for row in rows:
        assert row["inputs"].shape == row["positions"].shape == row["prefix"].shape
        assert row["weights"].sum() == (row["block_positions"] > 0).sum() > 0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"noise_density": 0.6}, "noise_density must be above 0 and at most 0.5, got 0.6"),
        ({"mean_length": 0.0}, "mean_length must lie between 1 and 10"),
        ({"document_rate": 0.8, "sentence_rate": 0.3}, "short blanks have the remaining rate"),
        ({"min_document_share": 0.0}, "min_document_share must be above 0"),
    ],
)
def test_impossible_settings_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        BlankInfilling(**bad)


def test_limits_and_vocabularies_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="set it to 16 or more"):
        BlankInfilling().check(Lengths(2, 4), IDS)
    with pytest.raises(ValueError, match="no id for mask, cls; raise num_sentinels"):
        BlankInfilling().check(LENGTHS, replace(IDS, mask=None, cls=None))
    with pytest.raises(ValueError, match=r"2 sentinels are needed .* has 1; raise num_sentinels"):
        BlankInfilling(sentence_rate=0.5).check(LENGTHS, replace(IDS, num_sentinels=1))
