"""Evaluation on held-out rows: of our own tasks as files have them, of users' tasks through seqio."""

import functools
import itertools
import math
import random
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.evaluation import task_evaluators
from t5x_like.evaluation.evaluated_tasks import tasks_with_split
from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
from t5x_like.evaluation.prompts import Prompter, PromptStyle
from t5x_like.evaluation.questions import load_questions, load_seqio_questions
from t5x_like.evaluation.scores_file import read_scores
from t5x_like.evaluation.task_evaluators import write_results
from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.files import read_jsonl
from t5x_like.io.progress import Progress
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text import registry
from t5x_like.text.batches.head_questions import read_questions
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.heads import MultiLabelClassification
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer

_numbers = itertools.count()
SIZES = {"vocab_size": 384, "model_dim": 16, "mlp_dim": 32, "num_heads": 2}
T5 = T5Config(**SIZES, head_dim=8, num_encoder_layers=1, num_decoder_layers=1)
GPT2 = GPT2Config(**SIZES, num_layers=1, max_position_embeddings=64)


@pytest.fixture
def make_task(tmp_path):
    """Registers a task of numbered rows with three classes."""

    def make(num_rows=5):
        name = f"evaluated_rows_{next(_numbers)}"
        chooser = random.Random(0)
        rows = [(f"row {index} " + "x" * chooser.randint(0, 12), index % 3) for index in range(num_rows)]
        for split in ("train", "validation"):
            lines = "".join(f"{text}\t{label}\n" for text, label in rows)
            (tmp_path / f"{name}.{split}.tsv").write_text("text\tlabel\n" + lines)
        task = TextTask(
            name=name,
            vocabulary="bytes",
            files={split: str(tmp_path / f"{name}.{split}.tsv") for split in ("train", "validation")},
            input_template="{text}",
            target_template="{label}",
            label_words={"0": "no", "1": "yes", "2": "maybe"},
            metrics=("accuracy", "macro_f1"),
        )
        registry.register([task])
        return task

    return make


def evaluation_of(task, **settings):
    settings = {"inputs_length": 32, "targets_length": 8, "batch_size": 8} | settings
    return TaskEvaluation(mixture=task, **settings)


def weights(config):
    return parameters.split(config.build(jax.random.key(0)))[1]


def test_tasks_of_a_mixture_that_lack_the_split_are_left_out() -> None:
    names = tasks_with_split(registry.resolve("glue_v002_proportional"), "validation")
    assert {"glue_cola_v002", "glue_mnli_matched_v002", "glue_mnli_mismatched_v002"} <= set(names)
    assert not {"glue_ax_v002", "glue_mnli_v002"} & set(names)
    assert "glue_ax_v002" in tasks_with_split(registry.resolve("glue_v002_proportional"), "test")


def test_a_split_that_no_task_has_is_left_to_be_complained_of() -> None:
    assert list(tasks_with_split(registry.resolve("glue_ax_v002"), "train")) == ["glue_ax_v002"]


def test_a_limit_takes_the_same_rows_of_the_whole_split_each_time(make_task):
    task = make_task(60)
    for _ in range(2):
        questions = load_questions(task, "validation", limit=12)
        of_head = read_questions(task, "validation", limit=12)
        texts = [row.inputs for row in questions.rows]
        assert [each.values["inputs"] for each in of_head] == texts
        numbers = [int(text.split()[1]) for text in texts]
        assert numbers == [3, 12, 15, 25, 32, 35, 40, 43, 46, 48, 52, 56]
        assert [row.number for row in questions.rows] == [each.number for each in of_head] == numbers


def test_questions_come_in_the_files_order_and_end_as_in_training(make_task):
    questions = load_questions(make_task(3), "validation")
    assert [row.targets for row in questions.rows] == ["no", "yes", "maybe"]
    assert questions.labels == ("no", "yes", "maybe")
    tokenizer = open_tokenizer("bytes", 100)
    for config, begin in ((T5, []), (GPT2, [0])):
        model = TextModel.as_trained(config, MeshConfig().build(), tokenizer)
        prompter = Prompter(task="x", style=PromptStyle())
        prompts = [prompter.prompt(index, text) for index, text in enumerate(("hello", "x" * 50))]
        short, long = model.encode_prompts(prompter, prompts, length=32 + len(begin))
        assert short.ids.tolist() == [*begin, *tokenizer.encode("hello"), 1]
        assert long.ids.tolist() == [*begin, *[ord("x") + 3] * 31, 1]
        assert (short.cut, long.cut) == (0, 19)
        (request,) = model.requests([short], ["yes"], length=8)
        assert request.target == [124, 104, 118, 1]


def test_a_prompt_that_is_read_in_order_begins_as_its_training_rows_do(make_task):
    task = make_task(3)
    settings = LoaderConfig(
        mixture=task.name,
        batch_size=1,
        inputs_length=32,
        targets_length=40,
        pack=False,
        shuffle=False,
        layout="decoder",
        prefix_attention="causal",
    )
    row = next(iter(build_loader(settings))).decoder_input_tokens[0].tolist()
    ids = task.tokenizer.encode(load_questions(task, "train").rows[0].inputs)
    model = TextModel.as_trained(GPT2, MeshConfig().build(), task.tokenizer, prefix_attention="causal")
    assert row[: len(ids) + 1] == model.prompt_encoder.with_special_ids(ids) == [*ids, 1]


def test_beams_of_each_prompt_end_at_its_own_last_position() -> None:
    config = replace(GPT2, max_position_embeddings=8)
    tokenizer = open_tokenizer("bytes", 0)
    model = replace(TextModel.as_trained(config, MeshConfig().build(), tokenizer), end_ids=(1,))
    params = weights(config)
    prompts = [[70, 71, 72, 73, 74, 75], [70, 71], [80, 81, 82]]
    settings: dict[str, Any] = {
        "config": GenerationConfig(max_new_tokens=6, num_beams=2),
        "batch_size": 8,
        "limit": 8,
    }
    together = dict(model.generate(params, prompts, **settings))
    assert together == {
        index: dict(model.generate(params, [prompt], **settings))[0] for index, prompt in enumerate(prompts)
    }


def test_predictions_are_scored_next_to_the_most_frequent_training_answer(make_task):
    questions = load_questions(make_task(4), "validation")
    answers = ["no", "yes", "maybe", "other"]
    scores = {
        name: value
        for metric in questions.metrics
        for name, value in metric(questions.targets, answers).items()
    }
    assert scores["accuracy"] == 75.0
    assert questions.baseline["accuracy"] == 50.0  # rows 0 and 3 of 0, 1, 2, 0


@pytest.mark.parametrize(
    ("config", "method"),
    [
        (T5, "generate"),
        (GPT2, "rank"),
        pytest.param(GPT2, "generate", marks=pytest.mark.slow),
        pytest.param(T5, "rank", marks=pytest.mark.slow),
    ],
)
def test_every_row_is_answered_in_order_and_scores_are_written(
    make_task, tmp_path, monkeypatch, capsys, config, method
):
    monkeypatch.setattr(task_evaluators, "Progress", functools.partial(Progress, seconds_between_lines=0.0))
    task = make_task(11).name
    evaluator = evaluation_of(task, method=method).evaluator(
        registry.resolve(task), config, MeshConfig().build()
    )
    params = weights(config)
    results = evaluator.run(params)
    progress = capsys.readouterr().err.splitlines()
    assert progress[-1].startswith(f"evaluating {task}: 11 questions of 11 questions (100%)")
    assert len(progress) > 1
    write_results(results, str(tmp_path), checkpoint="run", step=3, config=config, params=params)
    rows = list(read_jsonl(tmp_path / task / "predictions.jsonl"))
    assert [row["number"] for row in rows] == list(range(11))
    assert [row["target"] for row in rows] == [("no", "yes", "maybe")[index % 3] for index in range(11)]
    scores = read_scores(tmp_path)
    entry = scores["tasks"][task]
    assert (scores["checkpoint"], scores["step"], scores["model"]) == ("run", 3, type(config).__name__[:-6])
    assert (entry["split"], entry["method"], entry["examples"]) == ("validation", method, 11)
    assert entry["scores"] == results[task].scores
    assert entry["baseline"]["accuracy"] == pytest.approx(400 / 11)
    if method == "rank":
        assert entry["invalid"] == 0
        assert all(row["prediction"] == max(row["choices"], key=row["choices"].get) for row in rows)


def test_ranking_needs_the_answers(make_task, tmp_path):
    (tmp_path / "open.tsv").write_text("text\tanswer\na\tb\n")
    task = TextTask(
        name="open_answers",
        vocabulary="bytes",
        files={"validation": str(tmp_path / "open.tsv")},
        input_template="{text}",
        target_template="{answer}",
    )
    registry.register([task])
    with pytest.raises(
        ValueError, match="'open_answers' does not say which answers there are; give it labels"
    ):
        evaluation_of("open_answers", method="rank").evaluator(
            registry.resolve("open_answers"), T5, MeshConfig().build()
        )


@pytest.mark.seqio
def test_users_own_postprocessing_and_metrics_over_likelihoods_are_used():
    import seqio
    import tensorflow as tf

    from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary

    def rows(split, shuffle_files, seed=None):
        return tf.data.Dataset.from_tensor_slices(
            {"inputs": ["q1", "q2"], "targets": ["a", "b"], "answers": [["a", "A"], ["b", "B"]]}
        )

    def answers(text, *, example=None, is_target=False, **_):
        return [answer.decode() for answer in example["answers"]] if is_target else text.strip()

    def any_right(targets, predictions):
        return {"any": np.mean([guess in right for guess, right in zip(predictions, targets, strict=True)])}

    def mean_likelihood(targets, scores):
        return {"likelihood": np.mean(scores)}

    feature = seqio.Feature(load_vocabulary("bytes"), add_eos=True)
    seqio.TaskRegistry.add(
        "answers_of_user",
        seqio.FunctionDataSource(rows, ["train"]),
        output_features={"inputs": feature, "targets": feature},
        preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos_after_trim],
        postprocess_fn=answers,
        metric_fns=[any_right, mean_likelihood],
    )
    lengths = {"limit": None, "inputs_length": 32, "targets_length": 8}
    questions, codec = load_seqio_questions("answers_of_user", "train", **lengths)
    predictions = [
        questions.postprocess_answer(*pair) for pair in zip(questions.rows, [" A", "c"], strict=True)
    ]
    assert questions.metrics[0](questions.targets, predictions) == {"any": 0.5}
    assert questions.baseline == {"any": 0.5}
    assert questions.labels == ()
    assert [row.inputs for row in questions.rows] == ["q1", "q2"]
    assert questions.rows[1].input_ids.tolist() == [*codec.encode_all(["q2"])[0], 1]
    result = (
        evaluation_of("answers_of_user", split="train")
        .evaluator(registry.resolve("answers_of_user"), T5, MeshConfig().build())
        .run(weights(T5))
    )
    rows = result["answers_of_user"].rows
    assert result["answers_of_user"].scores["likelihood"] == pytest.approx(
        np.mean([row["log_likelihood"] for row in rows])
    )
    assert all(math.isfinite(row["log_likelihood"]) for row in rows)


def test_what_has_no_answers_is_refused(make_task, tmp_path):
    (tmp_path / "corpus.txt").write_text("a text\n")
    files = {"train": str(tmp_path / "corpus.txt")}
    talks = tmp_path / "talks.jsonl"
    talks.write_text('{"messages": []}\n')
    registry.register(
        [
            PretrainingTask(name="evaluated_corpus", vocabulary="bytes", files=files),
            ChatTask(name="evaluated_talks", vocabulary="bytes", files={"train": str(talks)}),
        ]
    )
    mesh = MeshConfig().build()
    for task, split, message in (
        ("evaluated_corpus", "train", "is a pretraining task: measure its loss"),
        ("evaluated_talks", "train", "is a task of conversations: measure its loss"),
        (make_task().name, "test", "has no split 'test'; there are train, validation"),
        ("no_such", "test", "no task or mixture 'no_such'"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluation_of(task, split=split).evaluator(registry.resolve(task), T5, mesh)


def test_whole_texts_are_not_scored_on_the_way() -> None:
    tasks = {"blimp": catalogue.benchmark_task("blimp", vocabulary="bytes")}
    evaluation = TaskEvaluation(mixture="blimp", inputs_length=16, targets_length=8)
    wanted = "task 'blimp' scores whole texts, which evaluations of a run don't; .*--every_checkpoint"
    with pytest.raises(ValueError, match=wanted):
        evaluation.evaluator(TaskSet(name="blimp", tasks=tasks), GPT2, MeshConfig().build())


def test_a_head_for_one_class_answers_no_task_with_any_number_of_them(make_task):
    head = MultiLabelClassification(texts=("{text}",), classes=("no", "yes", "maybe"))
    task = replace(
        make_task(), name=f"evaluated_rows_{next(_numbers)}", label_words={}, metrics=(), head=head
    )
    registry.register([task])
    config = BertConfig(**SIZES, num_layers=1, task="sequence_classification", num_labels=3)
    message = (
        f"task '{task.name}' predicts any number of classes for each row .*, and the model's head one class for each "
        "row; take another model"
    )
    evaluation = HeadEvaluation(mixture=task.name, inputs_length=32, batch_size=8)
    with pytest.raises(ValueError, match=message):
        evaluation.evaluator(registry.resolve(evaluation.mixture), config, MeshConfig().build())
    fitting = replace(config, problem_type="multi_label")
    assert (
        evaluation.evaluator(registry.resolve(task.name), fitting, MeshConfig().build())
        .run(weights(fitting))[task.name]
        .entry["scores"]
    )
