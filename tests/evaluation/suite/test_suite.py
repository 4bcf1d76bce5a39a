import json

import jax
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.evaluation.text_model import TextModel
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained

COLA = ("glue_cola_v002",)


def run_of(checkpoint, data, output, **settings):
    settings = {"tasks": COLA, "batch_size": 8, "inputs_length": 64, "resamples": 20} | settings
    return SuiteEvaluation(checkpoint=checkpoint, data_dir=data, output_dir=str(output), **settings)


def predictions(output, task="glue_cola_v002"):
    return list(read_jsonl(output / task / "predictions.jsonl"))


def test_written_answers_are_scored_and_what_is_no_answer_counts_as_wrong(t5, data, tmp_path):
    scores = evaluate_suite(run_of(t5, data, tmp_path / "out"), shown=False)
    entry = scores["tasks"]["glue_cola_v002"]
    assert entry["method"] == "generate"
    assert entry["examples"] == entry["invalid"] == 20  # drawn weights write no label
    assert entry["scores"] == {"matthews_corrcoef": 0.0}
    assert entry["labels"] == ["unacceptable", "acceptable"]
    assert scores["averages"]["glue"]["score"] is None
    assert "glue_rte_v002/accuracy" in scores["averages"]["glue"]["missing"]
    assert read_json(tmp_path / "out/scores.json") == scores
    rows = predictions(tmp_path / "out")
    assert [row["number"] for row in rows] == [row["idx"] for row in rows] == list(range(20))
    assert rows[3]["input"] == "cola sentence: Sentence number 7 is here again again."
    assert {row["answer"] for row in rows} == {-1}
    assert all(row["log_likelihood"] < 0 for row in rows)


def test_a_ranked_label_is_the_likeliest_and_likelihoods_are_the_models(t5, gpt2, data, tmp_path):
    for name, checkpoint in (("t5", t5), ("gpt2", gpt2)):
        run = run_of(checkpoint, data, tmp_path / name, method="rank", limit=8)
        entry = evaluate_suite(run, shown=False)["tasks"]["glue_cola_v002"]
        assert entry["invalid"] == 0
        model = from_pretrained(checkpoint)
        for row in predictions(tmp_path / name)[:2]:
            assert row["prediction"] == max(row["choices"], key=row["choices"].get)
            for label, likelihood in row["choices"].items():
                assert likelihood == pytest.approx(likelihood_of(model, name, row["input"], label), abs=1e-3)


def likelihood_of(model, name, question, label):
    """By calling the model as transformers' are called."""
    encode = model.vocabulary.encode
    if name == "t5":
        labels = np.array([[*encode(label), 1]])
        return -float(model(input_ids=[[*encode(question), 1]], labels=labels).loss) * labels.size
    prompt = encode(f"{question}\nanswer:")
    whole = encode(f"{question}\nanswer: {label}")
    ids = np.array([whole])
    labels = np.where(np.arange(len(whole)) < len(prompt), -100, ids)
    return -float(model(input_ids=ids, labels=labels).loss) * (len(whole) - len(prompt))


def test_a_decoder_continues_inputs_that_are_made_for_it(gpt2, tmp_path):
    folder = tmp_path / "data/xsum"
    folder.mkdir(parents=True)
    (folder / "val.jsonl").write_text('{"document": "A ferry sank.", "summary": "It sank."}\n')
    run = run_of(gpt2, str(tmp_path / "data"), tmp_path / "out", tasks=("xsum_tldr",), max_new_tokens=4)
    evaluate_suite(run, shown=False)
    (row,) = predictions(tmp_path / "out", "xsum_tldr")
    assert row["input"] == "A ferry sank.\nTL;DR:"
    model = from_pretrained(gpt2)
    assert model.vocabulary is not None
    prompt, whole = (model.vocabulary.encode(f"{row['input']}{answer}") for answer in ("", " It sank."))
    labels = np.where(np.arange(len(whole)) < len(prompt), -100, np.array([whole]))
    likelihood = -float(model(input_ids=np.array([whole]), labels=labels).loss) * (len(whole) - len(prompt))
    assert row["log_likelihood"] == pytest.approx(likelihood, abs=1e-3)


def test_lengths_of_answers_can_be_divided_out(gpt2, data, tmp_path):
    rows = {}
    for normalization in ("none", "tokens", "bytes"):
        run = run_of(gpt2, data, tmp_path / normalization, normalization=normalization, limit=8)
        evaluate_suite(run, shown=False)
        rows[normalization] = predictions(tmp_path / normalization)
    for plain, by_bytes in zip(rows["none"], rows["bytes"], strict=True):
        scores = {label: value / len(label) for label, value in by_bytes["choices"].items()}
        assert by_bytes["prediction"] == max(scores, key=scores.get)
        assert plain["choices"] == pytest.approx(by_bytes["choices"])


def test_a_decoder_is_shown_examples_as_far_as_there_is_room(gpt2, data, tmp_path):
    run = run_of(gpt2, data, tmp_path / "out", num_shots=3, limit=8)
    entry = evaluate_suite(run, shown=False)["tasks"]["glue_cola_v002"]
    assert entry["dropped_examples"] > 0
    assert entry["cut_inputs"] == 0
    short = run_of(gpt2, data, tmp_path / "short", inputs_length=8, limit=8, method="generate")
    assert evaluate_suite(short, shown=False)["tasks"]["glue_cola_v002"]["cut_inputs"] == 8
    assert all(row["cut"] > 0 for row in predictions(tmp_path / "short"))


class KilledError(Exception):
    """Simulates a kill."""


def test_a_killed_evaluation_continues_and_ends_as_if_never_killed(t5, data, tmp_path, monkeypatch):
    evaluate_suite(run_of(t5, data, tmp_path / "whole"), shown=False)
    calls = []
    generate = TextModel.generate

    def until_the_second_batch(self, params, prompts, config, **settings):
        calls.append(len(prompts))
        for index, written in enumerate(generate(self, params, prompts, config, **settings)):
            if index == 12 and len(calls) == 1:
                raise KilledError
            yield written

    monkeypatch.setattr(TextModel, "generate", until_the_second_batch)
    with pytest.raises(KilledError):
        evaluate_suite(run_of(t5, data, tmp_path / "cut"), shown=False)
    path = tmp_path / "cut/glue_cola_v002/predictions.jsonl"
    assert path.read_text().count("\n") == 8
    with path.open("a") as file:
        file.write('{"task": "glue_cola_v002", "numb')  # a line that was cut short
    assert evaluate_suite(run_of(t5, data, tmp_path / "cut"), shown=False)
    assert calls == [20, 12]
    whole = (tmp_path / "whole/glue_cola_v002/predictions.jsonl").read_bytes()
    assert path.read_bytes() == whole
    scores = [read_json(tmp_path / name / "scores.json")["tasks"] for name in ("cut", "whole")]
    for each in scores:
        each["glue_cola_v002"].pop("seconds")
    assert scores[0] == scores[1]


def test_a_first_line_that_was_cut_short_is_no_answer(gpt2, data, tmp_path):
    run = run_of(gpt2, data, tmp_path / "out", limit=8, method="rank")
    evaluate_suite(run, shown=False)
    path = tmp_path / "out/glue_cola_v002/predictions.jsonl"
    whole = path.read_bytes()
    for left in (b'{"task": "glue_co', b'{"input": "na\xc3'):
        path.write_bytes(left)
        evaluate_suite(run, shown=False)
        assert path.read_bytes() == whole


def test_answers_are_read_again_with_any_line_ends_in_their_texts(t5, data, tmp_path):
    dev = tmp_path / "data/glue/CoLA/dev.tsv"
    dev.write_text(dev.read_text().replace("number 5", "number\u2028five\x85"))
    first = evaluate_suite(run_of(t5, data, tmp_path / "out"), shown=False)
    again = evaluate_suite(run_of(t5, data, tmp_path / "out"), shown=False)
    assert (
        predictions(tmp_path / "out")[1]["input"] == "cola sentence: Sentence number\u2028five\x85 is here."
    )
    assert first["tasks"]["glue_cola_v002"]["scores"] == again["tasks"]["glue_cola_v002"]["scores"]


def test_likelihoods_that_are_no_numbers_rank_nothing(gpt2, data, tmp_path, monkeypatch):
    score = TextModel.score
    lost = iter([np.nan, np.nan, 1.0, np.nan])  # both labels of the first batch, then one of the second

    def sometimes(self, params, requests, **settings):
        scores = score(self, params, requests, **settings)
        return scores._replace(log_likelihoods=scores.log_likelihoods * next(lost))

    monkeypatch.setattr(TextModel, "score", sometimes)
    run = run_of(gpt2, data, tmp_path / "out", method="rank", limit=16)
    assert evaluate_suite(run, shown=False)["tasks"]["glue_cola_v002"]["invalid"] == 8
    scores = [row["prediction"] for row in predictions(tmp_path / "out")]
    assert sorted(set(scores)) == ["", "unacceptable"]
    assert scores.count("") == 8


class OneDevice(MeshConfig):
    """The first device alone."""

    def build(self, devices=None):
        return super().build((devices or jax.devices())[:1])


@pytest.mark.parametrize(
    ("model", "method"),
    [
        pytest.param("t5", "generate", marks=pytest.mark.slow),
        ("gpt2", "rank"),
        pytest.param("gpt2", "generate", marks=pytest.mark.slow),
    ],
)
def test_a_mesh_of_devices_gives_the_answers_of_one(request, data, tmp_path, model, method):
    checkpoint = request.getfixturevalue(model)
    for name, mesh in (("one", OneDevice()), ("all", MeshConfig())):
        run = run_of(checkpoint, data, tmp_path / name, method=method, mesh=mesh, max_new_tokens=4)
        evaluate_suite(run, shown=False)
    rows = [predictions(tmp_path / name) for name in ("one", "all")]
    assert [row["prediction"] for row in rows[0]] == [row["prediction"] for row in rows[1]]
    likelihoods = [[row["log_likelihood"] for row in each] for each in rows]
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-3)


def test_weights_that_are_no_numbers_are_reported_before_anything_is_written(t5, data, tmp_path):
    opened = open_checkpoint(t5)
    config, params = opened.config, opened.params
    params["embedding"] = jax.tree.map(lambda leaf: leaf.at[0].set(np.nan), params["embedding"])
    with Checkpoints(tmp_path / "run") as checkpoints:
        checkpoints.save(3, {"params": params})
    write_model_config(tmp_path / "run", config)
    run = run_of(str(tmp_path / "run"), data, tmp_path / "out", vocabulary=f"{t5}/spiece.model")
    with pytest.raises(ValueError, match=r"run, step 3: weights are NaN or infinite \(embedding"):
        evaluate_suite(run, shown=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ("glue_rte_v002",)}, r'task_names \["glue_cola_v002"\], now \["glue_rte_v002"\]'),
        ({"num_beams": 2}, "num_beams 1, now 2"),
        ({"split": "train"}, 'split "validation", now "train"'),
    ],
)
def test_results_of_another_evaluation_are_not_overwritten(t5, data, tmp_path, change, message):
    evaluate_suite(run_of(t5, data, tmp_path / "out", limit=8), shown=False)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=message) as error:
        evaluate_suite(run_of(t5, data, tmp_path / "out", limit=8, **change), shown=False)
    assert "nothing was overwritten" in str(error.value)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_another_checkpoint_is_another_evaluation(t5, gpt2, data, tmp_path):
    evaluate_suite(run_of(t5, data, tmp_path / "out", limit=8), shown=False)
    with pytest.raises(ValueError, match="holds the results of another evaluation"):
        evaluate_suite(run_of(gpt2, data, tmp_path / "out", limit=8), shown=False)


def test_files_of_others_are_not_overwritten(t5, data, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/scores.json").write_text("{}")
    with pytest.raises(ValueError, match=r"holds scores\.json of an evaluation that this one can't continue"):
        evaluate_suite(run_of(t5, data, tmp_path / "out"), shown=False)


def test_a_split_without_labels_has_predictions_and_no_scores(t5, data, tmp_path):
    scores = evaluate_suite(run_of(t5, data, tmp_path / "out", split="test", method="rank"), shown=False)
    entry = scores["tasks"]["glue_cola_v002"]
    assert entry["scores"] == {}
    assert entry["withheld"] == "none of the 24 rows of split 'test' has a label"
    assert scores["averages"] == {}
    rows = predictions(tmp_path / "out")
    assert len(rows) == 24
    assert all(row["target"] is None and row["log_likelihood"] is None for row in rows)
    assert {row["answer"] for row in rows} <= {0, 1}


def test_other_data_under_the_same_name_are_noticed(t5, data, tmp_path):
    evaluate_suite(run_of(t5, data, tmp_path / "out"), shown=False)
    dev = tmp_path / "data/glue/CoLA/dev.tsv"
    dev.write_text(dev.read_text().replace("number 5", "number five"))
    with pytest.raises(ValueError, match="answer to question 1, which is another one now"):
        evaluate_suite(run_of(t5, data, tmp_path / "out"), shown=False)


def test_a_run_of_ours_is_evaluated_at_its_newest_step(t5, data, tmp_path):
    opened = open_checkpoint(t5)
    config, params = opened.config, opened.params
    with Checkpoints(tmp_path / "run") as checkpoints:
        for step in (3, 7):
            checkpoints.save(step, {"params": params})
    write_model_config(tmp_path / "run", config)
    with pytest.raises(ValueError, match="no vocabulary next to its weights"):
        evaluate_suite(run_of(str(tmp_path / "run"), data, tmp_path / "out"), shown=False)
    run = run_of(str(tmp_path / "run"), data, tmp_path / "out", vocabulary=f"{t5}/spiece.model", limit=8)
    assert evaluate_suite(run, shown=False)["step"] == 7
    with pytest.raises(ValueError, match=r"has no finished step 5, only \[3, 7\]"):
        evaluate_suite(run_of(str(tmp_path / "run"), data, tmp_path / "out", step=5), shown=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ()}, "no tasks to evaluate"),
        ({"tasks": ("glue_cola_v02",)}, "no benchmark 'glue_cola_v02'; did you mean 'glue_cola_v002'"),
        ({"tasks": ("glue_stsb_v002",)}, "STS-B"),  # its files are not there
        ({"split": "dev"}, "no split 'dev'; there are train, validation, test"),
        ({"batch_size": 3}, "3 rows can't be shared out evenly"),
        ({"method": "guess"}, "method needs 'generate', 'rank', 'head', .*, got 'guess'"),
        ({"num_beams": 0}, "num_beams is 0; give at least 1"),
        ({"num_shots": -1}, "num_shots is -1; give 0 or more"),
        ({"on_bad_row": "error"}, "on_bad_row needs 'fail' or 'skip' or None, got 'error'"),
        ({"num_shots": 99}, "99 examples are to be shown, its training split has 24"),
    ],
)
def test_mistakes_are_reported(t5, data, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        evaluate_suite(run_of(t5, data, tmp_path / "out", **settings), shown=False)
    assert not (tmp_path / "out").exists()


def test_no_more_is_read_than_the_model_can(gpt2, data, tmp_path):
    with pytest.raises(ValueError, match=r"inputs_length is 500, .* can read 128 tokens"):
        evaluate_suite(run_of(gpt2, data, tmp_path / "out", inputs_length=500), shown=False)


def test_predictions_are_json_that_others_read(t5, data, tmp_path):
    evaluate_suite(run_of(t5, data, tmp_path / "out", limit=8), shown=False)
    text = (tmp_path / "out/glue_cola_v002/predictions.jsonl").read_text()
    json.loads(text.splitlines()[0], parse_constant=lambda name: pytest.fail(name))
