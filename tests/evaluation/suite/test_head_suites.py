import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.evaluation import head_evaluator
from t5x_like.evaluation.head_predictor import HeadPredictor
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import read_jsonl, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.roberta import RobertaConfig
from t5x_like.model.zoo.xlnet import XLNetConfig
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.checkpoint import kind_of
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint

WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("sentence", "number", "is", "here", "again", "it", ".", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
]


def write_bert(directory, task, num_labels=2, problem_type=None):
    config = BertConfig(
        vocab_size=len(WORDS),
        model_dim=16,
        mlp_dim=32,
        num_heads=2,
        num_layers=1,
        max_position_embeddings=64,
        task=task,
        num_labels=num_labels,
        problem_type=problem_type,
    )
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], directory)
    (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return str(directory)


class OneDevice(MeshConfig):
    """The first device alone."""

    def build(self, devices=None):
        return super().build((devices or jax.devices())[:1])


def run_of(checkpoint, data, tmp_path, **settings):
    return SuiteEvaluation(
        checkpoint=checkpoint, tasks=("glue_rte_v002",), output_dir=str(tmp_path / "out"), data_dir=data,
        batch_size=8, inputs_length=32, resamples=20, **settings,
    )  # fmt: skip


def test_an_encoder_answers_by_its_head(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    entry = evaluate_suite(run_of(bert, data, tmp_path), shown=False)["tasks"]["glue_rte_v002"]
    assert entry["method"] == "head"
    assert entry["invalid"] == 0
    assert entry["examples"] == 24
    assert entry["intervals"]["accuracy"]["low"] <= entry["scores"]["accuracy"]
    rows = list(read_jsonl(tmp_path / "out/glue_rte_v002/predictions.jsonl"))
    assert [row["number"] for row in rows] == list(range(24))
    right = sum(row["prediction"] == row["target"] for row in rows)
    assert entry["scores"]["accuracy"] == pytest.approx(100 * right / 24)


@pytest.mark.parametrize(
    "kept",
    [{"tasks.0.num_sentinels": 0}, {"tasks.0.num_sentinels": 0, "train.mixture": "glue_cola_v002"}, None],
)
def test_a_run_is_evaluated_in_its_own_vocabulary(data, tmp_path, kept):
    """BERT's has no sentinels: those that T5's has would be more ids than there are embeddings."""
    opened = open_checkpoint(write_bert(tmp_path / "bert", "sequence_classification"))
    config, params = opened.config, opened.params
    directory = tmp_path / "run"
    write_model_config(directory, config)
    with Checkpoints(directory) as checkpoints:
        checkpoints.save(3, {"params": params})
    shutil.copyfile(tmp_path / "bert/vocab.txt", directory / "vocab.txt")
    if kept is not None:  # a conversion has no such file
        write_json(directory / "config.json", kept)
    entry = evaluate_suite(run_of(str(directory), data, tmp_path), shown=False)["tasks"]["glue_rte_v002"]
    assert entry["method"] == "head"
    assert entry.get("head_of") == (None if kept is None else kept.get("train.mixture"))
    with pytest.raises(
        ValueError, match=r"121 ids.* 21: they don't belong together \(num_sentinels is 100\)"
    ):
        open_checkpoint(str(directory), mesh=MeshConfig().build(), num_sentinels=100)


def test_a_file_without_rows_is_named(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    (tmp_path / "data/glue/RTE/dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n")
    with pytest.raises(ValueError, match=r"no usable row in .*glue/RTE/dev.tsv; there is no row in it"):
        evaluate_suite(run_of(bert, data, tmp_path), shown=False)


def test_a_model_without_the_head_is_refused(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "masked_lm")
    with pytest.raises(ValueError, match="task 'glue_rte_v002' needs a head for sequence classification"):
        evaluate_suite(run_of(bert, data, tmp_path), shown=False)


@pytest.mark.slow
def test_a_killed_evaluation_continues_and_ends_as_if_never_killed(data, tmp_path, monkeypatch):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    evaluate_suite(run_of(bert, data, tmp_path), shown=False)
    path = tmp_path / "out/glue_rte_v002/predictions.jsonl"
    whole = path.read_bytes()
    monkeypatch.setattr(head_evaluator, "_BATCHES_AT_ONCE", 1)
    calls = []
    scores = HeadPredictor.scores

    def until_the_second(self, params, questions):
        calls.append(len(questions))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return scores(self, params, questions)

    monkeypatch.setattr(HeadPredictor, "scores", until_the_second)
    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        evaluate_suite(run_of(bert, data, tmp_path), shown=False)
    assert path.read_text().count("\n") == 8
    evaluate_suite(run_of(bert, data, tmp_path), shown=False)
    assert calls == [8, 8, 8, 8]
    assert path.read_bytes() == whole


@pytest.mark.slow
def test_a_mesh_of_devices_gives_the_answers_of_one(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    rows = []
    for name, mesh in (("one", OneDevice()), ("all", MeshConfig())):
        evaluate_suite(run_of(bert, data, tmp_path / name, mesh=mesh), shown=False)
        rows.append(list(read_jsonl(tmp_path / name / "out/glue_rte_v002/predictions.jsonl")))
    assert rows[0] == rows[1]


def test_what_is_cut_is_counted_under_the_tasks_own_name(data, tmp_path, caplog):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    run = replace(run_of(bert, data, tmp_path), inputs_length=15)
    entry = evaluate_suite(run, shown=False)["tasks"]["glue_rte_v002"]
    rows = list(read_jsonl(tmp_path / "out/glue_rte_v002/predictions.jsonl"))
    longest = max(rows, key=lambda row: len(row["input"]))
    assert longest["cut"] == 1
    assert 0 < entry["cut_inputs"] == sum(row["cut"] for row in rows) < 24
    assert "glue_rte_v002_" not in caplog.text


def test_scores_that_are_no_numbers_are_reported(data, tmp_path, monkeypatch):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    monkeypatch.setattr(HeadPredictor, "scores", lambda _, __, part: [np.full(2, np.nan)] * len(part))
    with pytest.raises(ValueError, match="the head's score for question 4 is not a number"):
        evaluate_suite(run_of(bert, data, tmp_path), shown=False)


def test_a_roberta_reads_as_many_tokens_as_have_positions_and_no_more(data, tmp_path):
    """Its files count the two positions that padding keeps."""
    config = RobertaConfig(
        vocab_size=64, model_dim=16, mlp_dim=32, num_heads=2, num_layers=1, max_position_embeddings=30,
        task="sequence_classification",
    )  # fmt: skip
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], tmp_path / "roberta")
    (tmp_path / "roberta/vocab.txt").write_text("\n".join(WORDS) + "\n")
    with pytest.raises(ValueError, match=r"inputs_length is 32, .* can read 30 tokens; lower it"):
        evaluate_suite(run_of(str(tmp_path / "roberta"), data, tmp_path), shown=False)


def test_an_encoder_writes_nothing(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    with pytest.raises(
        ValueError, match="is an encoder, which writes nothing: method=generate needs a decoder"
    ):
        evaluate_suite(run_of(bert, data, tmp_path, method="generate"), shown=False)


def test_an_xlnet_with_a_head_is_evaluated_as_an_encoder_and_one_for_words_is_not():
    sizes = {"vocab_size": 16, "model_dim": 8, "mlp_dim": 8, "num_heads": 2, "head_dim": 4, "num_layers": 1}
    config = XLNetConfig(**sizes, task="multiple_choice")  # pyright: ignore[reportArgumentType]
    assert kind_of(jax.eval_shape(config.build, jax.random.key(0))) == "encoder"
    writing = replace(config, task="causal_lm")
    with pytest.raises(ValueError, match="a TwoStream can't be evaluated on benchmarks yet"):
        kind_of(jax.eval_shape(writing.build, jax.random.key(0)))


ENTAILMENT = ("entailment", "not_entailment")


def with_classes(source, target, names):
    """The same head, whose scores are in the order of ``names``, as its configuration says."""
    opened = open_checkpoint(source)
    config, params = opened.config, opened.params
    flat = parameters.flatten(params)
    for path in [path for path in flat if path.startswith("heads/scores/")]:
        order = [ENTAILMENT.index(name) for name in names if name in ENTAILMENT] or [0, 1]
        flat[path] = flat[path][..., np.array(order)]
    write_hugging_face(config, parameters.unflatten(flat), target, classes=names)
    shutil.copyfile(f"{source}/vocab.txt", target / "vocab.txt")
    return str(target)


def evaluate_with(checkpoint, data, tmp_path, **settings):
    entry = evaluate_suite(run_of(checkpoint, data, tmp_path, **settings), shown=False)
    predicted = [row["prediction"] for row in read_jsonl(tmp_path / "out/glue_rte_v002/predictions.jsonl")]
    return entry["tasks"]["glue_rte_v002"], predicted


def test_a_head_with_its_classes_in_another_order_is_matched_by_name(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    entry, predicted = evaluate_with(bert, data, tmp_path / "one")
    assert entry["class_order"] == (
        "the head's classes have no names, and were taken in the task's order: entailment, not_entailment. Name "
        "them by classes if theirs is another"
    )
    same = with_classes(bert, tmp_path / "same", ENTAILMENT)
    result, again = evaluate_with(same, data, tmp_path / "two")
    assert (again, result["scores"]) == (predicted, entry["scores"])
    assert "class_order" not in result
    turned = with_classes(bert, tmp_path / "turned", ENTAILMENT[::-1])
    result, again = evaluate_with(turned, data, tmp_path / "three")
    assert (again, result["scores"]) == (predicted, entry["scores"])
    assert result["class_order"] == (
        "the head's classes are in another order, and were matched by name: not_entailment, entailment"
    )


def test_classes_with_other_names_are_refused_until_the_user_names_them(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    entry, predicted = evaluate_with(bert, data, tmp_path / "one", classes=ENTAILMENT[::-1])
    assert entry["class_order"].startswith("the head's classes are in another order")
    other = with_classes(bert, tmp_path / "other", ("no", "yes"))
    with pytest.raises(
        ValueError, match=r"has the classes entailment, not_entailment, the head has no, yes; if"
    ):
        evaluate_with(other, data, tmp_path / "two")
    assert not (tmp_path / "two" / "out").exists()
    entry, again = evaluate_with(other, data, tmp_path / "two", classes=ENTAILMENT)
    assert again == [ENTAILMENT[1 - ENTAILMENT.index(answer)] for answer in predicted]
    with pytest.raises(
        ValueError, match=r"has the classes entailment, not_entailment, and was given a, b; if"
    ):
        evaluate_with(other, data, tmp_path / "three", classes=("a", "b"))
    assert not (tmp_path / "three").exists()


def test_a_head_for_any_number_of_classes_answers_no_task_with_one(data, tmp_path):
    bert = write_bert(tmp_path / "bert", "sequence_classification", problem_type="multi_label")
    message = (
        r"task 'glue_rte_v002' predicts one class for each row, and the model's head any number of classes for each "
        r"row \(problem_type='multi_label'\)"
    )
    with pytest.raises(ValueError, match=message):
        evaluate_suite(run_of(bert, data, tmp_path), shown=False)
