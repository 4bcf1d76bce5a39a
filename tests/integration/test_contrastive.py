"""Contrastive learning of vectors from tables of texts: training, the vectors of the run, and its export."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers

import t5x_like
from t5x_like.io.files import read_jsonl
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from t5x_like.retrieval.text_embedder import TextEmbedder
from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.tasks.text_tuples import text_tuples
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.contrastive_learning import Contrastive
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.slow_cases import slow_except
from tests.training.experiments import experiment_of

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
SIZES = {"vocab_size": 384, "model_dim": 32, "mlp_dim": 64, "num_heads": 2}
BERT = BertConfig(**SIZES, num_layers=1, max_position_embeddings=32, task="encoding")
T5_ENCODER = T5Config(
    **{**SIZES, "vocab_size": 4224},
    head_dim=16,
    num_encoder_layers=1,
    num_decoder_layers=1,
    dropout_rate=0.0,
    task="encoding",
)
GPT2 = GPT2Config(**SIZES, num_layers=1, max_position_embeddings=32, task="base")
SENTENCE_PIECES = "data/vocabulary/spiece.model"


def files_of(folder: Path) -> dict[str, str]:
    rows = [f"{word}\t{word.upper()} {index}\t{1 + index % 2}" for index in range(4) for word in WORDS]
    (folder / "pairs.tsv").write_text("query\tanswer\tpoints\n" + "\n".join(rows) + "\n")
    return {"train": str(folder / "pairs.tsv")}


def task(folder: Path, **changes: Any) -> TextTask:
    settings = {"name": folder.name, "vocabulary": "bytes", "texts": ("query", "answer"), "weight": "points"}
    return text_tuples(**{**settings, "files": files_of(folder), **changes})


def run(folder: Path, definition: TextTask, method: Any, **changes: Any) -> list[dict[str, Any]]:
    registry.register([definition])
    config = LoaderConfig(
        mixture=definition.name,
        split="train",
        batch_size=changes.pop("batch_size", 16),
        inputs_length=16,
        targets_length=2,
        layout="encoder",
    )
    settings = {
        "model": BERT,
        "model_dir": str(folder / "run"),
        "total_steps": 40,
        "intervals": Intervals(log_every_steps=20),
        **changes,
    }
    optimizer = AdamW(learning_rate=Constant(value=3e-3))
    train(experiment_of(tasks=(definition,), train=config, method=method, optimizer=optimizer, **settings))
    return [line for line in read_jsonl(f"{folder}/run/metrics.jsonl") if line["split"] == "train"]


CASES: dict[str, tuple[Any, str, Any]] = {
    "bert": (BERT, "bytes", "mean"),
    "t5_encoder": (T5_ENCODER, SENTENCE_PIECES, "mean"),
    "gpt2_last": (GPT2, "bytes", "last"),
    "gpt2_weighted": (GPT2, "bytes", "weighted_mean"),
}


@pytest.mark.parametrize("case", slow_except(CASES, ["gpt2_last"]))
def test_a_text_finds_its_answer_after_training_and_after_export(tmp_path: Path, case: str) -> None:
    model, vocabulary, pooling = CASES[case]
    method = Contrastive(weight="weight", pooling=pooling)
    lines = run(tmp_path, task(tmp_path, vocabulary=vocabulary), method, model=model)
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert lines[-1]["accuracy"] > max(0.4, lines[0]["accuracy"])
    pretrained = from_pretrained(str(tmp_path / "run"))
    assert pretrained.sentence_embedding == t5x_like.SentenceEmbedding(pooling=pooling)
    vectors = pretrained.embed(["one", "ONE 1", "two"])
    assert vectors[0] @ vectors[1] > vectors[2] @ vectors[1]
    indexed = TextEmbedder(pretrained).embed(["one", "ONE 1", "two"], "document")
    np.testing.assert_allclose(indexed, vectors, rtol=1e-5, atol=1e-5)
    t5x_like.export_hugging_face(pretrained, tmp_path / "export")
    opened = from_pretrained(tmp_path / "export")
    assert opened.sentence_embedding.pooling == pooling
    np.testing.assert_allclose(opened.embed(["one", "ONE 1", "two"]), vectors, rtol=1e-5, atol=1e-5)
    # The library that sentence-transformers reads texts by gives the same ids.
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "export/tokenizer.json"))
    assert tokenizer.encode("one").ids == pretrained.embedding_ids("one")


@pytest.mark.slow
def test_a_text_finds_itself_among_others_by_dropout_alone(tmp_path: Path) -> None:
    method = Contrastive(pooling="first", pooler_in_training=True)
    definition = task(tmp_path, texts=("{answer}",), weight=None, keeps_pooler=True)
    model = BertConfig(**SIZES, num_layers=1, max_position_embeddings=32, dropout_rate=0.1, task="base")
    lines = run(tmp_path, definition, method, model=model, total_steps=60)
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert from_pretrained(str(tmp_path / "run")).sentence_embedding.pooling == "first"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "columns"),
    [
        (Contrastive(loss_type="triplet", margin=0.3), {"texts": ("query", "answer", "{points} x")}),
        (Contrastive(loss_type="cosine"), {"score": "points"}),
        (
            Contrastive(loss_type="margin_mse"),
            {"texts": ("query", "answer", "{points} x"), "score": "points"},
        ),
        (Contrastive(dimensions=(32, 8), dimension_weights=(1.0, 0.5), symmetric=True, margin=0.1), {}),
    ],
    ids=["triplet", "cosine", "margin_mse", "matryoshka"],
)
def test_every_loss_falls(tmp_path: Path, method: Contrastive, columns: dict[str, Any]) -> None:
    lines = run(tmp_path, task(tmp_path, **columns), method)
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert ("accuracy" in lines[-1]) == (method.loss_type != "cosine")


@pytest.mark.slow
@pytest.mark.parametrize("num_microbatches", [1, 2])
def test_choices_of_a_model_with_a_head_are_compared_too(tmp_path: Path, num_microbatches: int) -> None:
    definition = TextTask(
        name=tmp_path.name,
        vocabulary="bytes",
        files=files_of(tmp_path),
        input_template="{query}",
        target_template="{answer}",
        head=MultipleChoice(choices=("{query}", "{answer}"), keeps_unlabeled=True),
        streams={"weight": "points"},
    )
    model = BertConfig(**SIZES, num_layers=1, max_position_embeddings=32, task="multiple_choice")
    method = Contrastive(weight="weight")
    lines = run(tmp_path, definition, method, model=model, num_microbatches=num_microbatches)
    assert lines[-1]["loss"] < lines[0]["loss"]
    vectors = from_pretrained(str(tmp_path / "run")).embed(["one", "ONE 1", "two"])
    assert vectors[0] @ vectors[1] > vectors[2] @ vectors[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": LossConfig(label_smoothing=0.1)}, "leave the options of loss out"),
        ({"loss_type": "triplet"}, "loss_type 'triplet' needs a difference of cosines; give margin"),
        ({"loss_type": "triplet", "margin": 0.1, "symmetric": True}, "symmetric=True has no effect"),
        ({"loss_type": "cosine", "margin": 0.1}, "margin=0.1 has no effect"),
        ({"score": "s"}, "score='s' has no effect"),
        ({"margin": -1.0}, "margin is -1.0; give 0 or more"),
        ({"dimension_weights": (1.0,)}, "dimension_weights.* has no effect"),
        ({"dimensions": (8, 8)}, "give different widths"),
        ({"dimensions": (8, 4), "dimension_weights": (1.0,)}, "2 dimensions and 1 dimension_weights"),
        ({"dimensions": (8,), "dimension_weights": (0.0,)}, "give 0 or more, and not all 0"),
        ({"pooler_in_training": True}, "pooling is 'mean'; give pooling='first'"),
    ],
)  # fmt: skip
def test_options_that_can_not_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Contrastive(**settings)


@pytest.mark.parametrize(
    ("columns", "method", "changes", "message"),
    [
        ({"weight": None}, Contrastive(weight="weight"), {}, "reads the stream 'weight', which mixture .* lacks"),
        ({}, Contrastive(loss_type="cosine"), {}, "reads the stream 'score', which mixture .* lacks"),
        ({}, Contrastive(dimensions=(64, 32)), {}, r"the model's vectors have 32; give at most 32"),
        ({}, Contrastive(loss_type="triplet", margin=0.1), {}, "compares 3 texts of an example, and those .* have 2"),
        ({}, Contrastive(pooling="first", pooler_in_training=True), {}, "needs a model with a pooler"),
        ({}, Supervised(), {}, "has texts to compare, and Supervised learns from labels; give method=Contrastive"),
        ({"texts": ("query",)}, Contrastive(), {}, "whose two readings differ by dropout alone"),
        ({}, Contrastive(), {"model": BertConfig(**SIZES, num_layers=1)}, "by a model without a head"),
    ],
    ids=["weights", "scores", "widths", "texts", "pooler", "method", "dropout", "head"],
)  # fmt: skip
def test_data_or_models_that_do_not_fit_are_refused(
    tmp_path: Path, columns: dict, method: Any, changes: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(tmp_path, task(tmp_path, **columns), method, **changes)
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_a_batch_of_one_pair_is_refused_and_one_of_one_triplet_is_not() -> None:
    train_config = LoaderConfig(
        mixture="pairs", batch_size=1, inputs_length=8, targets_length=2, layout="encoder"
    )
    pairs, triplets = (SimpleNamespace(head=("encoding", 0, None), num_rows_of_example=n) for n in (2, 3))
    with pytest.raises(ValueError, match="a batch of 1 example has no other text to compare with"):
        Contrastive().check(BERT, pairs, train_config)
    Contrastive().check(BERT, triplets, train_config)
