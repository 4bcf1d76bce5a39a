import shutil
import zipfile

import jax
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.submissions import check_submission, write_submission
from t5x_like.io.files import read_json, shipped_directory, write_json, write_jsonl
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.gguf_export import write_gguf
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.text.benchmarks.suites import SUITES
from t5x_like.text.vocabularies.opening import open_tokenizer
from tests.references import FIXTURES


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A decoder with drawn weights, and its vocabulary."""
    directory = tmp_path_factory.mktemp("models") / "gpt2"
    config = GPT2Config(
        vocab_size=4224, model_dim=16, mlp_dim=32, num_heads=2, num_layers=1, max_position_embeddings=64
    )
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], directory)
    shutil.copyfile(shipped_directory("data") / "vocabulary" / "spiece.model", directory / "spiece.model")
    return str(directory)


@pytest.fixture
def wnli(tmp_path, monkeypatch):
    """WNLI's files below $T5X_LIKE_DATA, its test split as long as it is published."""
    folder = tmp_path / "data/glue/WNLI"
    folder.mkdir(parents=True)
    lines = [f"{n}\tAnn saw Bo as he left {n}.\tBo left {n}.\t{n % 2}\n" for n in range(16)]
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(lines))
    rows = "".join(f"{n}\tAnn saw Bo as he left {n}.\tBo left {n}.\n" for n in range(146))
    (folder / "test.tsv").write_text("index\tsentence1\tsentence2\n" + rows)
    monkeypatch.setenv("T5X_LIKE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def evaluate(*flags):
    return main(["evaluate", *flags])


def test_scores_are_printed_and_written_with_a_report(gpt2, wnli, tmp_path, capsys):
    flags = [f"--checkpoint={gpt2}", "--tasks", "glue_wnli_v002", "--output_dir=out", "--batch_size=8"]
    assert evaluate(*flags, "--num_shots=1", "--resamples=20") == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == [
        *[
            "task",
            "metric",
            "score",
            "95",
            "%",
            "interval",
            "most",
            "frequent",
            "answer",
            "rows",
            "invalid",
            "cut",
        ]
    ]
    assert printed.splitlines()[1].startswith("glue_wnli_v002  accuracy")
    assert "the report is out/report.html" in printed
    assert (tmp_path / "out/report.html").is_file()
    assert read_json("out/scores.json")["settings"]["num_shots"] == 1
    assert evaluate(*flags, "--num_shots=2") == 2
    assert "num_shots 1, now 2" in capsys.readouterr().err
    shutil.copytree("out", "again")
    assert main(["scores", "average", "out", "again", "--output_dir=means"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[2:] == ["0.00", "2"]
    assert read_json("means/over_runs.json")["scores"]["glue_wnli_v002/accuracy"]["runs"] == 2


def test_a_submission_is_written_of_the_test_split(gpt2, wnli, capsys):
    flags = ["--tasks", "glue_wnli_v002", "--output_dir=out", "--batch_size=32", "--submission=glue.zip"]
    assert evaluate(f"--checkpoint={gpt2}", *flags) == 0
    printed = capsys.readouterr().out
    assert "glue.zip: WNLI.tsv, as the glue server wants them" in printed
    assert "missing, without which the server gives no average: CoLA.tsv, SST-2.tsv" in printed
    assert (
        "no scores, none of the 146 rows of split 'test' has a label; its predictions are written" in printed
    )
    assert check_submission("glue.zip").errors == ()


def test_a_submission_is_put_together_from_evaluations_of_a_task_each(gpt2, wnli, capsys):
    flags = ["--tasks", "glue_wnli_v002", "--output_dir=out", "--batch_size=32", "--resamples=0"]
    assert evaluate(f"--checkpoint={gpt2}", *flags, "--split=test") == 0
    scores = read_json("out/scores.json")
    entry = scores["tasks"]["glue_wnli_v002"]
    write_json("ax/scores.json", scores | {"tasks": {"glue_ax_v002": entry}})
    rows = [{"idx": index, "answer": index % 3, "prediction": "neutral"} for index in range(1104)]
    write_jsonl("ax/glue_ax_v002/predictions.jsonl", rows)
    assert main(["submission", "make", "--output=both.zip", "out", "ax"]) == 0
    assert "both.zip: WNLI.tsv, AX.tsv, as the glue server wants them" in capsys.readouterr().out
    assert check_submission("both.zip").errors == ()
    write_json("some/scores.json", scores | {"tasks": {"glue_wnli_v002": entry | {"limit": 8}}})
    for wrong, message in (
        (["--output=a.zip", "out", "out"], "out has answers to glue_wnli_v002, and so has"),
        (["--output=a.zip", "some"], "some is no evaluation of the whole test split"),
        (["--output=a.tsv", "out"], "servers take zip files"),
        (["out"], "the following arguments are required: --output"),
    ):
        assert main(["submission", "make", *wrong]) == 2
        assert message in capsys.readouterr().err


def test_a_submission_is_looked_into(gpt2, wnli, tmp_path, capsys):
    rows = [{"idx": index, "answer": index % 2, "prediction": "0"} for index in range(146)]
    write_submission("good.zip", {"glue_wnli_v002": rows})
    assert main(["submission", "check", "good.zip", "--suite=glue"]) == 0
    printed = capsys.readouterr().out
    assert "WNLI.tsv: 146 answers\nmissing, without which the server gives no average: CoLA.tsv" in printed
    assert printed.endswith("good.zip: incomplete; 1 of the 11 files of glue, no faults in them\n")
    with zipfile.ZipFile("bad.zip", "w") as archive:
        archive.writestr("WNLI.tsv", "index\tprediction\n0\t1\n0\tyes\n")
        archive.writestr("notes.txt", "")
    assert main(["submission", "check", "bad.zip", "--suite=super_glue"]) == 2
    printed = capsys.readouterr().err
    for fault in (
        "bad.zip: the server would refuse it:\n  these are files for the server of glue, not of super_glue",
        "WNLI.tsv: has 2 answers, the test set 146",
        "WNLI.tsv: index given more than once: 0",
        "WNLI.tsv: answer that is not 0 or 1: 'yes' in line 3",
        "notes.txt: is no file of this benchmark",
    ):
        assert fault in printed
    assert main(["submission", "check", "none.zip"]) == 2
    assert "none.zip: no such file or directory" in capsys.readouterr().err


@pytest.mark.slow
def test_a_submission_of_all_files_is_whole(wnli, tmp_path, capsys):
    answer = {"answer": 0, "prediction": "0"}
    files = SUITES["glue"].submission
    answers = {file.task: [{"idx": index, **answer} for index in range(file.rows)] for file in files}
    write_submission("whole.zip", answers)
    assert main(["submission", "check", "whole.zip"]) == 0
    printed = capsys.readouterr().out
    assert "missing" not in printed
    assert printed.endswith("whole.zip: ok, as the glue server wants it\n")


def test_test_rows_that_no_server_scores_are_reported_before_they_are_answered(gpt2, wnli, tmp_path, capsys):
    test = tmp_path / "data/glue/WNLI/test.tsv"
    lines = test.read_text().splitlines(keepends=True)
    test.write_text("".join([*lines[:6], *lines[7:]]))
    flags = ["--tasks", "glue_wnli_v002", "--output_dir=out", "--submission=glue.zip", "--on_bad_row=skip"]
    assert evaluate(f"--checkpoint={gpt2}", *flags) == 2
    captured = capsys.readouterr()
    assert "glue.zip will lack CoLA.tsv, SST-2.tsv" in captured.out
    assert "nothing was evaluated:\n  glue_wnli_v002: has 5 answers, the test set 146\n" in captured.err
    assert "glue_wnli_v002: index missing: 5, 6, 7 and 138 more" in captured.err
    assert not (tmp_path / "out").exists()


def test_what_is_missing_is_left_out_and_said_everywhere(gpt2, wnli, tmp_path, capsys):
    flags = [f"--checkpoint={gpt2}", "--recipe=glue", "--output_dir=out", "--batch_size=8", "--resamples=0"]
    assert evaluate(*flags) == 2
    assert "9 of 10 tasks are not below" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    dev = tmp_path / "data/glue/WNLI/dev.tsv"
    dev.write_text(dev.read_text().replace("left 3.\t1", "left 3.\tmaybe"))
    assert evaluate(*flags, "--skip_missing", "--on_bad_row=skip", "--inputs_length=20") == 0
    printed = capsys.readouterr().out
    assert "left out: glue_cola_v002, no glue/CoLA/dev.tsv" in printed
    assert "glue_wnli_v002: 1 bad rows were skipped; first: " in printed
    assert "glue_wnli_v002: 15 of 15 inputs are longer than the model is given, and were cut" in printed
    page = (tmp_path / "out/report.html").read_text()
    assert "no glue/CoLA/dev.tsv" in page
    assert "bad rows skipped" in page


def test_a_recipe_in_gin_says_all_of_it_and_flags_overrule_it(gpt2, wnli, capsys):
    with open("mine.gin", "w", encoding="utf-8") as file:
        file.write(
            "include 'gin/runs/evaluate_suite.gin'\n"
            f"CHECKPOINT = {gpt2!r}\nEVALUATED_TASKS = ('glue_wnli_v002',)\nOUTPUT_DIR = 'out'\n"
            "EVALUATION_BATCH_SIZE = 8\nsuite_settings.SuiteEvaluation.resamples = 0\n"
            "SKIP_MISSING = True\nON_BAD_ROW = 'skip'\n"
        )
    assert evaluate("--recipe=mine.gin", "--limit=8", "--normalization=bytes") == 0
    scores = read_json("out/scores.json")
    assert scores["settings"]["normalization"] == "bytes"
    assert scores["settings"]["on_bad_row"] == "skip"
    assert scores["tasks"]["glue_wnli_v002"]["examples"] == 8


def test_texts_are_measured(gpt2, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("One text of six words.")
    assert main(["perplexity", f"--checkpoint={gpt2}", str(tmp_path / "a.txt"), "--inputs_length=16"]) == 0
    assert "bits a byte" in capsys.readouterr().out
    for content, message in {
        b"One\ntext \xe9": "a.txt:2: invalid UTF-8 at byte 5",
        b" \n": "a.txt: nothing is in it",
    }.items():
        (tmp_path / "a.txt").write_bytes(content)
        assert main(["perplexity", f"--checkpoint={gpt2}", str(tmp_path / "a.txt")]) == 2
        assert message in capsys.readouterr().err


def test_evaluations_that_are_no_runs_of_the_same_are_reported(tmp_path, capsys):
    for name, shots in (("a", 0), ("b", 4)):
        entry = {"scores": {"accuracy": 50.0 + shots}}
        settings = {"split": "validation", "num_shots": shots}
        results = {"tasks": {"glue_rte_v002": entry}, "averages": {}, "settings": settings}
        write_json(tmp_path / name / "scores.json", results)
    assert main(["scores", "average", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().out
    assert "52.00" in shown
    assert "these were not evaluated alike: num_shots is 0 and 4" in shown
    assert main(["scores", "average", str(tmp_path / "a"), str(tmp_path / "b"), f"{tmp_path}/b/"]) == 2
    assert "is named more than once, and would count as several runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--recipe=gleu"], "there is no such recipe"),
        (["--limit=5"], "--limit is for benchmarks"),
        ([], "is a Hugging Face directory, which has no tasks of its own"),
        (["--tasks", "glue_wnli_v02"], "did you mean 'glue_wnli_v002'"),
        (["--tasks", "glue_wnli_v002", "--method=head"], "head"),
        (
            ["--tasks", "glue_wnli_v002", "--submission=a.zip", "--split=validation"],
            "takes the whole test split",
        ),
        (
            ["--tasks", "glue_wnli_v002", "super_glue_cb_v102", "--submission=a.zip"],
            "GLUE and SuperGLUE have servers of their own",
        ),
        (["--recipe=glue", "--step=5", "--watch"], "--step names one checkpoint"),
        (["--skip_missing"], "--skip_missing is for benchmarks"),
        (["--tasks", "glue_wnli_v002", "--on_bad_row=error"], "invalid choice: 'error'"),
        (["--tasks", "glue_wnli_v002", "--submission=a.tsv"], "servers take zip files"),
        (["--tasks", "glue_wnli_v002", "--num_shots=99", "--batch_size=8"], "its training split has 16"),
    ],
)
def test_user_errors_are_reported(gpt2, wnli, capsys, flags, message):
    assert evaluate(f"--checkpoint={gpt2}", *flags) == 2
    assert message in capsys.readouterr().err


def test_a_gguf_file_is_evaluated_with_its_own_tokenizer(wnli, tmp_path, capsys):
    pytest.importorskip("gguf")
    tokenizer = open_tokenizer(FIXTURES / "gguf/smollm.gguf", 0)
    config = LlamaConfig(vocab_size=640, model_dim=16, mlp_dim=32, num_heads=2, num_layers=1)
    write_gguf(config, parameters.split(config.build(jax.random.key(0)))[1], "m.gguf", tokenizer=tokenizer)
    assert evaluate("--checkpoint=m.gguf") == 2
    assert "m.gguf is a file, which has no tasks of its own" in capsys.readouterr().err
    assert evaluate("--checkpoint=m.gguf", "--tasks", "glue_wnli_v002", "--limit=4", "--resamples=0") == 0
    assert (tmp_path / "m/evaluation-tasks-validation/scores.json").is_file()


def test_a_module_of_the_users_own_brings_tasks(gpt2, wnli, tmp_path, capsys):
    (tmp_path / "my_own_benchmarks.py").write_text(
        "from dataclasses import replace\n"
        "from t5x_like.text import registry\n"
        "from t5x_like.text.benchmarks import catalogue\n"
        "from t5x_like.text.benchmarks.task import BenchmarkTask\n"
        "own = replace(catalogue.benchmark('glue_wnli_v002'), name='my_wnli')\n"
        "registry.register([BenchmarkTask(name='my_wnli', benchmark=own, vocabulary='bytes')])\n"
    )
    flags = [
        f"--checkpoint={gpt2}",
        "--tasks",
        "my_wnli",
        "--output_dir=out",
        "--batch_size=8",
        "--resamples=0",
    ]
    assert evaluate(*flags, "--module=my_own_benchmarks") == 0
    assert "my_wnli  accuracy" in capsys.readouterr().out
    assert evaluate(*flags, "--module=my_owm") == 2
    assert "--module my_owm: there is no such module" in capsys.readouterr().err
