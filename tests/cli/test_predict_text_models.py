"""Tables that ``t5x-like predict`` returns for models that write, and for pairs whose labels are ranked."""

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jax
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.io.files import read_jsonl, write_jsonl
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.pretrained.gguf_export import write_gguf
from t5x_like.projects.project import TableChoices
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.evaluate import evaluate
from t5x_like.training.run_record import read_recorded
from tests.cli.test_new_kinds_of_tables import checkpoint, documents, sentence, translations, write
from tests.cli.untrained_runs import SMALL_T5, project_with_run, share_predictors
from tests.references import ROOT

BATCH = ["--batch_size=8"]
# Of as many tokens each, so that single texts share a compiled program.
TEXTS = [sentence(0).replace(" ", "\n", 1), sentence(1).replace(" ", "\n"), sentence(2)]


@pytest.fixture(autouse=True)
def _in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text_models")
    checkpoint(folder, "gpt2")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _shared_predictors() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share_predictors(patch)
        yield


def run_of(
    folder: Path, row: Callable[[int], dict[str, Any]], settings: dict[str, Any], **choices: Any
) -> Path:
    """Return the project of a table with 12 rows, with its run."""
    folder.mkdir()
    table = TableChoices(data=write(folder, row, 12), **choices)
    return Path(project_with_run(folder / f"table_for_{folder.name}", table, settings).project)


@pytest.fixture(scope="module")
def translating(home: Path) -> Path:
    """A GPT-2 that writes a text for each text."""

    def row(number: int) -> dict[str, Any]:
        return translations(number) | {"source": sentence(number).replace(" ", "\n", 1)}

    settings = {"METRICS": ("sequence_accuracy",)}
    return run_of(home / "translating", row, settings, checkpoint=str(home / "gpt2"))


@pytest.fixture(scope="module")
def continuing(home: Path) -> Path:
    """A GPT-2 for plain text."""
    return run_of(home / "continuing", documents, {}, checkpoint=str(home / "gpt2"))


@pytest.fixture(scope="module")
def ranking(home: Path) -> Path:
    """A T5 that reads pairs and answers with one of two labels."""

    def row(number: int) -> dict[str, Any]:
        return {
            "premise": sentence(number),
            "hypothesis": f"it\n{number}",
            "label": ["no", "yes"][number % 2],
        }

    settings = {"TextTask.labels": ("no", "yes"), **SMALL_T5}
    return run_of(
        home / "ranking", row, settings, kind="text", texts=("premise", "hypothesis"), label="label"
    )


def predicted(model: Path | str, table: Path | str, output: str, *flags: str) -> list[dict[str, Any]]:
    assert main(["predict", str(model), "--input", str(table), "--output", output, *flags]) == 0
    if output.endswith("jsonl"):
        return list(read_jsonl(output))
    with open(output, newline="") as file:
        return list(csv.DictReader(file))


def write_texts(column: str) -> tuple[str, str]:
    """Write a table of texts with line breaks and quotes, as CSV and as JSONL."""
    rows = [{"id": index, column: text} for index, text in enumerate(TEXTS)]
    with open("texts.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", column], *(row.values() for row in rows)])
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "texts.csv", "texts.jsonl"


def evaluated(project: Path, method: Literal["generate", "rank"] = "generate") -> list[dict[str, Any]]:
    """Return the rows that the run's own evaluation writes."""
    (own,) = read_recorded(project / "run", "evaluations")
    evaluate(project / "run", evaluations=(replace(own, method=method),), batch_size=8)
    return list(read_jsonl(project / "run/evaluation" / project.name / "predictions.jsonl"))


@pytest.mark.slow
def test_a_decoder_writes_into_tables_as_its_evaluation(translating: Path) -> None:
    table = translating / "data/validation.jsonl"
    rows = predicted(translating / "run", table, "out.jsonl", *BATCH)
    assert [row["prediction"] for row in rows] == [row["prediction"] for row in evaluated(translating)]
    assert [{"source": row["source"], "target": row["target"]} for row in rows] == list(read_jsonl(table))
    of_csv, of_jsonl = (
        predicted(translating / "run", file, f"out.{file}", *BATCH) for file in write_texts("source")
    )
    assert [row["source"] for row in of_csv] == TEXTS
    assert [row["prediction"] for row in of_csv] == [row["prediction"] for row in of_jsonl]


def test_a_decoder_of_plain_text_continues_texts_up_to_its_last_position(continuing: Path) -> None:
    model = t5x_like.from_pretrained(continuing / "run")
    most = model.config.max_position_embeddings + 1
    expected = [
        model.generate(text, max_new_tokens=most - len(model.encode(text)["input_ids"][0])) for text in TEXTS
    ]
    of_csv, of_jsonl = (
        predicted(continuing / "run", file, f"out.{file}", *BATCH) for file in write_texts("text")
    )
    assert [row["prediction"] for row in of_csv] == expected
    assert [row["prediction"] for row in of_jsonl] == expected


@pytest.mark.slow
def test_beams_end_at_the_last_position_of_a_decoder(continuing: Path) -> None:
    """Each text is continued to its own end, as by itself."""
    run = continuing / "run"
    most = t5x_like.from_pretrained(run).config.max_position_embeddings
    texts = [TEXTS[0], f"{TEXTS[1]} it is", "it"]
    write_jsonl("texts.jsonl", ({"text": text} for text in texts))
    flags = "--set=GenerationConfig.num_beams=2", f"--max_new_tokens={most}", *BATCH
    together = predicted(run, "texts.jsonl", "together.jsonl", *flags)
    for index, text in enumerate(texts):
        write_jsonl("text.jsonl", [{"text": text}])
        (alone,) = predicted(run, "text.jsonl", f"alone_{index}.jsonl", *flags)
        assert together[index] == alone


def test_a_gguf_file_writes_into_tables() -> None:
    tokenizer = open_tokenizer(ROOT / "tests/fixtures/gguf/smollm.gguf", 0)
    config = LlamaConfig(
        vocab_size=tokenizer.vocab_size, model_dim=8, mlp_dim=8, num_heads=1, num_kv_heads=1, num_layers=1
    )
    params = fresh_params(config, mesh=MeshConfig(data=1).build(jax.local_devices()[:1]), seed=0)
    write_gguf(config, params, "model.gguf", tokenizer=tokenizer)
    model = t5x_like.from_pretrained("model.gguf")
    expected = [model.generate(text, max_new_tokens=4) for text in TEXTS]
    file, _ = write_texts("text")
    rows = predicted("model.gguf", file, "out.csv", "--max_new_tokens=4", *BATCH)
    assert [row["prediction"] for row in rows] == expected


def test_ranked_labels_of_pairs_have_the_probabilities_of_the_evaluation(
    ranking: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, run = ranking / "data/validation.jsonl", ranking / "run"
    rows = predicted(run, table, "out.jsonl", *BATCH, "--scores", "--method=rank")
    assert [{name: row[name] for name in ("premise", "hypothesis", "label")} for row in rows] == list(
        read_jsonl(table)
    )
    for row, right in zip(rows, evaluated(ranking, "rank"), strict=True):
        assert row["prediction"] == right["prediction"]
        shares = {label: math.exp(likelihood) for label, likelihood in right["choices"].items()}
        shares = {label: share / sum(shares.values()) for label, share in shares.items()}
        assert row["scores"] == pytest.approx(shares, abs=2e-6)
        assert row["probability"] == row["scores"][row["prediction"]]
    capsys.readouterr()
    assert main(["predict", str(run), "--input", str(table), "--method=rank", "--max_new_tokens=3"]) == 2
    assert "--max_new_tokens has no effect" in capsys.readouterr().err


def test_what_can_not_be_ranked_is_refused(translating: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(translating / "data/validation.jsonl")
    assert (
        main(["predict", str(translating / "run"), "--input", table, "--method=rank", "--output=out.jsonl"])
        == 2
    )
    assert "has open answers, there is nothing to rank; use --method=generate" in capsys.readouterr().err
    beams = ["--method=rank", "--set=GenerationConfig.num_beams=2"]
    assert main(["predict", str(translating / "run"), "--input", table, *beams]) == 2
    assert "--method=rank generates nothing" in capsys.readouterr().err
    assert not list(Path().iterdir())
