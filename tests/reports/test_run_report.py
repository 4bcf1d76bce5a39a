"""The page says what the files say, also when that is bad news, and needs nothing from outside."""

import re
from html.parser import HTMLParser

import pytest

from t5x_like.evaluation.class_scores import class_scores
from t5x_like.io.files import read_json, write_json, write_jsonl
from t5x_like.reports.machine import describe_machine
from t5x_like.reports.reward_curve import read_rewards
from t5x_like.reports.run_report import ReportedRun, RunReport


@pytest.fixture
def story(tmp_path):
    """A run and an evaluation, and a function that writes their report and returns its text."""
    write_jsonl(
        tmp_path / "run/metrics.jsonl",
        [
            {
                "step": 1,
                "split": "train",
                "cross_entropy": 4.0,
                "tokens_per_second": 1234.0,
                "compile_seconds": 7.0,
            },
            {"step": 2, "split": "train", "cross_entropy": 3.0, "tokens_per_second": 1236.0},
            {"step": 2, "split": "validation/psalms", "cross_entropy": 3.25},
        ],
    )
    entry = {"baseline": {}, "baseline_name": "majority", "examples": 3}
    scores = {
        "good_task": entry | {"scores": {"accuracy": 84.0}, "baseline": {"accuracy": 16.7}},
        "bad_task": entry
        | {"scores": {"phoneme_error_rate": 95.0}, "baseline": {"phoneme_error_rate": 91.7}, "examples": 1},
        "bare_task": entry | {"scores": {"bleu": 12.5}, "examples": 2000},
    }
    write_json(
        tmp_path / "evaluation/scores.json", {"tasks": scores, "settings": {}, "averages": {}, "left_out": {}}
    )
    write_jsonl(tmp_path / "evaluation/bare_task/predictions.jsonl", [])
    write_jsonl(
        tmp_path / "evaluation/good_task/predictions.jsonl",
        [
            {
                "task": "good_task",
                "input": "<script>alert(1)</script> & co",
                "target": "a",
                "prediction": "a",
            },
            {"task": "good_task", "input": "two", "target": "a", "prediction": "<b>"},
            {"task": "good_task", "input": "three", "target": "a", "prediction": ""},
        ],
    )
    write_jsonl(
        tmp_path / "evaluation/bad_task/predictions.jsonl",
        [{"task": "bad_task", "input": "four", "target": "a", "prediction": "a"}],
    )

    def write(**changed):
        run = ReportedRun(
            title="Pretraining",
            directory=tmp_path / "run",
            unigram_entropy=6.0,
            facts={"parameters": 1234567},
        )
        arguments = {
            "title": "A story",
            "introduction": "What happened.",
            "runs": (run,),
            "evaluation": tmp_path / "evaluation",
        }
        RunReport(output=tmp_path / "report.html", **(arguments | changed)).write()
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    return write


class Balance(HTMLParser):
    """Collects tags that were opened and never closed, and everything that would be fetched."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        self.fetched += [
            v for k, v in attributes if k in ("src", "href", "xlink:href") and not v.startswith("#")
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(story):
    html = story(next_steps=[("Go on.", "t5x-like train")])
    parser = Balance()
    parser.feed(html)
    assert (parser.open, parser.fetched) == ([], [])
    assert "@import" not in html
    assert "url(http" not in html


def test_the_page_shows_losses_scores_facts_and_next_steps(story):
    html = story(
        references={"good_task": {"bag of words": {"accuracy": 92.4}}},
        next_steps=[("Go on.", "t5x-like train --x")],
    )
    text = re.sub(r"<[^>]+>", " ", html)
    for expected in (
        "3.25",
        "unigram entropy 6.00",
        "1,234,567",
        "1,235",
        "84.0",
        "16.7",
        "majority",
        "92.4",
        "bag of words",
        "2,000",
        "12.5",
        "t5x-like train --x",
    ):
        assert expected in text, expected


def test_a_score_no_better_than_its_baseline_says_so(story):
    html = story()
    assert html.count("no better than the baseline") == 1
    assert '<span class="value bad">95.0</span>' in html
    assert '<span class="value good">84.0</span>' in html


def test_a_validation_loss_above_the_entropy_is_marked_as_bad(story, tmp_path):
    run = ReportedRun(title="Pretraining", directory=tmp_path / "run", unigram_entropy=3.0)
    assert '<span class="value bad">3.25</span>' in story(runs=(run,))


def test_the_entropy_of_a_mixture_is_not_held_against_one_of_its_tasks(story, tmp_path):
    losses = {"cross_entropy": 1.5, "cross_entropy/a": 1.0, "cross_entropy/b": 2.0}
    write_jsonl(tmp_path / "mixed/metrics.jsonl", [{"step": 1, "split": "validation/both", **losses}])
    run = ReportedRun(title="Fine-tuning", directory=tmp_path / "mixed", unigram_entropy=3.0)
    assert "unigram entropy" not in story(runs=(run,))


def test_text_of_users_is_escaped_and_empty_predictions_are_named(story):
    html = story()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in html
    assert "<em>nothing</em>" in html


def test_the_first_predictions_are_shown_and_all_are_counted(story):
    html = story(samples_per_task=1)
    assert "1 of 3 exactly right" in html
    assert "&lt;b&gt;" not in html


def test_the_machine_is_described_by_what_it_reports():
    facts = describe_machine()
    assert "cores usable" in facts["processor"]
    assert facts["jax"]


def test_models_are_compared_on_the_page(story, golden):
    page = story(models={"Small <BERT>": str(golden / "models" / "bert_seqcls")})
    assert "Small &lt;BERT&gt;" in page
    assert "1.00 x" in page


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run/metrics.jsonl", '{"step": 1}\n'),
        ("run/metrics.jsonl", '[1]\n{"split": 3}\n'),
        ("evaluation/scores.json", '{"tasks": [], "settings": {}, "averages": {}}'),
        ("evaluation/scores.json", '{"tasks": {"a": 1}, "settings": {}, "averages": {}}'),
    ],
)
def test_damaged_files_of_a_run_are_named(story, tmp_path, file, content):
    story()
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=file.rpartition("/")[2]):
        story()


def test_classes_and_their_confusion_are_on_the_page(story, tmp_path):
    scores = read_json(tmp_path / "evaluation/scores.json")
    scores["tasks"]["bare_task"] |= class_scores(["<a>", "b"], [{"target": "<a>", "prediction": "b"}])
    assert '<table class="confusion">' not in story()
    write_json(tmp_path / "evaluation/scores.json", scores)
    html = story()
    assert '<th scope="row">&lt;a&gt;</th><td class="right"' in html
    assert html.count('<table class="classes">') == 1


def test_rewards_and_answers_of_a_run_that_writes_its_own_are_shown(story, tmp_path):
    lines = [
        {"step": step, "split": "train", "loss": 0.1, "reward": step / 10, "kl": step / 5}
        for step in (1, 2, 3)
    ]
    write_jsonl(tmp_path / "rewarded/metrics.jsonl", lines)
    for step in (0, 4, 8):
        answer = {"step": step, "prompt": "2 + 2 =", "answer": f"<{step}>", "reward": None, "kl": 0.0}
        write_jsonl(tmp_path / f"rewarded/samples/{step:08d}.jsonl", [answer])
    assert read_rewards(tmp_path / "rewarded") == ([1, 2, 3], [0.1, 0.2, 0.3], [0.2, 0.4, 0.6])
    assert read_rewards(tmp_path / "run") is None
    run = ReportedRun(title="GRPO", directory=tmp_path / "rewarded")
    page = story(runs=(run,))
    assert "divergence from the reference" in page
    assert "&lt;0&gt;" in page
    assert "&lt;8&gt;" in page
    assert "&lt;4&gt;" not in page
