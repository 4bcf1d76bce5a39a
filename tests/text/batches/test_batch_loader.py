import json
from collections import Counter

import numpy as np
import pytest
import seqio
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.batch import Batch
from t5x_like.text import registry
from t5x_like.text.batches import example_order
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.order import draw_tasks, key_of, permuted, shuffled
from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary
from t5x_like.text.tasks.mixtures import Mixture


def config(mixture, **changes):
    settings = {"mixture": mixture, "batch_size": 4, "inputs_length": 64, "targets_length": 32, "seed": 5}
    return LoaderConfig(**(settings | changes))


def take(loader, count):
    return [next(loader) for _ in range(count)]


def assert_equal_batches(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for name in Batch._fields:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def texts_of(batches, side="encoder"):
    """Return the decoded segments of batches."""
    vocabulary = load_vocabulary("bytes")
    results = []
    for batch in batches:
        tokens = batch.encoder_input_tokens if side == "encoder" else batch.target_tokens
        segments = batch.encoder_segment_ids if side == "encoder" else batch.decoder_segment_ids
        for row, ids in zip(tokens, segments, strict=True):
            results += [vocabulary.decode(row[ids == token_id]) for token_id in range(1, ids.max() + 1)]
    return results


@pytest.fixture(params=["text", "corpus", "mixture"])
def mixture(request, make_text_task, make_corpus):
    if request.param == "text":
        return make_text_task()
    if request.param == "corpus":
        return make_corpus()
    tasks = (make_text_task(), make_corpus(), make_text_task(7))
    name = "mixed_" + tasks[0]
    registry.register([Mixture(name=name, tasks=tasks, rates={tasks[0]: 3.0, tasks[1]: 2.0, tasks[2]: 1.0})])
    return name


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_restored_loader_gives_the_same_batches_bit_for_bit(mixture, pack, after):
    first = build_loader(config(mixture, pack=pack))
    take(first, after)
    state = json.loads(json.dumps(first.state()))
    expected = take(first, 12)
    second = build_loader(config(mixture, pack=pack))
    second.restore(state)
    assert_equal_batches(take(second, 12), expected)
    first.restore(state)  # backwards, in a loader that was used
    assert_equal_batches(take(first, 12), expected)


def test_a_streamed_task_resumes_bit_for_bit_and_gives_every_example(make_text_task, monkeypatch):
    # Epochs are read anew for every window: of a thousand examples they would be 34.
    monkeypatch.setattr(example_order, "WINDOW_EXAMPLES", 32)
    name = make_text_task(30)
    settings = config(name, max_tokens_in_memory=1)
    first = build_loader(settings)
    take(first, 2)
    state = json.loads(json.dumps(first.state()))
    expected = take(first, 3)  # into other windows and epochs
    second = build_loader(settings)
    second.restore(state)
    assert_equal_batches(take(second, 3), expected)
    places = [made["place"] for made in (state, first.state())]
    assert places[0]["window"] < places[1]["window"]
    assert places[0]["tasks"][name][0] < places[1]["tasks"][name][0]
    once = build_loader(config(name, max_tokens_in_memory=1, repeat=False, shuffle=False))
    held = build_loader(config(name, repeat=False, shuffle=False))
    assert_equal_batches(list(once), list(held))


def test_batches_do_not_depend_on_the_number_of_processes(mixture):
    whole = take(build_loader(config(mixture)), 10)
    parts = [take(build_loader(config(mixture), index, 2), 10) for index in range(2)]
    streams = [name for name in Batch._fields if getattr(whole[0], name) is not None]
    joined = [
        Batch(**{name: np.concatenate([getattr(part[step], name) for part in parts]) for name in streams})
        for step in range(10)
    ]
    assert_equal_batches(joined, whole)


def test_every_epoch_has_every_example_once_in_another_order(make_text_task):
    name = make_text_task(40)
    loader = build_loader(config(name, pack=False))
    epochs = [texts_of(take(loader, 10)) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert len({tuple(sorted(epoch)) for epoch in epochs}) == 1
    assert len(set(epochs[0])) == 40
    other_seed = texts_of(take(build_loader(config(name, pack=False, seed=6)), 10))
    assert sorted(other_seed) == sorted(epochs[0])
    assert other_seed != epochs[0]


def test_one_pass_gives_every_example_once_in_the_files_order_and_fills_up_the_last_batch(make_text_task):
    name = make_text_task(10)
    batches = list(build_loader(config(name, split="validation", pack=False, repeat=False, shuffle=False)))
    assert len(batches) == 3
    assert [text.split()[1] for text in texts_of(batches)] == [str(index) for index in range(10)]
    assert batches[-1].encoder_input_tokens.shape == (4, 64)
    assert batches[-1].loss_weights[2:].sum() == 0


def test_one_pass_over_a_mixture_gives_every_tasks_examples(make_text_task):
    tasks = (make_text_task(5), make_text_task(6))
    registry.register([Mixture(name="once_" + tasks[0], tasks=tasks, rates={tasks[0]: 1.0, tasks[1]: 0.0})])
    batches = list(build_loader(config("once_" + tasks[0], repeat=False)))
    counted = Counter(
        int(task) for batch in batches for task in batch.task_ids[batch.target_tokens == 1].ravel()
    )
    assert counted == {0: 5, 1: 6}


def test_tasks_of_rate_zero_are_not_trained_on(make_text_task):
    tasks = (make_text_task(5), make_text_task(6))
    registry.register([Mixture(name="zero_" + tasks[0], tasks=tasks, rates={tasks[0]: 0.0, tasks[1]: 2.0})])
    for batch in take(build_loader(config("zero_" + tasks[0])), 4):
        assert set(batch.task_ids[batch.decoder_segment_ids > 0].tolist()) == {1}


@pytest.fixture
def turns(make_text_task):
    """Return a mixture of three tasks, one of them with rate 0."""
    tasks = (make_text_task(5), make_text_task(3), make_text_task(7))
    rates = dict(zip(tasks, (1.0, 0.0, 1.0), strict=True))
    registry.register([Mixture(name="turns_" + tasks[0], rates=rates)])
    return "turns_" + tasks[0]


def tasks_of(batches):
    """Return the tasks whose examples each batch has."""
    return [sorted(set(batch.task_ids[batch.decoder_segment_ids > 0].tolist())) for batch in batches]


def test_tasks_take_turns_batch_by_batch(turns):
    settings = config(turns, pack=False, alternate_tasks=True, batch_size=7)
    batches = take(build_loader(settings), 300)  # into the third thousand examples, which 7 doesn't divide
    assert tasks_of(batches) == [[0], [2]] * 150
    assert len(set(texts_of(batches[1:2]))) == 7  # an epoch of the third task
    assert [2] not in tasks_of(take(build_loader(config(turns, pack=False, batch_size=7)), 20))


def test_tasks_keep_their_turns_in_every_process_and_after_a_restart(turns):
    settings = config(turns, pack=False, alternate_tasks=True, batch_size=6)
    loader = build_loader(settings)
    take(loader, 169)
    state = json.loads(json.dumps(loader.state()))
    expected = take(loader, 5)  # into the next thousand
    assert tasks_of(expected) == [[2], [0], [2], [0], [2]]
    parts = [build_loader(settings, index, 2) for index in range(2)]
    for part in parts:
        part.restore(state)
    for batch in expected:
        halves = [next(part).target_tokens for part in parts]
        np.testing.assert_array_equal(np.concatenate(halves), batch.target_tokens)
    for changes, message in (
        ({"batch_size": 4}, "alternate_tasks: 6 before, 4 now"),
        ({"alternate_tasks": False}, "alternate_tasks: 6 before, None now"),
    ):
        with pytest.raises(ValueError, match=message):
            build_loader(config(turns, **({"pack": False, "alternate_tasks": True} | changes))).restore(state)


def test_tasks_that_can_not_take_turns_are_refused(turns, mixture):
    with pytest.raises(ValueError, match=r"packed rows have unknown numbers of examples; set pack=False"):
        build_loader(config(turns, alternate_tasks=True))
    with pytest.raises(
        ValueError, match="and group_by_length those of similar length; set one of them to False"
    ):
        config(turns, alternate_tasks=True, group_by_length=True, layout="encoder")
    loading = config(mixture, pack=False, alternate_tasks=True)
    if mixture.startswith("mixed"):
        with pytest.raises(ValueError, match=r"rates differ: rows_\d+ 0.5, corpus_\d+ 0.333, rows_\d+ 0.167"):
            build_loader(loading)
    else:  # a single task has every turn
        assert_equal_batches(
            take(build_loader(loading), 3), take(build_loader(config(mixture, pack=False)), 3)
        )


def test_tasks_are_drawn_at_their_rates():
    shares = np.array([0.5, 0.0, 0.3, 0.2])
    drawn = draw_tasks(shares, 0, 80_000, key_of(1))
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / len(drawn), shares, atol=0.01)
    np.testing.assert_array_equal(draw_tasks(shares, 5096, 3000, key_of(1)), drawn[5096:8096])


@given(st.integers(1, 5000), st.integers(0, 2**63))
def test_a_permutation_reaches_every_place_once(size, seed):
    reached = permuted(np.arange(size), size, key_of(seed))
    assert sorted(reached.tolist()) == list(range(size))
    np.testing.assert_array_equal(permuted(np.arange(size)[3:9], size, key_of(seed)), reached[3:9])


def test_permutations_leave_no_trace_of_the_order():
    reached = permuted(np.arange(10_000), 10_000, key_of(3))
    assert abs(np.corrcoef(np.arange(10_000), reached)[0, 1]) < 0.03
    neighbors = np.abs(np.diff(reached))
    assert abs(neighbors.mean() / (10_000 / 3) - 1) < 0.03


def test_orders_are_the_recorded_ones():
    assert shuffled(8, key_of(0, "task", 0, "order")).tolist() == [7, 4, 0, 2, 3, 6, 1, 5]
    assert permuted(np.arange(8), 8, key_of(0, "task", 0, "order")).tolist() == [0, 7, 4, 6, 3, 1, 5, 2]


def test_every_epoch_corrupts_the_corpus_anew_and_keeps_its_tokens(make_corpus):
    loader = build_loader(config(make_corpus(), pack=False, batch_size=2))
    size = sum(
        len(batch.target_tokens)
        for batch in build_loader(config(loader.task_names[0], pack=False, repeat=False))
    )
    epochs = []
    for _ in range(2):
        batches = take(loader, size // 2)
        letters = Counter()
        for batch in batches:
            tokens = np.concatenate([batch.encoder_input_tokens.ravel(), batch.target_tokens.ravel()])
            letters += Counter(tokens[(tokens > 1) & (tokens < 259)].tolist())
        epochs.append(letters)
    assert sum(epochs[0].values()) == pytest.approx(sum(epochs[1].values()), rel=0.05)
    assert all(batch.encoder_segment_ids.max() == 1 for batch in batches)


def test_one_pass_over_a_corpus_keeps_every_token(make_corpus):
    name = make_corpus()
    batches = list(build_loader(config(name, repeat=False)))
    counts: Counter = Counter()
    for batch in batches:
        for tokens in (batch.encoder_input_tokens, batch.target_tokens):
            counts += Counter(tokens[(tokens > 2) & (tokens < 259)].tolist())
    expected: Counter = Counter()
    for document in registry.definition(name).read("train"):
        expected += Counter(load_vocabulary("bytes").encode(document.text))
    assert counts == expected


def test_text_tasks_give_the_ids_of_their_seqio_task(make_text_task, pieces_path):
    name = make_text_task(12, vocabulary=str(pieces_path))
    task = seqio.TaskRegistry.get(name)
    rows = task.get_dataset({"inputs": 12, "targets": 4}, "train", shuffle=False).as_numpy_iterator()
    settings = config(name, inputs_length=12, targets_length=4, pack=False, repeat=False, shuffle=False)
    batches = list(build_loader(settings))
    for index, row in enumerate(rows):
        batch, place = batches[index // 4], index % 4
        assert batch.encoder_input_tokens[place, : len(row["inputs"])].tolist() == row["inputs"].tolist()
        assert batch.target_tokens[place, : len(row["targets"])].tolist() == row["targets"].tolist()


def test_trimmed_examples_are_counted_and_end_in_end_of_sequence(make_text_task, caplog):
    name = make_text_task(20)
    loader = build_loader(config(name, inputs_length=8, pack=False))
    num_long = sum(len(row.inputs) + 1 > 8 for row in registry.definition(name).read("train"))
    assert f"{num_long} examples are longer than inputs_length=8" in caplog.text
    tokens = np.concatenate([batch.encoder_input_tokens for batch in take(loader, 5)])
    assert sorted(tokens[:, 7].tolist())[-num_long:] == [1] * num_long


def test_users_seqio_tasks_are_trained_on_by_name():
    def rows(split, shuffle_files, seed=None):
        return tf.data.Dataset.from_tensor_slices({"inputs": ["a", "bb", "ccc"], "targets": ["x", "y", "z"]})

    feature = seqio.Feature(load_vocabulary("bytes"), add_eos=True)
    seqio.TaskRegistry.add(
        "users_own",
        seqio.FunctionDataSource(rows, splits=["train"]),
        output_features={"inputs": feature, "targets": feature},
        preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos_after_trim],
    )
    loader = build_loader(config("users_own", batch_size=3, pack=False))
    (batch,) = take(loader, 1)
    assert sorted(texts_of([batch])) == ["a", "bb", "ccc"]
    assert sorted(texts_of([batch], "decoder")) == ["x", "y", "z"]


def test_a_place_in_other_data_is_refused(make_text_task):
    first = build_loader(config(make_text_task(10)))
    second = build_loader(config(make_text_task(11), seed=6))
    with pytest.raises(ValueError, match=r"(?s)belongs to other data.*checksums: .*seed: 5 before, 6 now"):
        second.restore(first.state())


def test_the_batch_size_may_change_on_the_way(make_text_task):
    name = make_text_task(40)
    first = build_loader(config(name, pack=False))
    take(first, 3)
    second = build_loader(config(name, pack=False, batch_size=8))
    second.restore(first.state())
    joined = [np.concatenate([batch.target_tokens for batch in take(first, 2)])]
    np.testing.assert_array_equal(next(second).target_tokens, joined[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mixture": "no_such"}, "no task or mixture 'no_such'"),
        ({"split": "test"}, "has no split 'test'; there are train, validation"),
    ],
)
def test_names_that_do_not_exist_are_refused(make_text_task, changes, message):
    with pytest.raises(ValueError, match=message):
        build_loader(config(**({"mixture": make_text_task()} | changes)))


def test_sizes_that_do_not_fit_are_refused(make_text_task, make_corpus):
    with pytest.raises(ValueError, match="cannot be shared evenly by 3 processes"):
        build_loader(config(make_text_task()), 0, 3)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        config("any", batch_size=0)
    with pytest.raises(ValueError, match="inputs_length must be at least 2"):
        config("any", inputs_length=1)
    with pytest.raises(ValueError, match=r"set targets_length to 1\d"):
        build_loader(config(make_corpus(), targets_length=8))
    with pytest.raises(ValueError, match="sentinels are needed"):
        build_loader(config(make_corpus(num_sentinels=2), inputs_length=128, targets_length=64))


def test_a_mixture_of_two_vocabularies_is_refused(make_text_task, pieces_path):
    tasks = (make_text_task(), make_text_task(vocabulary=str(pieces_path)))
    registry.register([Mixture(name="two_" + tasks[0], tasks=tasks)])
    with pytest.raises(ValueError, match="has another vocabulary"):
        build_loader(config("two_" + tasks[0]))


@pytest.fixture(scope="module")
def padding_with_the_end(tmp_path_factory):
    """A vocabulary whose first id is end and padding, as those of GPT-NeoX and SmolLM2 are often saved."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("end")
    pieces = ["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    engine = Tokenizer(
        models.BPE(vocab={piece: token_id for token_id, piece in enumerate(pieces)}, merges=[])
    )
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.add_special_tokens(["<|endoftext|>"])
    engine.save(str(folder / "tokenizer.json"))
    named = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return str(folder)


@pytest.mark.parametrize(
    "layout", [{}, {"layout": "decoder", "targets_length": 96, "prefix_attention": "causal"}]
)
def test_an_end_with_the_id_of_padding_is_learned(make_text_task, padding_with_the_end, layout):
    name = make_text_task(vocabulary=padding_with_the_end, num_sentinels=0)
    (batch,) = take(build_loader(config(name, pack=False, **layout)), 1)
    for targets, weights in zip(batch.target_tokens, batch.loss_weights, strict=True):
        assert len(targets[weights > 0]) in (len("no") + 1, len("yes") + 1, len("maybe") + 1)
        assert targets[weights > 0][-1] == 0
