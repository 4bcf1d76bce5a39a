"""The harness itself drives our checkpoints, and its scores are ours."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lm_eval", reason="the lm-evaluation-harness (pip install lm-eval) isn't installed")

from t5x_like.cli.main import main
from t5x_like.evaluation.harness import harness_registration
from t5x_like.inference.scorer import LikelihoodRequest

pytestmark = pytest.mark.filterwarnings("default")  # the harness' own warnings are not ours

ROWS = [
    {"question": "The sky is", "choices": ["blue", "green as grass", "a"], "answer": 0},
    {"question": "In the beginning", "choices": ["was the word", "God created", "he"], "answer": 1},
    {"question": "And he said unto them,", "choices": ["go", "come hither", "be not afraid"], "answer": 2},
    {"question": "", "choices": ["behold", "lo"], "answer": 0},
]

TASKS = {
    "choosing": """
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list:
  - metric: acc
""",
    "reading": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{question}} {{choices[0]}} and so on, for ever and ever, until the end of days; he said so"
metric_list:
  - metric: byte_perplexity
""",
    "writing": """
output_type: generate_until
doc_to_text: "{{question}} x"
doc_to_target: "{{choices[0]}}"
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 5
metric_list:
  - metric: exact_match
""",
}


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch) -> str:
    """Local tasks on a local file."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, text in TASKS.items():
        files = f"dataset_kwargs:\n  data_files:\n    test: {rows}\n  cache_dir: {tmp_path}"
        head = f"task: {name}\ndataset_path: json\n{files}\ntest_split: test"
        (tmp_path / f"{name}.yaml").write_text(head + text)
    return str(tmp_path)


def drive(checkpoint: str, tasks: str, *names: str, **settings) -> dict:
    """What the harness finds, and the samples that it has logged."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    harness_registration.register()
    return simple_evaluate(
        model="t5x_like",
        model_args={"checkpoint": checkpoint, **settings},
        batch_size=8,
        tasks=list(names),
        task_manager=TaskManager(include_path=tasks, include_defaults=False),
        bootstrap_iters=0,
    )


def model_of(checkpoint: str, **settings):
    from t5x_like.evaluation.harness.harness_model import HarnessModel

    return HarnessModel(checkpoint, batch_size=8, **settings)


@pytest.mark.parametrize("which", ["decoder", "encoder_decoder"])
def test_the_harness_scores_local_tasks_as_we_do(which: str, tasks: str, request) -> None:
    checkpoint = request.getfixturevalue(which)
    result = drive(checkpoint, tasks, *TASKS)
    model = model_of(checkpoint)
    answerer, tokenizer = model._runner, model._loaded.tokenizer

    right = []
    for row in ROWS:
        question, likelihoods = row["question"], []
        for choice in row["choices"]:
            if not question:
                context, ids = [model.prefix_token_id], tokenizer.encode(" " + choice)
            elif which == "decoder":
                context = tokenizer.encode(question)
                ids = tokenizer.encode(f"{question} {choice}")[len(context) :]
            else:
                context, ids = [*tokenizer.encode(question), 1], tokenizer.encode(choice)
            ((likelihood, _),) = answerer.score([_request(context, ids)])
            likelihoods.append(likelihood)
        right.append(int(np.argmax(likelihoods)) == row["answer"])
    assert result["results"]["choosing"]["acc,none"] == pytest.approx(np.mean(right))
    samples = {sample["doc_id"]: sample for sample in result["samples"]["choosing"]}
    logged = [float(answer[0][0]) for answer in samples[len(ROWS) - 2]["resps"]]
    question = ROWS[-2]["question"]
    np.testing.assert_allclose(
        logged,
        [one[0] for one in model.loglikelihood(_requests((question, f" {c}") for c in ROWS[-2]["choices"]))],
    )

    texts = [
        f"{row['question']} {row['choices'][0]} and so on, for ever and ever, until the end of days; he said so"
        for row in ROWS
    ]
    total = sum(model.loglikelihood_rolling(_requests((text,) for text in texts)))
    expected = math.exp(-total / sum(len(text.encode()) for text in texts))
    assert result["results"]["reading"]["byte_perplexity,none"] == pytest.approx(expected, rel=1e-4)

    written = [sample["resps"][0][0] for sample in result["samples"]["writing"]]
    contexts = [f"{row['question']} x" for row in ROWS]
    by_hand = model.generate_until(
        _requests((text, {"until": ["\n"], "max_gen_toks": 5}) for text in contexts)
    )
    assert sorted(written) == sorted(by_hand)
    assert any(written)


def _request(context, ids):
    return LikelihoodRequest(tuple(context), tuple(ids))


def _requests(arguments):
    from lm_eval.api.instance import Instance

    return [
        Instance(request_type="loglikelihood", doc={}, arguments=tuple(one), idx=index)
        for index, one in enumerate(arguments)
    ]


def test_a_text_that_is_longer_than_the_model_reads_is_read_in_windows(decoder: str) -> None:
    model = model_of(decoder)
    text = "and the earth was without form and void and darkness was upon the face of the deep " * 4
    ids = model.tok_encode(text)
    assert len(ids) > 2 * model.max_length
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    windows = map(
        make_disjoint_window, get_rolling_token_windows(ids, model.prefix_token_id, model.max_length, 1)
    )
    reference = model._runner.score([_request(*window) for window in windows])
    (result,) = model.loglikelihood_rolling(_requests([(text,)]))
    assert result == pytest.approx(sum(one.log_likelihood for one in reference))


def test_mistakes_in_model_args_are_named(decoder: str) -> None:
    with pytest.raises(ValueError, match="model_args has speed, which a t5x_like model doesn't know"):
        model_of(decoder, speed=3)
    with pytest.raises(ValueError, match="say which weights: checkpoint=DIRECTORY"):
        model_of("")
    with pytest.raises(ValueError, match="max_length=64, and the model has 32 learned positions"):
        model_of(decoder, max_length=64)
    with pytest.raises(ValueError, match="begin_id holds -2; the model has the ids"):
        model_of(decoder, begin_id=-2)
    with pytest.raises(ValueError, match="generation_kwargs have repetition_penalty"):
        model_of(decoder).generate_until(_requests([("a", {"repetition_penalty": 2.0})]))


def test_the_verb_hands_its_words_to_the_harness(decoder: str, tasks: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["t5x-like"])
    words = ["--model", "t5x_like", "--model_args", f"checkpoint={decoder}", "--batch_size", "8"]
    assert main(["lm_eval", "run", *words, "--include_path", tasks, "--tasks", "choosing"]) == 0
    assert "|choosing|" in capsys.readouterr().out.replace(" ", "")


def test_nothing_is_written_into_the_environment_and_an_earlier_file_is_removed(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    file = tmp_path / "t5x_like_lm_eval.pth"
    file.write_text("import sys\n")
    monkeypatch.setattr(harness_registration, "site_file", lambda: file)
    assert main(["lm_eval", "enable"]) == 2
    assert "t5x-like lm_eval run takes all flags" in capsys.readouterr().err
    assert main(["lm_eval", "disable"]) == 0
    assert not file.exists()
