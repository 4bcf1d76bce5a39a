"""Missing files are reported for all tasks before anything is written, or their tasks are left out on request."""

from dataclasses import replace
from pathlib import Path

import pytest

from t5x_like.evaluation.evaluated_tasks import find_task, training_task_of
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.reports.score_tables import scores_table
from t5x_like.text import registry
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.suites import SUITES
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.tasks.text_task import TextTask
from tests.evaluation.suite.test_head_suites import write_bert

COLA, RTE, STSB = "glue_cola_v002", "glue_rte_v002", "glue_stsb_v002"


def run_of(checkpoint, data, tmp_path, *tasks, **settings):
    settings = {"batch_size": 8, "inputs_length": 32, "resamples": 0, "limit": 8} | settings
    return SuiteEvaluation(
        checkpoint=checkpoint, tasks=tasks, output_dir=str(tmp_path / "out"), data_dir=data, **settings
    )


def add_stsb(data):
    """STS-B's validation split."""
    folder = Path(data) / "glue/STS-B"
    folder.mkdir()
    header = "index genre filename year old_index source1 source2 sentence1 sentence2 score"
    rows = [f"{n}\tg\tf\ty\t{n}\tnone\tnone\tIt is {n}.\tIt is here.\t{n % 5}.0" for n in range(8)]
    (folder / "dev.tsv").write_text("\n".join([header.replace(" ", "\t"), *rows]) + "\n")


def test_all_files_that_are_missing_are_reported_at_once_and_nothing_is_written(t5, data, tmp_path):
    run = run_of(t5, data, tmp_path, *SUITES["glue"].tasks)
    with pytest.raises(ValueError, match="8 of 10 tasks are not below") as error:
        evaluate_suite(run, shown=False)
    message = str(error.value)
    assert "  glue_qqp_v002              no glue/QQP/dev.tsv\n" in message
    assert "no glue/MRPC/dev.tsv or glue/MRPC/dev_ids.tsv" in message
    assert "t5x-like data fetch glue_sst2_v002 glue_mrpc_v002" in message
    assert message.endswith("skip_missing=True continues with the others: glue_cola_v002, glue_rte_v002")
    assert not (tmp_path / "out").exists()


def test_available_tasks_are_evaluated_if_requested_without_an_average(t5, data, tmp_path):
    scores = evaluate_suite(run_of(t5, data, tmp_path, *SUITES["glue"].tasks, skip_missing=True), shown=False)
    assert list(scores["tasks"]) == [COLA, RTE]
    assert scores["left_out"]["glue_qqp_v002"] == "no glue/QQP/dev.tsv"
    assert len(scores["left_out"]) == 8
    assert scores["averages"]["glue"]["score"] is None
    assert "glue_qqp_v002/accuracy" in scores["averages"]["glue"]["missing"]
    assert read_json(tmp_path / "out/scores.json") == scores


def test_what_was_left_out_is_added_once_it_is_there(t5, data, tmp_path):
    run = run_of(t5, data, tmp_path, COLA, STSB, skip_missing=True)
    assert list(evaluate_suite(run, shown=False)["left_out"]) == [STSB]
    add_stsb(data)
    scores = evaluate_suite(run, shown=False)
    assert list(scores["tasks"]) == [COLA, STSB]
    assert scores["left_out"] == {}


@pytest.mark.slow
def test_examples_to_show_are_files_that_are_needed(t5, data, tmp_path):
    add_stsb(data)
    with pytest.raises(ValueError, match=r"  glue_stsb_v002  no glue/STS-B/train\.tsv"):
        evaluate_suite(run_of(t5, data, tmp_path, COLA, STSB, num_shots=1), shown=False)
    assert evaluate_suite(run_of(t5, data, tmp_path, COLA, STSB), shown=False)["left_out"] == {}


def test_a_users_own_files_that_are_missing_are_reported_among_others(t5, data, tmp_path):
    files = {"validation": str(tmp_path / "mine.tsv")}
    task = TextTask(
        name="mine_that_is_missing",
        vocabulary=f"{t5}/spiece.model",
        files=files,
        input_template="{a}",
        target_template="{b}",
    )
    registry.register([task])
    with pytest.raises(ValueError, match=r"  mine_that_is_missing  '.*mine\.tsv' does not exist"):
        evaluate_suite(run_of(t5, data, tmp_path, COLA, "mine_that_is_missing"), shown=False)
    with pytest.raises(ValueError, match=r"^'.*mine\.tsv' does not exist"):
        evaluate_suite(run_of(t5, data, tmp_path, "mine_that_is_missing"), shown=False)


def test_tasks_without_the_split_are_reported(t5, data, tmp_path):
    mnli = "glue_mnli_matched_v002"
    with pytest.raises(ValueError, match=f"  {mnli}  no split 'train'; there are validation, test"):
        evaluate_suite(run_of(t5, data, tmp_path, COLA, mnli, split="train"), shown=False)
    with pytest.raises(ValueError, match=r"has no split 'dev'; .* the other tasks lack it"):
        evaluate_suite(run_of(t5, data, tmp_path, COLA, RTE, split="dev", skip_missing=True), shown=False)


def test_a_head_for_some_of_the_tasks_gets_a_list_of_those_that_fit(data, tmp_path):
    add_stsb(data)
    bert = write_bert(tmp_path / "bert", "sequence_classification")
    message = r"\(heads: sequence_classification \(2\)\) can't answer 1 of 3 tasks"
    with pytest.raises(ValueError, match=message) as error:
        evaluate_suite(run_of(bert, data, tmp_path, COLA, STSB, RTE), shown=False)
    assert "  glue_stsb_v002  needs a head for sequence classification with 1 score\n" in str(error.value)
    assert str(error.value).endswith("continues with the others: glue_cola_v002, glue_rte_v002")
    assert not (tmp_path / "out").exists()
    scores = evaluate_suite(run_of(bert, data, tmp_path, COLA, STSB, RTE, skip_missing=True), shown=False)
    assert list(scores["tasks"]) == [COLA, RTE]
    assert scores["left_out"] == {STSB: "needs a head for sequence classification with 1 score"}


def test_what_cannot_be_ranked_is_reported_among_others(gpt2, data, tmp_path):
    add_stsb(data)
    run = run_of(gpt2, data, tmp_path, COLA, STSB, method="rank", skip_missing=True)
    scores = evaluate_suite(run, shown=False)
    assert scores["left_out"] == {STSB: "has open answers, there is nothing to rank"}


@pytest.mark.parametrize("kind", ["words", "head"])
def test_bad_rows_stop_an_evaluation_or_are_counted(t5, data, tmp_path, kind):
    dev = Path(data) / "glue/RTE/dev.tsv"
    dev.write_text(dev.read_text().replace("\n3\tSentence", "\n3\tToo\tmany\tSentence"))
    model = t5 if kind == "words" else write_bert(tmp_path / "bert", "sequence_classification")
    with pytest.raises(ValueError, match=r"dev\.tsv:5: .*on_bad_row='skip'"):
        evaluate_suite(run_of(model, data, tmp_path, RTE), shown=False)
    assert not (tmp_path / "out").exists()
    entry = evaluate_suite(run_of(model, data, tmp_path, RTE, on_bad_row="skip"), shown=False)["tasks"][RTE]
    assert entry["skipped"] == 1
    assert "dev.tsv:5" in entry["first_skipped"][0]
    rows = list(read_jsonl(tmp_path / "out" / RTE / "predictions.jsonl"))
    numbers = [row["idx"] for row in rows]
    assert len(numbers) == 8
    assert numbers == sorted({*numbers} - {3})


@pytest.mark.parametrize(
    "name", [name for name, each in catalogue.benchmarks().items() if each.training_task]
)
def test_parts_of_benchmarks_are_shown_examples_that_are_worded_alike(name):
    part = find_task(name, vocabulary="bytes")
    whole = training_task_of(part)
    assert "train" not in part.splits
    assert "train" in whole.splits
    first, other = (
        catalogue.benchmark(task.name).examples[0].formatted[0]["inputs"] for task in (part, whole)
    )
    assert first.split()[:2] == other.split()[:2]
    assert training_task_of(whole) == whole


def test_missing_files_are_fetched_into_the_folder_that_was_given(t5, data, tmp_path):
    with pytest.raises(ValueError, match=f"t5x-like data fetch {STSB} --data_dir {data}\n"):
        evaluate_suite(run_of(t5, data, tmp_path, COLA, STSB), shown=False)


def test_a_mixture_is_refused_with_its_tasks_listed():
    with pytest.raises(
        ValueError, match=r"is a mixture; name those of its tasks .*: glue_cola_v002, glue_sst2"
    ):
        find_task("glue_v002_proportional")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_new_tokens": 500}, "leaves no room for a question"),
        ({"step": 4}, "is no run of ours and has no steps"),
    ],
)
def test_settings_that_cannot_be_are_reported_before_anything_is_written(
    gpt2, data, tmp_path, settings, message
):
    with pytest.raises(ValueError, match=message):
        evaluate_suite(run_of(gpt2, data, tmp_path, RTE, **settings), shown=False)
    assert not (tmp_path / "out").exists()


def test_fewer_rows_than_published_are_reported_unless_a_limit_is_given(t5, data, tmp_path):
    for limit, published in ((None, 1_043), (8, None)):
        run = run_of(t5, data, tmp_path / str(limit), COLA, limit=limit)
        scores = evaluate_suite(run, shown=False)
        assert scores["tasks"][COLA].get("published") == published
        assert (f"{COLA}: its files have 20 rows, of 1,043 published" in scores_table(scores)) == (
            limit is None
        )
    assert find_task("super_glue_record_v102").published_rows("train") is None  # wording multiplies its rows


def test_a_users_own_benchmark_is_evaluated_from_the_folder_that_is_given(t5, data, tmp_path):
    own = replace(catalogue.benchmark(RTE), name="my_rte")
    task = BenchmarkTask(name="my_rte", benchmark=own, vocabulary="bytes", data_dir="nowhere")
    registry.register([task])
    scores = evaluate_suite(run_of(t5, data, tmp_path, "my_rte"), shown=False)
    assert scores["tasks"]["my_rte"]["examples"] == 8
