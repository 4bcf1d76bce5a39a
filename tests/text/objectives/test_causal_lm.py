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
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

EOS, BOS = 1, 259
IDS = VocabularyIds(vocab_size=359, pad=0, eos=EOS, bos=BOS, unk=2, first_sentinel=358, num_sentinels=90)
SEEDS = np.zeros((1000, 2), np.uint64)


def window_of(lengths):
    numbers = iter(range(3, 3 + sum(lengths)))
    records = [{"tokens": np.array([next(numbers) for _ in range(length)], np.int32)} for length in lengths]
    return lay_window(records, chunks=np.zeros(len(lengths), np.uint64), eos=EOS)


def examples_of(objective, lengths, row):
    window = window_of(lengths)
    cuts = objective.cut(window, Lengths(2, row), np.zeros(2, np.uint64))
    texts = texts_of(window, cuts, np.arange(len(cuts.starts)))
    examples = objective.make(texts, SEEDS[: len(texts)], Lengths(2, row), IDS)
    return window, examples


def lists(examples, side):
    return [getattr(example, side).tolist() for example in examples]


def test_rows_read_the_token_before_their_targets():
    _, examples = examples_of(CausalLM(), [2, 2], 4)
    assert lists(examples, "targets") == [[3, 4, EOS, 5], [6, EOS]]
    assert lists(examples, "inputs") == [[EOS, 3, 4, EOS], [5, 6]]


def test_isolated_documents_never_share_an_example():
    _, examples = examples_of(CausalLM(isolate_documents=True), [2, 5], 4)
    assert lists(examples, "targets") == [[3, 4, EOS], [5, 6, 7, 8], [9, EOS]]
    assert lists(examples, "inputs") == [[EOS, 3, 4], [EOS, 5, 6, 7], [8, 9]]


def test_a_beginning_of_sequence_is_read_where_documents_begin():
    _, examples = examples_of(CausalLM(begin_with="bos"), [2, 2], 10)
    assert lists(examples, "targets") == [[3, 4, EOS, 5, 6, EOS]]
    assert lists(examples, "inputs") == [[BOS, 3, 4, BOS, 5, 6]]


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    row=st.integers(2, 20),
    isolated=st.booleans(),
)
def test_every_token_is_predicted_once_from_the_one_before(lengths, row, isolated):
    window, examples = examples_of(CausalLM(isolate_documents=isolated), lengths, row)
    targets = np.concatenate([example.targets for example in examples])
    inputs = np.concatenate([example.inputs for example in examples])
    np.testing.assert_array_equal(targets, window.tokens)
    np.testing.assert_array_equal(inputs, np.roll(window.tokens, 1))
    assert max(len(example.targets) for example in examples) <= row
    if not isolated:
        assert all(len(example.targets) == row for example in examples[:-1])


@pytest.fixture
def make_task(tmp_path, request):
    def make(objective):
        file = tmp_path / "text.txt"
        file.write_text("\n".join(f"document {index}" for index in range(40)) + "\n")
        name = f"causal_{zlib.crc32(request.node.name.encode())}"
        registry.register(
            [PretrainingTask(name=name, vocabulary="bytes", files={"train": str(file)}, objective=objective)]
        )
        return name

    return make


def test_the_loader_gives_full_rows_that_continue_across_documents(make_task):
    name = make_task(CausalLM())
    settings = {"batch_size": 2, "inputs_length": 2, "targets_length": 32}
    loader = build_loader(LoaderConfig(mixture=name, shuffle=False, **settings))  # the shorter row comes last
    batch = next(loader)
    assert batch.encoder_input_tokens is None
    assert (batch.decoder_segment_ids == 1).all()
    np.testing.assert_array_equal(batch.decoder_input_tokens[:, 1:], batch.target_tokens[:, :-1])
    assert (batch.decoder_positions == np.arange(32)).all()
    assert (batch.loss_weights == 1).all()


def test_the_loader_packs_isolated_documents_with_positions_of_their_own(make_task):
    name = make_task(CausalLM(isolate_documents=True))
    loader = build_loader(LoaderConfig(mixture=name, batch_size=2, inputs_length=2, targets_length=40))
    batch = next(loader)
    assert batch.decoder_segment_ids.max() == 3
    begins = (batch.decoder_positions == 0) & (batch.decoder_segment_ids > 0)
    assert (batch.decoder_input_tokens[begins] == EOS).all()


@pytest.mark.seqio
def test_seqio_gives_the_same_examples_from_a_task(make_task):
    task = registration.get_task(make_task(CausalLM()))
    rows = list(task.get_dataset({"targets": 50}, "train", shuffle=False).as_numpy_iterator())
    joined = np.concatenate([row["targets"] for row in rows])
    texts = [f"document {index}".encode() for index in range(40)]
    assert joined.tolist() == [token for text in texts for token in [*(byte + 3 for byte in text), EOS]]
    np.testing.assert_array_equal(np.concatenate([row["inputs"] for row in rows]), np.roll(joined, 1))


def test_bad_settings_are_refused_with_what_to_do():
    with pytest.raises(ValueError, match="'eos' or 'bos', got 'cls'"):
        CausalLM(begin_with="cls")
    with pytest.raises(ValueError, match="lacks; use begin_with='eos', or raise num_sentinels"):
        CausalLM(begin_with="bos").check(Lengths(8, 8), replace(IDS, bos=None))
