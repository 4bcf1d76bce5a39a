"""The statements of docs/security.md that no package's own tests check."""

import ast
import functools
import re
from pathlib import Path

import pytest

from t5x_like.cli.main import main
from t5x_like.config_class import ConfigTypeError
from t5x_like.credentials import holds_password, masked
from t5x_like.io import gguf_header
from t5x_like.io.files import MAX_JSON_BYTES, MAX_JSON_DEPTH
from t5x_like.model.zoo.config_fields import MAX_LAYERS, MAX_SIZE
from t5x_like.pretrained import hub
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.vocabularies import tokenizer
from t5x_like.training.metric_loggers import MlflowLogger
from tests.references import ROOT

PAGE = ROOT / "docs" / "security.md"
SECRET = "https://me:hunter2@host/path"


@functools.cache
def sources() -> dict[str, ast.Module]:
    files = sorted((ROOT / "t5x_like").rglob("*.py"))
    return {str(file.relative_to(ROOT / "t5x_like")): ast.parse(file.read_text("utf-8")) for file in files}


def calls() -> list[tuple[str, str, ast.Call]]:
    """Every call with its file and the name that it calls."""
    return [
        (file, ast.unparse(node.func), node)
        for file, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def test_pickle_is_used_between_our_own_processes_only() -> None:
    users = {
        file
        for file, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
        & {
            name.split(".")[0]
            for name in (*(each.name for each in node.names), getattr(node, "module", None) or "")
        }
    }
    intermediate = "corpora/building/intermediate_pages.py"  # marshal, as the page says
    assert users == {"io/worker_pool.py", "io/beam_engine.py", intermediate}
    for file, name, call in calls():
        if name in ("np.load", "numpy.load"):
            assert "allow_pickle=True" not in ast.unparse(call), file  # False is NumPy's default


def test_no_text_is_evaluated() -> None:
    evaluating = {"eval", "exec", "compile", "os.system", "os.popen", "yaml.load", "torch.load", "__import__"}
    assert [(file, name) for file, name, _ in calls() if name in evaluating] == []
    assert [file for file, _, call in calls() if "shell=True" in ast.unparse(call)] == []


def test_a_models_python_files_are_not_fetched() -> None:
    assert not [pattern for pattern in hub._FILES if pattern.endswith(("py", "*", "bin", "pt"))]


def test_the_limits_are_those_of_the_page() -> None:
    page = PAGE.read_text()
    assert f"| a JSON file | {MAX_JSON_BYTES // 2**20} MiB, {MAX_JSON_DEPTH} levels" in page
    assert f"| layers and experts of a model | {MAX_LAYERS:,} |" in page
    assert f"| other sizes of a model | {MAX_SIZE:,} |" in page
    assert f"and {tokenizer.MAX_UNUSED_IDS:,} more" in page
    assert f"{gguf_header._MAX_ITEMS:,} values in arrays" in page


@pytest.mark.parametrize("value", [SECRET, ("a", SECRET), {"a": [SECRET]}, "s3://key:secret@bucket/x"])
def test_an_address_with_a_password_is_seen_at_any_depth(value: object) -> None:
    assert holds_password(value)


@pytest.mark.parametrize(
    "value", ["https://host:80/a@b", "s3://bucket/x", "{a}: {b}@c", f"see {SECRET} there", 3, None]
)
def test_other_values_are_none(value: object) -> None:
    assert not holds_password(value)


def test_a_field_takes_no_password() -> None:
    with pytest.raises(ConfigTypeError, match=r"tracking_uri is an address with a password") as caught:
        MlflowLogger(tracking_uri=SECRET)
    assert "hunter2" not in str(caught.value)


def test_no_command_shows_or_keeps_a_password(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = ["--gin_file=gin/recipes/quickstart/pretrain.gin", "--model_dir=run"]
    secrets = [
        ["--set", f"TRAIN_FILES={SECRET}"],
        [f"--gin.TRAIN_FILES={SECRET!r}"],
        ["--set", f"NONE={SECRET}"],
    ]
    for verb in (["config", "show"], ["config", "validate"], ["train"], ["train", "--dry_run"]):
        for secret in secrets:
            assert main([*verb, *recipe, *secret]) == 2
            said = capsys.readouterr()
            assert "hunter2" not in said.out + said.err
            assert "https://***@host/path" in said.err or "password" in said.err
    assert not (tmp_path / "run").exists()


def test_a_message_shows_stars() -> None:
    assert masked(f"--set A={SECRET} B=s3://k:s@b") == "--set A=https://***@host/path B=s3://***@b"


def test_every_locked_package_has_the_hashes_of_its_files() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    packages = re.split(r"\n(?=[a-z0-9])", lock.partition("requirements.lock")[2].partition("\n")[2].strip())
    assert len(packages) > 200
    for package in packages:
        assert re.match(r"[a-z0-9._-]+==\S+", package), package[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", package), f"no hash of {package[:80]}"


def test_the_page_says_how_many_downloads_have_a_checksum() -> None:
    results = [each for benchmark in catalogue.benchmarks().values() for each in benchmark.source.downloads]
    checked = [each for each in results if each.sha256]
    assert f"Of {len(results)} downloads, {len(checked)} have a checksum" in PAGE.read_text()


def test_every_test_that_the_page_rests_on_is_there() -> None:
    for file in (
        "gin_config/test_what_gin_may_name.py", "training/test_run_record.py", "pretrained/test_hostile_files.py",
        "io/test_damaged_files.py", "fuzz/test_damaged_files.py", "text/benchmarks/test_downloads.py",
        "pretrained/test_safetensors_files.py",
    ):  # fmt: skip
        assert (ROOT / "tests" / file).exists()
