import itertools
import json
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.batch import Batch
from t5x_like.text import registry
from t5x_like.text.batches.example_sources import ExampleMaker
from t5x_like.text.batches.in_memory import InMemoryExamples, RaggedArrayBuilder
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.recurrent_source import RecurrentSource
from t5x_like.text.objectives.contiguous_lm import ContiguousLM
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

EOS = 1
IDS = VocabularyIds(vocab_size=5000, pad=0, eos=EOS, bos=4000, unk=2, first_sentinel=4999, num_sentinels=90)


def held(lengths):
    builder, numbers = RaggedArrayBuilder("uint16"), iter(range(3, 4000))
    builder.extend([[next(numbers) for _ in range(length)] for length in lengths])
    return InMemoryExamples({"tokens": builder.build()})


def rows_of(lengths, *, batch_size, row, shuffle=False, backward=False):
    return RecurrentSource(
        "text",
        held(lengths),
        ExampleMaker(ContiguousLM(backward=backward), Lengths(2, row), IDS),
        batch_size=batch_size,
        seed=0,
        shuffle=shuffle,
    )


def test_each_row_continues_where_it_ended_in_the_previous_batch():
    source = rows_of([3, 3], batch_size=2, row=3)  # 3 4 5 </s> and 6 7 8 </s>
    made = source.examples(0, range(source.remaining(0, 0)))
    assert [example.targets.tolist() for example in made] == [[3, 4, 5], [6, 7, 8], [EOS], [EOS]]
    assert [example.inputs.tolist() for example in made] == [[EOS, 3, 4], [EOS, 6, 7], [5], [8]]
    assert [example.continues for example in made] == [0, 0, 1, 1]


def test_a_backward_stream_has_each_document_from_its_end():
    made = rows_of([3, 2], batch_size=1, row=4, backward=True).examples(0, range(2))
    assert [example.targets.tolist() for example in made] == [[5, 4, 3, EOS], [7, 6, EOS]]
    assert [example.inputs.tolist() for example in made] == [[EOS, 5, 4, 3], [EOS, 7, 6]]


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=15).filter(lambda lengths: sum(lengths) >= 5),
    batch_size=st.integers(1, 5),
    row=st.integers(2, 12),
    shuffle=st.booleans(),
    seed=st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_streams_hold_every_token_once_whatever_is_asked_for_first(lengths, batch_size, row, shuffle, seed):
    source = rows_of(lengths, batch_size=batch_size, row=row, shuffle=shuffle)
    positions = list(range(source.remaining(3, 0)))
    seed.shuffle(positions)
    made = {place: source.examples(3, [place])[0] for place in positions}
    streams = [[made[place] for place in range(b, len(made), batch_size)] for b in range(batch_size)]
    text = np.concatenate([example.targets for stream in streams for example in stream])
    inputs = np.concatenate([example.inputs for stream in streams for example in stream])
    assert len(text) == sum(lengths) + sum(length > 0 for length in lengths)
    assert sorted(text[text != EOS]) == list(range(3, 3 + sum(lengths)))
    np.testing.assert_array_equal(inputs, np.roll(text, 1))
    sizes = [sum(len(example.targets) for example in stream) for stream in streams]
    assert max(sizes) - min(sizes) <= 1
    if not shuffle:
        assert text[text != EOS].tolist() == list(range(3, 3 + sum(lengths)))


def config(name, **changes):
    return LoaderConfig(
        **({"mixture": name, "batch_size": 4, "inputs_length": 2, "targets_length": 32, "seed": 5} | changes)
    )


def assert_equal(left, right):
    for name in Batch._fields:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def test_a_loader_continues_from_batch_to_batch_and_restarts_with_an_epoch(make_corpus):
    loader = build_loader(config(make_corpus(40, objective=ContiguousLM())))
    before, num_starts = next(loader), 0
    assert (before.continues == 0).all()
    for _ in range(200):
        batch = next(loader)
        assert len(set(batch.continues.tolist())) == 1
        if batch.continues[0]:
            np.testing.assert_array_equal(batch.decoder_input_tokens[:, 0], before.target_tokens[:, -1])
        num_starts += not batch.continues[0]
        before = batch
    assert num_starts >= 2


def test_any_position_is_reached_directly_and_processes_share_the_streams(make_corpus):
    name = make_corpus(objective=ContiguousLM())
    first = build_loader(config(name))
    for _ in range(7):
        next(first)
    state = json.loads(json.dumps(first.state()))
    expected = [next(first) for _ in range(5)]
    halves = [build_loader(config(name), process, 2) for process in range(2)]
    for half in halves:
        half.restore(state)
    for batch in expected:
        parts = [next(half) for half in halves]
        together = [None if each[0] is None else np.concatenate(each) for each in zip(*parts, strict=True)]
        assert_equal(batch, Batch(*together))


def test_one_pass_gives_every_token_once(make_corpus):
    name = make_corpus(50, objective=ContiguousLM())
    batches = list(build_loader(config(name, repeat=False, shuffle=False)))
    text = np.concatenate([batch.target_tokens[batch.loss_weights > 0] for batch in batches])
    documents = [document.text for document in registry.definition(name).read("train")]
    assert len(text) == sum(len(document.encode()) + 1 for document in documents)


def test_another_batch_size_is_another_sequence(make_corpus):
    name = make_corpus(objective=ContiguousLM())
    state = build_loader(config(name)).state()
    with pytest.raises(ValueError, match="batch_size: 4 before, 8 now"):
        build_loader(config(name, batch_size=8)).restore(state)


def test_a_mixture_with_streams_is_refused(make_corpus):
    names = (make_corpus(objective=ContiguousLM()), make_corpus(objective=ContiguousLM()))
    registry.register([Mixture(name="streams_" + names[0], tasks=names, rates=dict.fromkeys(names, 1.0))])
    with pytest.raises(ValueError, match="no other task can come between them; train on it alone"):
        build_loader(config("streams_" + names[0]))


def test_fewer_tokens_than_streams_are_refused():
    with pytest.raises(
        ValueError, match="has 4 tokens, fewer than the 5 streams of a batch; lower batch_size"
    ):
        rows_of([3], batch_size=5, row=4)


def test_documents_in_memory_are_freed_with_the_source_and_not_pickled():
    source = rows_of([2000], batch_size=2, row=10)
    fresh = len(pickle.dumps(source))
    made = source.examples(0, range(4))
    held = weakref.ref(source._open(0).ends)
    assert len(pickle.dumps(source)) == fresh
    again = pickle.loads(pickle.dumps(source)).examples(0, range(4))
    assert [example.targets.tolist() for example in again] == [example.targets.tolist() for example in made]
    assert held() is not None
    del source
    assert held() is None


@pytest.mark.seqio
def test_streams_come_through_seqio_as_one(make_corpus):
    task = registration.get_task(make_corpus(20, objective=ContiguousLM()))
    rows = list(task.get_dataset({"targets": 30}, "train", shuffle=False).as_numpy_iterator())
    assert all(len(row["targets"]) == 30 for row in rows[:-1])
    for row, following in itertools.pairwise(rows):
        assert following["inputs"][0] == row["targets"][-1]
