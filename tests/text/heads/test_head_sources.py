"""Batches for encoder heads: all formats, exact resume, workers and processes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text import registry
from t5x_like.text.batches.head_questions import questions_of, read_questions
from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.row_maker import group_by_length
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.heads import (
    CandidateRanking,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    SequenceClassification,
    TokenClassification,
)
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.rows import RawRow
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer

LETTERS = "abcdefghij"
CONTEXT = "a b, c d. e f g h i j a c e g i"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    letters = [letter for character in LETTERS for letter in (character, f"##{character}")]
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", ".", *letters]) + "\n")
    return str(file)


def sentence(number: int) -> str:
    return " ".join(LETTERS[(number + place) % 10] for place in range(1 + number % 23))


@pytest.fixture(scope="module")
def labeled(tmp_path_factory, vocabulary):
    """Return a task from users' files: 1,500 sentences, every seventh labeled "bad"."""
    folder = tmp_path_factory.mktemp("labeled")
    lines = [f"{sentence(index)}\t{'bad' if index % 7 == 0 else 'good'}" for index in range(1500)]
    (folder / "train.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    task = TextTask(
        name="labeled_sentences",
        vocabulary=vocabulary,
        num_sentinels=0,
        files={"train": str(folder / "train.tsv")},
        input_template="{text}",
        target_template="{label}",
        labels=("good", "bad"),
    )
    registry.register([task])
    return task.name


def read_json_rows(file, split):
    del split
    for number, line in enumerate(Path(file).read_text().splitlines(), start=1):
        yield RawRow(json.loads(line), f"{file}:{number}")


def register(tmp_path, vocabulary, name, form, rows):
    """Return a benchmark of these rows, by split."""
    for split, values in rows.items():
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in values))
    layout = FileLayout(files={split: (f"{split}.jsonl",) for split in rows}, read=read_json_rows)
    num_rows = {split: len(values) for split, values in rows.items()}
    source = BenchmarkSource(layouts=(layout,), rows=num_rows, columns={})
    benchmark = Benchmark(name=name, title=name, source=source, word=lambda _: [], head=form)
    task = BenchmarkTask(
        name=name, benchmark=benchmark, vocabulary=vocabulary, num_sentinels=0, data_dir=str(tmp_path)
    )
    registry.register([task])
    return name


def config(mixture, **options):
    settings = {"batch_size": 8, "inputs_length": 16, "targets_length": 2, "layout": "encoder"} | options
    return LoaderConfig(mixture=mixture, **settings)


def texts_of(loader, batch):
    return [
        " ".join(loader.vocabulary.piece(int(token_id)) for token_id in row[real > 0])
        for row, real in zip(batch.encoder_input_tokens, batch.encoder_segment_ids, strict=True)
    ]


def rows_of(loader, num_batches):
    return [
        (text, label) for batch in take(loader, num_batches) for text, label in rows_of_batch(loader, batch)
    ]


def rows_of_batch(loader, batch):
    return list(zip(texts_of(loader, batch), batch.sequence_labels.tolist(), strict=True))


def take(loader, number):
    return [next(loader) for _ in range(number)]


@pytest.mark.parametrize("grouped", [False, True])
def test_an_epoch_has_every_row_once_with_its_label(labeled, grouped):
    loader = build_loader(config(labeled, inputs_length=32, batch_size=10, group_by_length=grouped))
    rows = rows_of(loader, 150)
    expected = [(f"[CLS] {sentence(index)} [SEP]", int(index % 7 == 0)) for index in range(1500)]
    assert sorted(rows) == sorted(expected)
    assert rows != expected


def test_grouped_batches_are_shorter_and_as_long_as_their_longest_row(labeled):
    shares = {}
    for grouped in (False, True):
        loader = build_loader(config(labeled, inputs_length=32, batch_size=10, group_by_length=grouped))
        widths = {batch.encoder_input_tokens.shape[1] for batch in take(loader, 100)}
        assert widths <= {16, 32}
        shares[grouped] = loader.share_filled
    assert shares[True] > 1.2 * shares[False]


@pytest.mark.parametrize("grouped", [False, True])
def test_after_a_restart_the_same_batches_follow(labeled, grouped):
    settings = config(labeled, group_by_length=grouped)
    loader = build_loader(settings)
    take(loader, 131)
    state = json.loads(json.dumps(loader.state()))
    expected = take(loader, 70)  # into the next thousand, and the next epoch
    again = build_loader(settings)
    again.restore(state)
    for left, right in zip(expected, take(again, 70), strict=True):
        for one, other in zip(left, right, strict=True):
            np.testing.assert_array_equal(one, other)


def test_groups_belong_to_a_batch_size(labeled):
    state = build_loader(config(labeled, group_by_length=True)).state()
    with pytest.raises(ValueError, match="groups: 8 before, 4 now"):
        build_loader(config(labeled, group_by_length=True, batch_size=4)).restore(state)


def test_processes_share_the_rows_of_one(labeled):
    settings = config(labeled, group_by_length=True)
    whole = build_loader(settings)
    parts = [build_loader(settings, index, 2) for index in (0, 1)]
    for batch in take(whole, 20):
        halves = [rows_of_batch(part, next(part)) for part in parts]
        assert halves[0] + halves[1] == rows_of_batch(whole, batch)


def test_workers_make_the_same_batches(labeled):
    alone, helped = (build_loader(config(labeled, num_workers=number)) for number in (0, 1))
    try:
        assert rows_of(alone, 5) == rows_of(helped, 5)
    finally:
        helped.close()


def test_long_rows_are_cut_and_counted(labeled, caplog):
    loader = build_loader(config(labeled, inputs_length=10))
    num_long = sum(1 + index % 23 > 8 for index in range(1500))
    num_cut = sum(max(1 + index % 23 - 8, 0) for index in range(1500))
    message = f"{num_long} examples are longer than inputs_length=10 and were cut, by {num_cut} tokens in all"
    assert message in caplog.text
    assert {len(text.split()) for text in texts_of(loader, next(loader))} <= set(range(3, 11))


def test_measuring_reads_every_row_once_and_fills_up(labeled):
    loader = build_loader(config(labeled, batch_size=64, repeat=False, shuffle=False))
    batches = list(loader)
    assert sum(int((batch.sequence_labels >= 0).sum()) for batch in batches) == 1500
    assert batches[-1].sequence_labels[-1] == -1
    assert batches[-1].encoder_segment_ids[-1].sum() == 0


def test_numbers_are_float_and_missing_ones_are_none(tmp_path, vocabulary):
    form = Regression(texts=("{text}",), lowest=0, highest=5)
    rows = [{"text": "a", "label": 2.5}, {"text": "b", "label": 4.75}, {"text": "c", "label": -1.0}]
    name = register(tmp_path, vocabulary, "numbers", form, {"train": rows})
    batch = next(iter(build_loader(config(name, batch_size=4, repeat=False, shuffle=False))))
    assert batch.sequence_values.dtype == np.float32
    np.testing.assert_array_equal(batch.sequence_values, [2.5, 4.75, np.nan, np.nan])
    assert batch.sequence_labels is None


def test_each_choice_is_a_row_of_its_question(tmp_path, vocabulary):
    form = MultipleChoice(context="{text}", choices="endings")
    rows = [{"text": f"a {last}", "endings": ["b", "c d", last], "label": 2} for last in "efghi"]
    name = register(tmp_path, vocabulary, "endings", form, {"train": rows})
    loader = build_loader(config(name, batch_size=4, repeat=False, shuffle=False))
    first, last = list(loader)
    assert first.encoder_input_tokens.shape == (4, 3, 16)
    assert first.sequence_labels.tolist() == [2, 2, 2, 2]
    assert last.sequence_labels.tolist() == [2, -1, -1, -1]
    pieces = [loader.vocabulary.piece(int(token_id)) for token_id in first.encoder_input_tokens[1, 2][:7]]
    assert pieces == ["[CLS]", "a", "f", "[SEP]", "f", "[SEP]", "[PAD]"]
    assert first.token_types[1, 2][:7].tolist() == [0, 0, 0, 0, 1, 1, 0]


def test_each_candidate_is_a_row_right_or_wrong(tmp_path, vocabulary):
    row = {"passage": "a b c d", "query": "@placeholder e"}
    rows = [
        row | {"entities": ["a", "b", "c"], "answers": ["a", "c"]},
        row | {"entities": ["a"], "answers": []},  # unlabeled
        row | {"entities": ["b", "d"], "answers": ["d"]},
    ]
    name = register(tmp_path, vocabulary, "gaps", CandidateRanking(), {"train": rows})
    loader = build_loader(config(name, batch_size=5))
    (batch,) = take(loader, 1)
    expected = zip("abcbd", (1, 0, 1, 0, 1), strict=True)
    assert set(rows_of_batch(loader, batch)) == {
        (f"[CLS] a b c d [SEP] {entity} e [SEP]", label) for entity, label in expected
    }


def test_rows_with_other_numbers_of_choices_are_refused(tmp_path, vocabulary):
    form = MultipleChoice(context="{text}", choices="endings")
    rows = [
        {"text": "a", "endings": ["b", "c"], "label": 0},
        {"text": "a", "endings": ["b", "c", "d"], "label": 0},
    ]
    name = register(tmp_path, vocabulary, "uneven", form, {"train": rows})
    with pytest.raises(
        ValueError, match=r"'uneven', split 'train': rows have 2 or 3 choices; all must have equally"
    ):
        build_loader(config(name))


def test_only_the_first_token_of_a_word_has_its_class(tmp_path, vocabulary):
    form = TokenClassification(classes=("O", "B-X", "I-X"))
    rows = [{"tokens": ["ab", "c", "def"], "tags": [1, 2, 0]}, {"tokens": ["a"], "tags": [-1]}]
    name = register(tmp_path, vocabulary, "tagged", form, {"train": rows})
    batch = next(iter(build_loader(config(name, batch_size=2, repeat=False, shuffle=False))))
    # [CLS] a ##b c d ##e ##f [SEP]
    assert batch.loss_weights[0][:8].tolist() == [0, 1, 0, 1, 1, 0, 0, 0]
    assert batch.target_tokens[0][:8].tolist() == [0, 1, 0, 2, 0, 0, 0, 0]
    assert batch.loss_weights[1].sum() == 0


def test_rows_without_tags_are_left_out_or_kept_with_loss_weights_of_zero(tmp_path, vocabulary, caplog):
    rows = [
        {"tokens": ["ab", "c"], "tags": [1, 0]},
        {"tokens": ["d", "e"]},
        {"tokens": ["f", "g"], "tags": [-1, -1]},
    ]
    results = {}
    for keeps in (False, True):
        form = TokenClassification(classes=("x", "y"), keeps_unlabeled=keeps)
        name = register(tmp_path, vocabulary, f"keeps_{keeps}", form, {"train": rows})
        loader = build_loader(config(name, batch_size=3, repeat=False, shuffle=False))
        batch = next(loader)
        real = batch.encoder_segment_ids.sum(1).tolist()
        results[keeps] = texts_of(loader, batch), real, batch.loss_weights.sum(1).tolist()
    assert results[True] == (
        ["[CLS] a ##b c [SEP]", "[CLS] d e [SEP]", "[CLS] f g [SEP]"],
        [5, 4, 4],
        [2, 0, 0],
    )
    assert results[False] == (["[CLS] a ##b c [SEP]", "", ""], [5, 0, 0], [2, 0, 0])
    assert caplog.messages == [
        "task 'keeps_False', split 'train': 2 of 3 rows have no label and are left out"
    ]


def test_a_task_without_any_tag_is_refused_unless_it_keeps_such_rows(tmp_path, vocabulary):
    rows = {"train": [{"tokens": ["a", "b"]}] * 2}
    name = register(tmp_path, vocabulary, "no_tags", TokenClassification(classes=("x", "y")), rows)
    with pytest.raises(ValueError, match=r"all of its 2 rows have no label, .*keeps_unlabeled=True"):
        build_loader(config(name))
    form = TokenClassification(classes=("x", "y"), keeps_unlabeled=True)
    kept = register(tmp_path, vocabulary, "untagged", form, rows)
    assert next(build_loader(config(kept, batch_size=2))).encoder_segment_ids.sum() == 8


@given(st.integers(0, 14), st.integers(1, 4), st.integers(8, 24), st.integers(1, 6))
def test_windows_cover_the_context_and_say_where_the_answer_is(vocabulary, place, size, length, stride):
    words = CONTEXT.split()
    chosen = words[place : place + size]
    start = len(" ".join([*words[:place], ""]))
    answer = " ".join(chosen)
    row = QuestionAnswering().read(
        {"question": "a b", "context": CONTEXT, "answers": {"text": [answer], "answer_start": [start]}},
    )
    tokenizer = open_tokenizer(vocabulary, 0)
    examples = make_examples(QuestionAnswering(), [row], tokenizer, length=length, stride=stride)
    seen = set()
    for index in range(len(examples)):
        example, (starts, ends) = examples.example(index), examples.character_offsets(index)
        assert example.inputs is not None
        assert len(example.inputs) <= length
        seen |= set(starts.tolist())
        if example.span != (0, 0):
            second = examples.context_start(index)
            first, last = (side - second for side in example.span)
            assert CONTEXT[starts[first] : ends[last]] == answer
    max_tokens = length - 5  # [CLS] a b [SEP] … [SEP]
    assert seen == {place for place, letter in enumerate(CONTEXT) if letter != " "} or stride > max_tokens
    num_tokens = len(tokenizer.encode(answer))
    if num_tokens + stride <= max_tokens + 1:
        assert any(examples.example(index).span != (0, 0) for index in range(len(examples)))


def test_a_split_without_labels_is_read_but_not_learned_from(tmp_path, vocabulary):
    form = SequenceClassification(texts=("{text}",), classes=("x", "y"))
    rows = {
        "train": [{"text": "a", "label": 1}],
        "test": [{"text": "a", "label": -1}, {"text": "b", "label": -1}],
    }
    name = register(tmp_path, vocabulary, "hidden_labels", form, rows)
    with pytest.raises(ValueError, match=r"'hidden_labels', split 'test': all of its 2 rows have no label"):
        build_loader(config(name, split="test"))
    task = registry.definition(name)
    assert isinstance(task, PairsTask)
    questions = questions_of(task, read_questions(task, "test"), inputs_length=16)
    assert len(questions) == 2
    assert questions.score([0, 1]) == {}
    assert [row["prediction"] for row in questions.rows([0, 1])] == ["x", "y"]
    assert [row["target"] for row in questions.rows([0, 1])] == [None, None]


def test_a_bad_row_is_named_by_its_place(tmp_path, vocabulary):
    form = SequenceClassification(texts=("{text}",), classes=("x", "y"))
    rows = [{"text": "a", "label": 1}, {"text": "a", "label": 3}]
    name = register(tmp_path, vocabulary, "bad_label", form, {"train": rows})
    with pytest.raises(ValueError, match=r"train.jsonl:2: label is 3; it must be 0 … 1 \(x, y\)"):
        build_loader(config(name))


def test_a_token_cache_is_refused(labeled, tmp_path):
    with pytest.raises(ValueError, match=r"'labeled_sentences' is read for an encoder's head.*Omit cache='"):
        build_loader(config(labeled, cache=str(tmp_path)))


def test_tasks_without_a_form_and_tasks_for_other_heads_are_refused(tmp_path, vocabulary, labeled):
    name = register(tmp_path, vocabulary, "written", None, {"train": [{"text": "a"}]})
    with pytest.raises(
        ValueError, match=r"'written' has no form for an encoder's head: its answers are generated text"
    ):
        build_loader(config(name))
    with pytest.raises(ValueError, match="group_by_length is for tasks of encoders' heads"):
        build_loader(replace(config(labeled, group_by_length=True), layout=None))


def test_a_task_that_is_worded_for_writing_alone_names_the_one_that_heads_read():
    message = "'glue_wnli_v002_simple_eval' has no form.*; heads read the same rows as 'glue_wnli_v002'"
    with pytest.raises(ValueError, match=message):
        config("glue_wnli_v002_simple_eval").labels(registry.resolve("glue_wnli_v002_simple_eval"))


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 9))
def test_groups_of_like_length_are_an_order(sizes, batch_size):
    order = group_by_length(sizes, batch_size, np.array([1, 2], np.uint64))
    assert sorted(order.tolist()) == list(range(len(sizes)))
    by_size = sorted(sizes)
    blocks = [
        sorted(sizes[number] for number in order[start : start + batch_size])
        for start in range(0, len(sizes), batch_size)
    ]
    assert sorted(blocks) == sorted(
        by_size[start : start + batch_size] for start in range(0, len(sizes), batch_size)
    )
