"""Messages where seqio isn't installed, and what works without it."""

import json
from pathlib import Path

import pytest

from t5x_like.text.seqio_extra import missing_library
from tests.without_seqio import run_without_seqio

INSTALL = "pip install 't5x-like[seqio]'"

CALLS = """
import json
from t5x_like.io.files import as_path
from t5x_like.text import registry
from t5x_like.text.benchmarks.tfds_files import read_tfds
from t5x_like.text.seqio_bridge import registration, seqio_vocabulary
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.text_task import TextTask

with open("rows.csv", "w") as file:
    file.write("text,label\\n" + "some words,yes\\n" * 20)
files = {"train": "rows.csv"}
task = TextTask(name="rows", vocabulary="bytes", files=files, input_template="{text}", target_template="{label}")
registration.connect()
registry.register([task, Mixture(name="mixed", tasks=("rows",), rates={"rows": 1.0})])
config = LoaderConfig(
    mixture="rows", batch_size=2, inputs_length=16, targets_length=8, max_tokens_in_memory=50
)
messages = []
for call in (
    lambda: registration.get("rows"),
    lambda: registration.get("row"),
    lambda: registration.get_task("mixed"),
    lambda: registration.export_to_seqio(),
    lambda: registration.register_benchmarks("glue_cola_v002", vocabulary="bytes"),
    lambda: registration.import_modules(["tasks_of_seqio"]),
    lambda: seqio_vocabulary.load_vocabulary("bytes"),
    lambda: list(read_tfds("glue/cola.tfrecord", "train")),
    lambda: build_loader(config),
    lambda: as_path("gs://bucket/run"),
):
    try:
        call()
    except ValueError as error:
        messages.append(str(error))
print(json.dumps([messages, "glue_cola_v002" in registry.names()]))
"""


def test_each_way_to_seqio_names_the_extra_that_brings_it(tmp_path: Path):
    (tmp_path / "tasks_of_seqio.py").write_text("import seqio\n")
    done = run_without_seqio(CALLS, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    messages, half_done = json.loads(done.stdout)
    seqio = f"needs seqio, which isn't installed: {INSTALL}"
    assert messages == [
        f"'rows' as a task of seqio {seqio}",
        messages[1],
        "'mixed' is a mixture of rows; name one task",
        f"seqio's registry of tasks {seqio}",
        f"seqio's registry of tasks {seqio}",
        f"the module 'tasks_of_seqio' {seqio}",
        f"a vocabulary for seqio {seqio}",
        f"glue/cola.tfrecord: a file that TensorFlow Datasets prepared {seqio.replace('seqio,', 'TensorFlow,')}",
        "task 'rows' has over 50 tokens; t5x-like cache tokenizes it once and needs nothing else. Reading it as a "
        f"stream {seqio}",
        "gs://bucket/run: gs:// needs gcsfs: pip install gcsfs",
    ]
    assert messages[1].startswith("no task or mixture 'row'; did you mean 'rows'")
    assert not half_done


VERBS = """
from t5x_like.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks", "list", "--module=tasks_of_seqio"],
        ["train", "--gin_file=run.gin", "--module=tasks_of_seqio"],
        ["cache", "loud", "--module=tasks_of_seqio", "--output=caches"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_module_of_seqio_tasks_ends_a_command_with_2_and_one_message(tmp_path: Path, arguments: list[str]):
    (tmp_path / "tasks_of_seqio.py").write_text("from t5x_like.text.seqio_bridge import preprocessors\n")
    (tmp_path / "run.gin").write_text("import tasks_of_seqio\n")
    done = run_without_seqio(VERBS, *arguments, folder=tmp_path)
    said = f"t5x-like: --module tasks_of_seqio needs seqio, which isn't installed\n  {INSTALL}\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert not (tmp_path / "caches").exists()


@pytest.mark.slow
def test_tasks_of_our_own_are_listed_and_shown(tmp_path: Path):
    listed = run_without_seqio(VERBS, "tasks", "list", folder=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert (
        "wordnet_definitions (task)\n  splits      train 22,724, validation 1,500, test 1,500"
        in listed.stdout
    )
    assert "mixed       wordnet_definitions 28.9%, cmudict 71.1%" in listed.stdout
    for name, shown in (("definitions_and_sounds", "targets  animal"), ("king_james", "<extra_id_0>:4099")):
        done = run_without_seqio(VERBS, "tasks", "show", name, "--num_examples=1", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout


def test_other_libraries_that_are_absent_are_not_blamed_on_the_extra():
    assert missing_library(ModuleNotFoundError("no", name="tensorflow.io")) == "TensorFlow"
    assert missing_library(ModuleNotFoundError("no", name="jieba")) == ""
    assert missing_library(ImportError("cannot load libcudart", name="tensorflow")) == ""
