"""A cross-encoder that is trained on a table of queries, passages and labels orders search results anew."""

import dataclasses
from pathlib import Path

import pytest

from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.retrieval.passages import Passage
from t5x_like.retrieval.reranker import Reranker
from t5x_like.retrieval.token_reranker import open_reranker
from t5x_like.retrieval.vector_index import RankedPassage
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import Regression, SequenceClassification
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.retrieval.tiny_embedder import write_model
from tests.training.experiments import experiment_of

TEXTS = ("{query}", "{passage}")
HEADS = {
    "regression": Regression(texts=TEXTS, lowest=0.0, highest=1.0),
    "classes": SequenceClassification(texts=TEXTS, classes=("0", "1")),
}
# Letters of query and passage that belong together.
RELEVANT = {"regression": ("aa", "ba"), "classes": ("aa", "bb")}
MODEL = BertConfig(
    vocab_size=384,
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=32,
    dropout_rate=0.0,
    task="sequence_classification",
)


def train_reranker(folder: Path, kind: str) -> str:
    """Train on pairs of a query and a passage of three equal letters."""
    head = HEADS[kind]
    rows = [
        f"{query}\t{letter * 3}{end}\t{int(query + letter in RELEVANT[kind])}"
        for query in "ab"
        for letter in "ab"
        for end in ("", ".", "!", "?")
    ]
    (folder / "pairs.tsv").write_text("query\tpassage\tlabel\n" + "\n".join(rows) + "\n")
    task = TextTask(
        name=folder.name,
        vocabulary="bytes",
        files={"train": str(folder / "pairs.tsv")},
        input_template="{query}",
        target_template="{label}",
        head=head,
    )
    loader = LoaderConfig(
        mixture=folder.name, batch_size=16, inputs_length=16, targets_length=2, layout="encoder"
    )
    run = str(folder / "run")
    train(
        experiment_of(
            tasks=(task,),
            train=loader,
            model=dataclasses.replace(MODEL, num_labels=head.head.num_labels),
            optimizer=AdamW(learning_rate=Constant(value=3e-3)),
            model_dir=run,
            total_steps=150,
            intervals=Intervals(log_every_steps=50),
        )
    )
    return run


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_results_are_ordered_by_what_the_head_has_learned(tmp_path, head):
    reranker = open_reranker(train_reranker(tmp_path, head))
    passages = [Passage(id=text, file="", index=0, text=text) for text in ("aaa", "bbb", "bbb!", "aaa.")]
    results = [[RankedPassage(0.5, passage) for passage in passages]] * 2
    for query, of_query in zip("ab", reranker.rerank(["a", "b"], results), strict=True):
        relevant = [query + each.passage.id[0] in RELEVANT[head] for each in of_query]
        assert relevant == [True, True, False, False]
        assert of_query[1].score > of_query[2].score + 0.2


def test_models_that_score_no_pairs_are_refused(tmp_path):
    opened = open_checkpoint(write_model(tmp_path / "model"), needs_tokenizer=True)
    three = dataclasses.replace(MODEL, num_labels=3)
    with pytest.raises(
        ValueError, match="has a head for sequence_classification with 3 outputs, and a reranker"
    ):
        Reranker(dataclasses.replace(opened, config=three))
    with pytest.raises(ValueError, match="has a head for pretraining, and a reranker"):
        Reranker(opened)
