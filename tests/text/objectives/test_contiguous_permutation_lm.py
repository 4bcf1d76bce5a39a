"""Rows of XLNet with a memory: a reused part that the next row continues, and a text that looks ahead."""

from dataclasses import replace

import numpy as np
import pytest

from t5x_like.model.layers.masks import strict_rank_mask
from t5x_like.text.batches.example_sources import ExampleMaker
from t5x_like.text.batches.in_memory import InMemoryExamples, RaggedArrayBuilder
from t5x_like.text.batches.recurrent_source import RecurrentSource
from t5x_like.text.objectives.contiguous_permutation_lm import ContiguousPermutationLM
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

EOS, CLS, SEP = 1, 4001, 4002
IDS = VocabularyIds(
    vocab_size=5000,
    pad=0,
    eos=EOS,
    bos=4000,
    unk=2,
    cls=CLS,
    sep=SEP,
    first_sentinel=4999,
    num_sentinels=90,
)
LENGTHS = Lengths(24, 2)
REUSED, ROOM = 12, 9  # of 24, with [SEP], [SEP] and [CLS]
ONE = ContiguousPermutationLM(reuse_length=REUSED, partial=4, max_span=2, random_rate=0.0)


def stream_of(objective, *, batch_size=2, documents=6, length=99, seed=0):
    builder, numbers = RaggedArrayBuilder("uint16"), iter(range(3, 4000))
    builder.extend([[next(numbers) for _ in range(length)] for _ in range(documents)])
    objective.check(LENGTHS, IDS)
    maker = ExampleMaker(objective, LENGTHS, IDS)
    stored = InMemoryExamples({"tokens": builder.build()})
    return RecurrentSource("text", stored, maker, batch_size=batch_size, seed=seed, shuffle=False)


def examples(objective, epoch=0, **more):
    source = stream_of(objective, **more)
    return source.examples(epoch, range(source.remaining(epoch, 0)))


def test_the_reused_parts_of_a_stream_are_its_text_and_the_rest_looks_ahead():
    made = examples(ONE)
    assert [example.continues for example in made[:4]] == [0, 0, 1, 1]
    text = np.concatenate([example.targets[:REUSED] for example in made[:-2:2]])
    plain = [*range(3, 102), EOS, *range(102, 201), EOS, *range(201, 300), EOS]
    assert text.tolist() == plain[: len(text)]
    for index, example in enumerate(made[:-6:2]):
        after = example.targets[REUSED:]
        assert after[-1] == CLS
        begin = (index + 1) * REUSED
        assert after[after < CLS].tolist() == plain[begin : begin + ROOM]
        assert np.count_nonzero(after == SEP) == 2
        types = example.token_types
        assert (types[:REUSED] == 0).all()
        assert (np.diff(types) >= 0).all()
        assert types[-1] == 2


def test_each_token_of_the_reused_parts_is_in_one_row():
    made = examples(ONE, batch_size=3)
    sizes = [len(example.targets) - ROOM - 3 for example in made]
    assert max(sizes) == REUSED
    inside = np.concatenate([example.targets[:REUSED] for example in made if len(example.targets) == 24])
    assert len(set(inside[inside > EOS].tolist())) == np.count_nonzero(inside > EOS)


def test_the_reused_part_does_not_see_the_rest_which_sees_it():
    for example in examples(ONE)[:10]:
        seen = np.asarray(strict_rank_mask(example.ranks[None]))[0, 0]
        np.testing.assert_array_equal(seen[:REUSED, REUSED:], False)
        np.testing.assert_array_equal(seen[REUSED:, :REUSED], True)
        for part in (slice(0, REUSED), slice(REUSED, None)):
            known = example.weights[part] == 0
            inside = seen[part, part]
            assert inside[:, known][~np.eye(len(known), dtype=bool)[:, known]].all(), (
                "known tokens see each other"
            )
            targets = np.flatnonzero(example.weights[part])
            order = targets[np.argsort(example.ranks[part][targets])]
            for place, target in enumerate(order):
                assert set(np.flatnonzero(inside[target])) == set(np.flatnonzero(known)) | set(order[:place])


def test_a_quarter_of_each_part_is_predicted_and_orders_differ():
    made = examples(ONE)[:20]
    shares = np.array(
        [[example.weights[:REUSED].mean(), example.weights[REUSED:].sum() / ROOM] for example in made]
    )
    assert shares.mean(0) == pytest.approx([0.25, 0.25], abs=0.05)
    assert len({tuple(example.ranks[:REUSED]) for example in made}) > 15
    assert all(example.weights[example.targets >= CLS].sum() == 0 for example in made)


def test_half_of_the_second_segments_come_from_elsewhere():
    made = examples(ContiguousPermutationLM(reuse_length=REUSED, partial=4), batch_size=1, documents=20)[:-3]
    follows = []
    for example in made:
        first, second = (example.targets[example.token_types == kind] for kind in (0, 1))
        tokens = second[second < CLS]
        follows.append(tokens[0] - first[-2] in (1, 2) or EOS in (tokens[0], first[-2]))
        assert len(example.targets) == 24
    assert np.mean(follows) == pytest.approx(0.5, abs=0.12)
    alone = examples(ContiguousPermutationLM(reuse_length=REUSED, partial=4, two_segments=False))[:10]
    assert all(np.count_nonzero(example.targets == SEP) == 1 for example in alone)


def test_any_position_is_reached_directly_and_epochs_differ():
    source = stream_of(ContiguousPermutationLM(reuse_length=REUSED, partial=4))
    together = source.examples(1, range(8))
    (alone,) = source.examples(1, [5])
    for name in ("inputs", "targets", "weights", "token_types", "ranks"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(together[5], name))
    (other,) = source.examples(2, [5])
    assert other.ranks.tolist() != alone.ranks.tolist()


def test_short_rows_and_vocabularies_without_an_end_are_refused():
    with pytest.raises(
        ValueError, match=r"after the 12 tokens of reuse_length: inputs_length of 5 is too short"
    ):
        ONE.check(Lengths(17, 2), IDS)
    with pytest.raises(ValueError, match="no end of sequence"):
        ONE.check(LENGTHS, replace(IDS, eos=None))
    with pytest.raises(ValueError, match="reuse_length=3 is less than the 6 tokens"):
        ContiguousPermutationLM(reuse_length=3)
    with pytest.raises(ValueError, match="max_span must be at least 1"):
        ContiguousPermutationLM(max_span=0)
