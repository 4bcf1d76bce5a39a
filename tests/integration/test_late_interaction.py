"""Late interaction from a table of queries, documents and hard negatives, with a teacher's margins."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import read_jsonl
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.retrieval.passages import Passage
from t5x_like.retrieval.token_reranker import TokenReranker, open_reranker
from t5x_like.retrieval.vector_index import RankedPassage
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.late_interaction import (
    LateInteraction,
    margin_errors,
    ranking_losses,
    scores_of_documents,
)
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.retrieval.tiny_embedder import write_model
from tests.training.experiments import experiment_of

PAIRS = {"whales": "mammals", "paris": "france", "rust": "language", "cats": "sleep"}
MASK = 4  # in the vocabulary of tiny_embedder
MODEL = BertConfig(
    vocab_size=64,
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=16,
    dropout_rate=0.0,
    task="token_classification",
    num_labels=16,
)
METHOD = LateInteraction(dim=16, query_length=6, mask_token_id=MASK, temperature=0.2)


def run(folder: Path, method: LateInteraction, **changes: Any) -> list[dict[str, Any]]:
    """Train on four pairs, each with the answer of another query as a hard negative."""
    write_model(folder / "tokenizer")
    answers = list(PAIRS.values())
    rows = [
        f"{query}\tthe {answer} {end}\t{answers[(index + 1 + shift) % 4]}\t2.0"
        for index, (query, answer) in enumerate(PAIRS.items())
        for shift in range(3)
        for end in ("is", "are .")
    ]
    (folder / "pairs.tsv").write_text("query\tanswer\tother\tmargin\n" + "\n".join(rows) + "\n")
    choices = changes.pop("choices", ("{query}", "{answer}", "{other}"))
    task = TextTask(
        name=f"late_{folder.name}",
        vocabulary=str(folder / "tokenizer"),
        files={"train": str(folder / "pairs.tsv")},
        input_template="{query}",
        target_template="{answer}",
        head=MultipleChoice(choices=choices, keeps_unlabeled=True),
        streams={"margin": "margin"},
    )
    settings = {
        "model": MODEL,
        "model_dir": str(folder / "run"),
        "total_steps": 100,
        "intervals": Intervals(log_every_steps=50),
        "optimizer": AdamW(learning_rate=Constant(value=3e-3)),
        **changes,
    }
    loader = LoaderConfig(
        mixture=task.name, batch_size=16, inputs_length=12, targets_length=2, layout="encoder"
    )
    train(experiment_of(tasks=(task,), train=loader, method=method, **settings))
    return [line for line in read_jsonl(f"{folder}/run/metrics.jsonl") if line["split"] == "train"]


@pytest.mark.slow
def test_a_trained_model_reranks_by_its_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(tmp_path, METHOD)
    assert lines[-1]["loss"] < lines[0]["loss"]
    # The same answers are four times in a batch, and each is an example's own once.
    assert lines[-1]["loss"] == pytest.approx(np.log(4), abs=0.2)
    reranker = open_reranker(str(tmp_path / "run"))
    assert isinstance(reranker, TokenReranker)
    passages = [Passage(id=text, file="", index=0, text=f"the {text} is") for text in PAIRS.values()]
    results = [[RankedPassage(0.5, passage) for passage in passages]] * 4
    ranked = reranker.rerank(list(PAIRS), results)
    assert [each[0].passage.id for each in ranked] == list(PAIRS.values())

    (tmp_path / "texts").mkdir()
    for text in PAIRS.values():
        (tmp_path / "texts" / f"{text}.txt").write_text(f"the {text} is")
    index, model = str(tmp_path / "index"), str(tmp_path / "tokenizer")
    assert main(["index", "build", str(tmp_path / "texts"), "--checkpoint", model, "--output", index]) == 0
    capsys.readouterr()
    search = ["index", "search", index, "paris", "--top_k", "1", "--reranker", str(tmp_path / "run")]
    assert main(search) == 0
    assert "texts/france.txt" in capsys.readouterr().out


@pytest.mark.slow
def test_a_teachers_margins_are_learned_with_pairs_of_an_example_alone(tmp_path: Path) -> None:
    method = LateInteraction(
        dim=16, query_length=0, margin="margin", margin_weight=1.0, in_batch_negatives=False
    )
    start = {"model": CheckpointModel(), "start_from": str(tmp_path / "tokenizer")}  # gets the projection
    lines = run(tmp_path, method, num_microbatches=2, **start)
    assert lines[-1]["margin_error"] < 0.5 * lines[0]["margin_error"]


def test_losses_are_those_of_the_formulas() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(2, 4)).astype(np.float32)
    are_texts = jnp.array([[True, True], [True, False]])
    losses, is_best = ranking_losses(jnp.asarray(scores), are_texts, in_batch_negatives=True)
    kept = np.exp(scores[:, :3])
    np.testing.assert_allclose(losses, -np.log(kept[[0, 1], [0, 2]] / kept.sum(1)), rtol=1e-5)
    assert is_best.tolist() == [float(scores[0, :3].argmax() == 0), float(scores[1, :3].argmax() == 2)]
    paired, _ = ranking_losses(jnp.asarray(scores), are_texts, in_batch_negatives=False)
    pair = np.exp(scores[0, :2])
    np.testing.assert_allclose(paired, [-np.log(pair[0] / pair.sum()), 0.0], rtol=1e-5, atol=1e-6)
    errors, has_margin = margin_errors(jnp.asarray(scores), jnp.array([0.5, jnp.nan]), 2)
    np.testing.assert_allclose(errors, [(scores[0, 0] - scores[0, 1] - 0.5) ** 2, 0.0], rtol=1e-5)
    assert has_margin.tolist() == [1, 0]


def test_a_query_is_compared_with_the_documents_of_all_examples() -> None:
    vectors = jax.nn.one_hot(jnp.array([[[0, 1], [0, 1], [2, 3]], [[2, 3], [2, 0], [1, 0]]]), 4)
    counted = jnp.ones((2, 2, 2), bool).at[0, 1, 1].set(False)
    scores = scores_of_documents(vectors, jnp.ones((2, 2), bool), counted)
    assert scores.tolist() == [[2, 0, 1, 2], [0, 1, 1, 0]]


def test_data_and_settings_that_make_no_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"mask_token_id is 5, and the vocabulary has the mask token 4"):
        run(tmp_path, LateInteraction(dim=16, mask_token_id=5))
    (tmp_path / "two").mkdir()
    method = LateInteraction(dim=16, mask_token_id=MASK, margin="margin")
    with pytest.raises(ValueError, match="margin needs a hard negative in each example"):
        run(tmp_path / "two", method, choices=("{query}", "{answer}"))
    (tmp_path / "head").mkdir()
    with pytest.raises(ValueError, match="needs a head for token classification with 8 scores"):
        run(tmp_path / "head", LateInteraction(dim=8, mask_token_id=MASK))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mask_token_id": None}, "give mask_token_id, which is 103 in BERT's vocabulary"),
        ({"dim": 0}, "dim is 0"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"margin_weight": -1.0}, "margin_weight is -1.0"),
        ({"query_length": -1}, "query_length is -1"),
        ({"loss": LossConfig(label_smoothing=0.1)}, "leave the options of loss out"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_settings_without_a_meaning_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LateInteraction(**{"mask_token_id": MASK, **fields})
