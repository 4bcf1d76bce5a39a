import json
import sys

import pytest
import seqio

from benchmarks.references.packing import rates
from benchmarks.references.reference import compare_all
from t5x_like.text import registry
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.seqio_bridge import registration, task_examples
from t5x_like.text.tasks.mixtures import Mixture, Proportional, unimax_rates
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.text_task import TextTask


def text_task(tmp_path, name, num_rows=3):
    path = tmp_path / f"{name}.tsv"
    path.write_text("text\tlabel\n" + "".join(f"row {index}\tyes\n" for index in range(num_rows)))
    return TextTask(
        name=name,
        vocabulary="bytes",
        files={"train": str(path)},
        input_template="{text}",
        target_template="{label}",
    )


def test_rates_are_t5s(golden):
    assert compare_all(rates(golden / "packing" / "mixture_rates.json")) > 10


def test_t5s_own_mixtures_have_their_rates(golden):
    reference = json.loads((golden / "packing" / "t5_registered_mixtures.json").read_text())
    mixture = reference["glue_v002_proportional"]
    total = sum(Proportional().rate(int(size)) for size in mixture["rates"].values())
    for name, size in mixture["rates"].items():
        assert Proportional().rate(int(size)) / total == pytest.approx(mixture["normalized"][name])


def test_unimax_divides_the_budget_equally_and_reads_no_corpus_too_often():
    """Chung et al. 2023, algorithm 1, by hand."""
    sizes = {"en": 1000, "de": 120, "sw": 30, "yo": 10}
    # 10 of 400, 30 of 390, 120 of 360, and the other 240.
    once = {"en": 240 / 400, "de": 120 / 400, "sw": 30 / 400, "yo": 10 / 400}
    assert unimax_rates(sizes, budget=400) == pytest.approx(once)
    assert list(unimax_rates(sizes, budget=400)) == list(sizes)
    # Five times: 50 of 400, a third of 350, and as much of each of the others.
    five = {"en": 350 / 1200, "de": 350 / 1200, "sw": 350 / 1200, "yo": 50 / 400}
    assert unimax_rates(sizes, budget=400, max_epochs=5) == pytest.approx(five)
    # A budget for more than all text: each is read as often as it may be, so rates are proportional.
    assert unimax_rates(sizes, budget=10**6)["yo"] == pytest.approx(10 / 1160)


@pytest.mark.parametrize(
    ("sizes", "budget", "max_epochs"), [({}, 1, 1), ({"en": 0}, 1, 1), ({"en": 1}, 0, 1), ({"en": 1}, 1, 0)]
)
def test_unimax_refuses_what_is_not_positive(sizes, budget, max_epochs):
    with pytest.raises(ValueError, match=r"needs the sizes of corpora, a budget .* all positive, got sizes="):
        unimax_rates(sizes, budget=budget, max_epochs=max_epochs)


def test_a_mixture_is_a_seqio_mixture_proportional_to_its_tasks(tmp_path):
    tasks = [text_task(tmp_path, "small", 2), text_task(tmp_path, "large", 50)]
    mixture = Mixture(name="both", tasks=("small", "large"), rates=Proportional(maximum=8))
    evened = Mixture(name="evened", tasks=("small", "large"), rates=Proportional(temperature=2.0))
    registry.register([mixture, evened, *tasks])  # in any order
    result = seqio.MixtureRegistry.get("both")
    assert {task.name: result.get_rate(task) for task in result.tasks} == {"small": 2.0, "large": 8.0}
    assert task_examples.describe(registry.resolve("evened")).rates == {
        "small": pytest.approx(2**0.5),
        "large": pytest.approx(50**0.5),
    }
    assert task_examples.describe(registry.resolve("both")).splits == {"train": 52}


def test_rates_of_a_mixture_must_fit_its_tasks():
    with pytest.raises(ValueError, match=r"rates lack \['b'\] and name \['c'\]"):
        Mixture(name="x", tasks=("a", "b"), rates={"a": 1.0, "c": 1.0})
    with pytest.raises(ValueError, match="must not be negative nor all 0"):
        Mixture(name="x", tasks=("a",), rates={"a": 0.0})


def test_unknown_names_are_answered_with_the_nearest(tmp_path):
    registry.register([text_task(tmp_path, "sentiment")])
    with pytest.raises(ValueError, match="no task or mixture 'sentimnet'; did you mean 'sentiment'"):
        registration.get("sentimnet")
    with pytest.raises(ValueError, match="did you mean 'sentiment'"):
        registry.register([Mixture(name="m", tasks=("sentimant",))])


def test_the_same_definition_twice_is_fine_another_is_not(tmp_path):
    task = text_task(tmp_path, "twice")
    registry.register([task])
    registry.register([task])
    with pytest.raises(ValueError, match="already another task or mixture 'twice'"):
        registry.register([text_task(tmp_path / "..", "twice")])


def test_users_modules_register_seqio_tasks(tmp_path, monkeypatch):
    (tmp_path / "my_tasks_of_test.py").write_text(
        "import seqio, tensorflow as tf\n"
        "def rows(split, shuffle_files, seed=None):\n"
        "    return tf.data.Dataset.from_tensor_slices({'inputs': ['a b', 'c'], 'targets': ['x', 'y']})\n"
        "seqio.TaskRegistry.add('mine', seqio.FunctionDataSource(rows, ['train']),\n"
        "    preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos],\n"
        "    output_features={k: seqio.Feature(seqio.ByteVocabulary(), add_eos=True)\n"
        "                     for k in ('inputs', 'targets')})\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    registration.import_modules(["my_tasks_of_test"])
    (first, second) = task_examples.show(registry.resolve("mine"), 2)
    assert first.raw == {"inputs": "a b", "targets": "x"}
    assert (first.inputs, first.target_ids, second.target_pieces) == ("a b", [123, 1], ["y", "<1>"])
    assert registry.definition("mine") is None


def test_a_module_that_does_not_exist_is_named_and_errors_inside_come_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ValueError, match="no Python module 'no_such_tasks'"):
        registration.import_modules(["no_such_tasks"])
    (tmp_path / "broken_tasks_of_test.py").write_text("import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        registration.import_modules(["broken_tasks_of_test"])


def test_show_gives_raw_worded_and_tokenised_examples(tmp_path):
    registry.register([text_task(tmp_path, "shown")])
    shown = task_examples.show(registry.resolve("shown"), 2)
    assert len(shown) == 2
    assert shown[0].raw == {"text": "row 0", "label": "yes"}
    assert shown[0].inputs == "row 0"
    assert shown[0].target_ids == [ord(letter) + 3 for letter in "yes"] + [1]
    assert shown[0].target_pieces == ["y", "e", "s", "</s>"]


def test_pretraining_shows_corrupted_documents(tmp_path):
    (tmp_path / "corpus.txt").write_text("In the beginning was the word\n" * 5)
    registry.register(
        [PretrainingTask(name="corpus", vocabulary="bytes", files={"train": str(tmp_path / "corpus.txt")})]
    )
    (shown, *_) = task_examples.show(registry.resolve("corpus"), 1, inputs_length=64, targets_length=64)
    assert shown.raw is None
    assert len(shown.input_ids) == 64
    assert "<extra_id_0>" in shown.inputs
    assert shown.targets.startswith("<extra_id_0>")


@pytest.mark.parametrize(
    ("separator", "documents"),
    [("line", ["one", "two", "three", "four"]), ("blank_line", ["one two", "three four"])],
)
def test_documents_are_lines_or_paragraphs(tmp_path, separator, documents):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\n\nthree\nfour\n")
    task = PretrainingTask(name="a", vocabulary="bytes", files={"train": str(path)}, separator=separator)
    assert [document.text for document in task.read("train")] == documents


def test_documents_of_jsonl_are_a_column(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one\\ntwo"}\n{"txt": "three"}\n')
    task = PretrainingTask(name="a", vocabulary="bytes", files={"train": str(path)}, on_bad_row="skip")
    assert [document.text for document in task.read("train")] == ["one\ntwo"]
    strict = PretrainingTask(name="a", vocabulary="bytes", files={"train": str(path)})
    with pytest.raises(ValueError, match=r"a\.jsonl:2: no column 'text'; the columns are txt"):
        list(strict.read("train"))


def test_bad_rows_keep_their_names_through_tensorflow(tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tlabel\nrow\n")
    task = TextTask(
        name="bad_rows",
        vocabulary="bytes",
        files={"train": str(tmp_path / "rows.tsv")},
        input_template="{text}",
        target_template="{label}",
    )
    registry.register([task])
    from t5x_like.text.seqio_bridge.data_sources import numpy_examples

    dataset = seqio.TaskRegistry.get("bad_rows").source.get_dataset("train").map(lambda row: row["inputs"])
    with pytest.raises(ValueError, match=r"rows\.tsv:2: 1 columns"):
        list(numpy_examples(dataset))


def test_something_that_is_no_objective_is_refused():
    with pytest.raises(ValueError, match=r"call it: SpanCorruption\(\)"):
        PretrainingTask(name="a", vocabulary="bytes", files={"train": "a.txt"}, objective=SpanCorruption)


def test_a_source_of_plain_lines_is_shown_by_the_line(tmp_path):
    (tmp_path / "lines.txt").write_text("hello there\n")
    seqio.TaskRegistry.add(
        "plain_lines_to_show",
        source=seqio.TextLineDataSource({"train": str(tmp_path / "lines.txt")}),
        preprocessors=[
            lambda dataset: dataset.map(lambda line: {"inputs": line, "targets": line}),
            seqio.preprocessors.tokenize,
        ],
        output_features={key: seqio.Feature(seqio.ByteVocabulary()) for key in ("inputs", "targets")},
    )
    (shown,) = task_examples.show(registry.resolve("plain_lines_to_show"), 1)
    assert shown.raw == {"line": "hello there"}
    assert shown.inputs == "hello there"
