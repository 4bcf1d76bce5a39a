"""The wheel, built and installed, works from another folder without the checkout."""

import csv
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.references import ROOT, xla_flags

BERT = ROOT / "tests/fixtures/models/bert_seqcls"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed wheel."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _call([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)], ROOT)
    (wheel,) = wheels.glob("t5x_like-*.whl")
    _call([*pip, "install", "--no-deps", "--target", str(folder), str(wheel)], ROOT)
    return folder


def _call(command: list[str], folder: Path, path: Path | None = None, *, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["XLA_FLAGS"] = xla_flags()  # one device, as a user has
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # models are tiny, and compiled once
    environment |= {"PYTHONPATH": str(path), "PYTHONSAFEPATH": "1"} if path else {}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout + done.stderr


def test_templates_and_pages_are_installed(installed):
    for name in ("reports/templates/run_comparison.html.j2", "serving/pages/try_it.html"):
        assert (installed / "t5x_like" / name).is_file()


@pytest.mark.slow
def test_tasks_are_listed(installed, tmp_path):
    printed = _call([sys.executable, str(installed / "bin/t5x-like"), "tasks", "list"], tmp_path, installed)
    assert "wordnet_definitions" in printed
    assert "glue_cola_v002" in printed


@pytest.mark.slow
def test_the_quickstarts_first_step_trains(installed, tmp_path):
    command = [
        *(sys.executable, str(installed / "bin/t5x-like"), "train"),
        *("--gin_file=gin/recipes/quickstart/pretrain.gin", "--model_dir", "run"),
        *(
            "--set",
            "TRAIN_STEPS=2",
            "--set",
            "BATCH_SIZE=2",
            "--set",
            "INPUTS_LENGTH=64",
            "--set",
            "TARGETS_LENGTH=24",
        ),
        *("--set", "LOG_EVERY_STEPS=1", "--set", "EVALUATE_EVERY_STEPS=0"),
    ]
    assert "step 2/2" in _call(command, tmp_path, installed)
    assert (tmp_path / "run/2").is_dir()


def test_hugging_face_weights_open(installed, tmp_path):
    code = (
        "import t5x_like, numpy as np\n"
        f"model = t5x_like.from_pretrained({str(BERT)!r})\n"
        "print(t5x_like.__file__, model(input_ids=np.array([[1, 2, 3]])).logits.shape)"
    )
    printed = _call([sys.executable, "-c", code], tmp_path, installed)
    assert str(installed) in printed
    assert "(1, " in printed


def _copy_start(table: Path, copy: Path) -> None:
    """Copy the first lines: validation reads all rows, which takes longer than all else here."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    with table.open() as lines:
        copy.write_text("".join(itertools.islice(lines, 40 if table.suffix == ".tsv" else 2)))


def _write_parts(folder: Path) -> None:
    """Write the modules and recipes of the guide, and small tables for them."""
    guide = (ROOT / "docs/guides/extend.md").read_text(encoding="utf-8")
    modules = re.findall(r"^`(my_parts/\w+\.py)`:\n\n```python\n(.*?)^```", guide, re.M | re.S)
    assert len(modules) == guide.count("```python") == 11
    (folder / "my_parts").mkdir()
    for name, code in [("my_parts/__init__.py", ""), *modules]:
        assert code.count("\n") <= 40, f"{name} is long"
        (folder / name).write_text(code)
    recipes, names = [], ["own.gin", "ratings.gin", "quiet.gin"]
    for block in re.findall(r"^```\n(from .*?)^```", guide, re.M | re.S):
        if block.startswith("from __gin__"):
            recipes.append("")
        recipes[-1] += block
    for name, recipe in zip(names, recipes, strict=True):
        for table in re.findall(r"'(data/\w+/\w+\.(?:tsv|txt))'", recipe):
            _copy_start(ROOT / table, folder / table.replace("data/", "small/"))
        (folder / name).write_text(re.sub(r"'data/(\w+/\w+\.(?:tsv|txt))'", r"'small/\1'", recipe))
    ratings = [f"{text}\t{rating}" for rating in ("bad", "fair", "good") for text in ("one", "two", "three")]
    (folder / "ratings.tsv").write_text("\n".join(["text\trating", *ratings]) + "\n")
    texts = ("A quiet page about a small bird.", "A LOUD PAGE, ALL OF IT IN CAPITALS.")
    (folder / "pages.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))


@pytest.fixture(scope="module")
def own_parts(installed, tmp_path_factory):
    """A folder outside the repository with the guide's modules, and a function that runs commands in one process."""
    folder = tmp_path_factory.mktemp("own_parts")
    _write_parts(folder)
    program = "import json, sys; from t5x_like.cli.main import main; "
    program += "sys.exit(max(main(words) for words in json.loads(sys.argv[1])))"

    def call(*commands: str, modules: bool = True, code: int = 0) -> str:
        words = [[*command.split(), *["--module", "my_parts"] * modules] for command in commands]
        return _call([sys.executable, "-c", program, json.dumps(words)], folder, installed, code=code)

    small = "BATCH_SIZE=4 TRAIN_STEPS=2 LOG_EVERY_STEPS=1 EVALUATE_EVERY_STEPS=0 EVALUATE_EXAMPLES=4"
    settings = " ".join(f"--set {each}" for each in small.split())
    call(
        f"train --gin_file=own.gin --model_dir own {settings}",
        f"train --gin_file=ratings.gin --model_dir ratings {settings} --set INITIAL_CHECKPOINT=own "
        "--set WARMUP_STEPS=1",
    )
    return folder, call


def test_a_run_records_a_users_parts_by_name_and_trains_with_them(own_parts):
    folder, _ = own_parts
    record = (folder / "own/experiment.json").read_text()
    parts = {
        *("length_metric:length_ratio", "first_word:first_word", "reversal:Reversal", "sawtooth:Sawtooth"),
        *("confidence_penalty:ConfidencePenalty", "sign_sgd:SignSGD", "time_limit:TimeLimit"),
        "normed_t5:NormedT5Config",
    }
    assert set(re.findall(r'"my_parts\.(\w+:\w+)"', record)) == parts
    lines = [json.loads(line) for line in (folder / "own/metrics.jsonl").read_text().splitlines()]
    steps = {line["step"]: line for line in lines if line.get("split") == "train"}
    assert [steps[step]["learning_rate"] for step in (1, 2)] == pytest.approx([1e-3, 0.999e-3])
    assert all(line["negative_entropy"] < 0 for line in steps.values())
    (ended,) = (line for line in lines if line.get("split") == "time_limit")
    assert ended["minutes"] > 0
    (scores,) = (line for line in lines if line.get("split") == "evaluation/definitions")
    assert scores["length_ratio"] == 100.0  # of first words


@pytest.mark.slow
def test_a_process_that_has_the_runs_alone_continues_evaluates_predicts_and_converts_them(own_parts):
    folder, call = own_parts
    printed = call(
        "train --model_dir own --set RunConfig.total_steps=3",
        "evaluate --checkpoint own --set TaskEvaluation.limit=4",
        "predict --checkpoint own --task definitions --input bird",
        "evaluate --checkpoint ratings --set HeadEvaluation.split=validation",
        "predict --checkpoint ratings --input ratings.tsv --output predicted.csv --scores",
        "convert --from ratings --to merged --merge",
        "corpus build --recipe quiet.gin --input pages.jsonl --output corpus --workers 1",
    )
    assert "own: resumed at step 2, 3 steps in all" in printed
    assert "length_ratio" in printed.partition("resumed")[2]
    with (folder / "predicted.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 9
    for row in rows:
        shares = {name: float(row[f"probability_{name}"]) for name in ("bad", "fair", "good")}
        assert max(shares, key=lambda name: shares[name]) == row["prediction"]
        assert sum(shares.values()) == pytest.approx(1.0)
    scores = json.loads((folder / "ratings/evaluation/scores.json").read_text())["tasks"]["ratings"]
    assert sum(map(sum, scores["confusion"]["counts"])) == 9
    assert json.loads((folder / "ratings/model.json").read_text())["adapter"]["$class"] == (
        "my_parts.output_bias:OutputBias"
    )
    assert json.loads((folder / "merged/model.json").read_text())["adapter"] is None
    assert re.search(r"no-shouting +2 +1 +1 +shouting 1", printed)


def test_without_the_module_each_command_says_which_flag_to_add(own_parts):
    folder, call = own_parts
    commands = (
        "train --model_dir own --set RunConfig.total_steps=3",
        "evaluate --checkpoint own",
        "predict --checkpoint ratings --task ratings --input bird",
        "convert --from own --to exported --export hf",
    )
    printed = call(*commands, modules=False, code=2)
    assert printed.count("give --module=my_parts.") == len(commands)
    assert "Traceback" not in printed
    assert not (folder / "exported").exists()
