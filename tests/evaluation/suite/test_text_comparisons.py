"""BLiMP's and EWoK's texts are compared by the likelihoods that the model itself gives."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.electra import ElectraConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from tests.integration import tiny_run

WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "ann",
    "bo",
    "woke",
    "broke",
    "a",
    "cup",
    "he",
    "it",
    ".",
)
PAIRS = (
    ("ann woke .", "bo woke a cup .", "morphology", "anaphor_agreement"),
    ("he broke it .", "he broke .", "syntax", "argument_structure"),
    ("a cup broke .", "a cup woke .", "syntax", "argument_structure"),
    ("it broke .", "it he .", "syntax/semantics", "binding"),
)
ITEMS = (("Ann broke a cup.", "Ann woke.", "It broke.", "He woke."), ("A cup.", "Bo.", "It.", "He."))


@pytest.fixture
def data(tmp_path: Path) -> str:
    """BLiMP's files of two paradigms, and a suite of EWoK as its own code writes it."""
    (tmp_path / "data/blimp/data").mkdir(parents=True)
    (tmp_path / "data/ewok").mkdir()
    for uid, pairs in (("first", PAIRS[:2]), ("second", PAIRS[2:])):
        names = ("sentence_good", "sentence_bad", "field", "linguistics_term")
        rows = [dict(zip(names, pair, strict=True)) for pair in pairs]
        lines = [json.dumps(row | {"UID": uid, "lexically_identical": False, "pairID": "0"}) for row in rows]
        (tmp_path / f"data/blimp/data/{uid}.jsonl").write_text("\n".join(lines) + "\n")
    header = "# EWoK canary UUID 1\nDomain,ConceptA,Context1,Context2,Target1,Target2\n"
    rows = [f"agent-properties,see,{','.join(item)}\n" for item in ITEMS]
    (tmp_path / "data/ewok/testsuite-agent-properties.csv").write_text(header + "".join(rows))
    return str(tmp_path / "data")


def write_encoder(directory: Path, config: Any) -> str:
    """An encoder of drawn weights, large enough that texts differ."""
    _, params = parameters.split(config.build(jax.random.key(0)))
    write_hugging_face(config, jax.tree.map(lambda leaf: leaf * 5, params), directory)
    (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return str(directory)


def bert_of(**changes: Any) -> BertConfig:
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "model_dim": 16,
        "mlp_dim": 32,
        "num_heads": 2,
        "num_layers": 1,
    }
    return BertConfig(**sizes, max_position_embeddings=32, **{"task": "masked_lm", **changes})


@pytest.fixture
def bert(tmp_path: Path) -> str:
    return write_encoder(tmp_path / "bert", bert_of())


def run_of(checkpoint: str, data: str, output: Path, *tasks: str, **settings: Any) -> SuiteEvaluation:
    settings = {"batch_size": 8, "resamples": 20, "inputs_length": 32, **settings}
    return SuiteEvaluation(
        checkpoint=checkpoint, data_dir=data, output_dir=str(output), tasks=tasks or ("blimp",), **settings
    )


def evaluated(run: SuiteEvaluation) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (task,) = run.tasks
    entry = evaluate_suite(run, shown=False)["tasks"][task]
    return dict(entry), list(read_jsonl(Path(run.output_dir) / task / "predictions.jsonl"))


def log_softmax(logits: Any) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def of_decoder(checkpoint: str) -> Callable[[str, str], float]:
    """Log-likelihood of a text after a context, token by token."""
    model, own = from_pretrained(checkpoint), open_checkpoint(checkpoint)

    def likelihood(context: str, text: str) -> float:
        encode, begin = own.tokenizer.encode, own.prompt_encoder.with_special_ids
        before, ids = encode(context), encode(f"{context} {text}" if context else text)
        whole = [*begin(before), *ids[len(before) :]]
        scores = log_softmax(model(input_ids=[whole]).logits[0])
        num_text = len(ids) - len(before)
        return sum(scores[index - 1, whole[index]] for index in range(len(whole) - num_text, len(whole)))

    return likelihood


def of_encoder(checkpoint: str, offset: int = 0) -> Callable[[str, str], float]:
    """Pseudo-log-likelihood: each token of the text is masked alone."""
    model, own = from_pretrained(checkpoint), open_checkpoint(checkpoint)
    begin = own.prompt_encoder.prefix_ids
    # Bytes have no mask, so that runs mask with the first id after them.
    mask = WORDS.index("[MASK]") if (Path(checkpoint) / "vocab.txt").exists() else 259

    def likelihood(context: str, text: str) -> float:
        before = own.tokenizer.encode(context)
        ids = own.prompt_encoder.with_special_ids(own.tokenizer.encode(f"{context} {text}".strip()))
        total = 0.0
        for position in range(len(begin) + len(before), len(ids) - len(own.prompt_encoder.suffix_ids)):
            masked = [*ids[:position], mask, *ids[position + 1 :]]
            scores = log_softmax(model(input_ids=[masked]).logits[0])
            total += scores[position - offset, ids[position]]
        return total

    return likelihood


def check_pairs(rows: list[dict[str, Any]], entry: dict[str, Any], likelihood: Callable[..., float]) -> None:
    """Rows and scores of BLiMP are those of likelihoods by hand."""
    points = []
    for row, (good, bad, field, term) in zip(rows, PAIRS, strict=True):
        own, other = likelihood("", good), likelihood("", bad)
        assert (row["target"], row["input"]) == (good, f"{good}\n{bad}")
        assert row["groups"] == [field.replace("/", "_"), term]
        assert (row["log_likelihood"], row["choices"]["other"]) == pytest.approx((own, other), rel=1e-4)
        assert row["prediction"] == (good if own > other else bad)
        points.append(100.0 * (own > other))
    assert entry["method"] == "compare"
    assert entry["scores"] == pytest.approx(
        {
            "accuracy": np.mean(points),
            "morphology_accuracy": points[0],
            "anaphor_agreement_accuracy": points[0],
            "syntax_accuracy": np.mean(points[1:3]),
            "argument_structure_accuracy": np.mean(points[1:3]),
            "syntax_semantics_accuracy": points[3],
            "binding_accuracy": points[3],
        }
    )


def check_items(rows: list[dict[str, Any]], entry: dict[str, Any], likelihood: Callable[..., float]) -> None:
    """Rows and scores of EWoK are those of likelihoods by hand: half a point for each target."""
    points = []
    for context1, context2, target1, target2 in ITEMS:
        for own, other, target in ((context1, context2, target1), (context2, context1, target2)):
            row = rows[len(points)]
            pair = likelihood(own, target), likelihood(other, target)
            assert row["input"] == f"{own} {target}\n{other} {target}"
            assert tuple(row["choices"].values()) == pytest.approx(pair, rel=1e-4)
            points.append(100.0 * (pair[0] > pair[1]))
    assert entry["scores"] == pytest.approx(
        dict.fromkeys(("accuracy", "agent_properties_accuracy"), np.mean(points))
    )


def test_a_decoder_compares_log_likelihoods(gpt2: str, data: str, tmp_path: Path) -> None:
    entry, rows = evaluated(run_of(gpt2, data, tmp_path / "pairs"))
    check_pairs(rows, entry, of_decoder(gpt2))
    assert set(entry["intervals"]) == set(entry["scores"])
    entry, rows = evaluated(run_of(gpt2, data, tmp_path / "items", "ewok"))
    check_items(rows, entry, of_decoder(gpt2))
    entry, _ = evaluated(run_of(gpt2, data, tmp_path / "paradigms", "blimp_paradigms"))
    assert list(entry["scores"]) == ["accuracy", "first_accuracy", "second_accuracy"]


def test_an_encoder_compares_pseudo_log_likelihoods(bert: str, data: str, tmp_path: Path) -> None:
    entry, rows = evaluated(run_of(bert, data, tmp_path / "pairs"))
    check_pairs(rows, entry, of_encoder(bert))
    entry, rows = evaluated(run_of(bert, data, tmp_path / "items", "ewok"))
    check_items(rows, entry, of_encoder(bert))


def test_an_encoder_without_token_types_is_scored_alike(data: str, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "model_dim": 16,
        "mlp_dim": 16,
        "num_heads": 2,
        "num_layers": 1,
    }
    modernbert = write_encoder(tmp_path / "modernbert", ModernBertConfig(**sizes, task="masked_lm"))
    entry, rows = evaluated(run_of(modernbert, data, tmp_path / "pairs"))
    check_pairs(rows, entry, of_encoder(modernbert))


def test_an_encoder_decoder_writes_the_text_after_reading_its_context(
    t5: str, data: str, tmp_path: Path
) -> None:
    entry, rows = evaluated(run_of(t5, data, tmp_path / "items", "ewok"))
    model, own = from_pretrained(t5), open_checkpoint(t5)

    def likelihood(context: str, text: str) -> float:
        target = [*own.tokenizer.encode(text), *own.end_ids[:1]]
        read = np.array([own.prompt_encoder.encode(context)])
        outputs = model(
            input_ids=read, decoder_input_ids=np.array([[own.special_ids.decoder_start, *target[:-1]]])
        )
        return log_softmax(outputs.logits[0])[np.arange(len(target)), target].sum()

    check_items(rows, entry, likelihood)


def trained_run(folder: Path, name: str, objective: Any, model: Any) -> str:
    """A run of a few steps on counting words, in bytes."""
    files = {"train": str(folder / "corpus.txt")}
    task = PretrainingTask(name=f"words_{name}", vocabulary="bytes", files=files, objective=objective)
    tiny_run.run(
        folder,
        model_dir=str(folder / name),
        total_steps=3,
        model=model,
        tasks=(task,),
        train=LoaderConfig(mixture=task.name, batch_size=8, inputs_length=64, targets_length=64, seed=3),
        validations=(),
        evaluations=(),
    )
    return str(folder / name)


SIZES: dict[str, Any] = {"vocab_size": 384, "model_dim": 16, "mlp_dim": 32, "num_heads": 2, "num_layers": 1}


@pytest.mark.parametrize("kind", ["decoder", "encoder", "previous"])
def test_a_trained_run_is_scored_by_the_command(kind: str, data: str, tmp_path: Path) -> None:
    tiny_run.write_data(tmp_path)
    if kind == "decoder":
        config = GPT2Config(**SIZES, max_position_embeddings=64)
        run = trained_run(tmp_path, "decoder", CausalLM(), config)
        likelihood = of_decoder(run)
    else:
        objective = MaskedLM(predicted_from="previous" if kind == "previous" else "mask")
        config = BertConfig(**SIZES, max_position_embeddings=64, task="masked_lm")
        run = trained_run(tmp_path, kind, objective, config)
        likelihood = of_encoder(run, offset=int(kind == "previous"))
    flags = [f"--checkpoint={run}", f"--data_dir={data}", "--batch_size=8", f"--output_dir={tmp_path}/out"]
    assert main(["evaluate", *flags, "--tasks", "blimp", "ewok"]) == 0
    scores = read_json(tmp_path / "out/scores.json")["tasks"]
    rows = {task: list(read_jsonl(tmp_path / f"out/{task}/predictions.jsonl")) for task in scores}
    check_pairs(rows["blimp"], scores["blimp"], likelihood)
    check_items(rows["ewok"], scores["ewok"], likelihood)
    assert "by the likelihood of whole texts" in (tmp_path / "out/report.html").read_text()


def test_an_interrupted_comparison_continues(gpt2: str, data: str, tmp_path: Path) -> None:
    run = run_of(gpt2, data, tmp_path / "out")
    whole = evaluate_suite(run, shown=False)["tasks"]["blimp"]["scores"]
    predictions = tmp_path / "out/blimp/predictions.jsonl"
    shutil.copyfile(predictions, tmp_path / "all.jsonl")
    predictions.write_text("".join(predictions.read_text().splitlines(keepends=True)[:2]))
    (tmp_path / "out/scores.json").unlink()
    assert evaluate_suite(run, shown=False)["tasks"]["blimp"]["scores"] == whole
    assert predictions.read_bytes() == (tmp_path / "all.jsonl").read_bytes()


def test_a_likelihood_that_is_no_number_counts_as_wrong(gpt2: str, data: str, tmp_path: Path) -> None:
    entry, rows = evaluated(run_of(gpt2, data, tmp_path / "out"))
    predictions = tmp_path / "out/blimp/predictions.jsonl"
    rows = [{**row, "choices": {"target": None, "other": -1.0}} for row in rows]
    predictions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    entry, _ = evaluated(run_of(gpt2, data, tmp_path / "out"))
    assert (entry["scores"]["accuracy"], entry["invalid"]) == (0.0, 4)


def test_what_cant_be_compared_is_said(bert: str, gpt2: str, data: str, tmp_path: Path) -> None:
    cola = tmp_path / "data/glue/CoLA"
    cola.mkdir(parents=True)
    (cola / "dev.tsv").write_text("gj04\t1\t\tIt rains.\n")

    def refuses(checkpoint: str, match: str, *tasks: str, **settings: Any) -> None:
        with pytest.raises(ValueError, match=match):
            evaluate_suite(run_of(checkpoint, data, tmp_path / "out", *tasks, **settings), shown=False)

    refuses(bert, "'blimp' compares texts: leave method and num_shots out", method="rank")
    refuses(gpt2, "not texts to compare", "glue_cola_v002", method="compare")
    refuses(
        gpt2,
        r"row 0: a text of \d+ tokens, and 4 are read; .* raise inputs_length: 'ann woke",
        inputs_length=4,
    )
    wanted = "compares likelihoods of texts, which needs an output layer over the vocabulary"
    refuses(write_encoder(tmp_path / "head", bert_of(task="sequence_classification", num_labels=2)), wanted)
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "model_dim": 16,
        "mlp_dim": 16,
        "num_heads": 2,
        "num_layers": 1,
    }
    refuses(
        write_encoder(tmp_path / "electra", ElectraConfig(**sizes, embed_dim=16, task="replaced_tokens")),
        wanted,
    )
