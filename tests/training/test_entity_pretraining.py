"""A model that reads entities: pretrained from a BERT and vectors, continued, and fine-tuned on marked mentions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.ancestors.initial_entities import EntityVectorsStart, with_bert
from t5x_like.ancestors.word_vectors.vector_files import write_vectors
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.entity_bert import EntityBertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import MentionClassification
from t5x_like.text.objectives.entity_denoising import EntityDenoising
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.entity_pretraining import EntityPretraining
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.run_config import Intervals, RunConfig
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.train import train
from t5x_like.training.training_data import TrainingData

NAMES = ("ann", "bob", "oslo", "rome")
VECTORS = WordVectors(NAMES, np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32))
SIZES: dict[str, Any] = {
    "vocab_size": 384,
    "model_dim": 16,
    "mlp_dim": 24,
    "num_heads": 2,
    "num_layers": 3,
    "max_position_embeddings": 40,
    "task": "masked_lm",
}
MODEL = EntityBertConfig(**SIZES, num_entity_layers=1, num_entities=4, entity_dim=8, num_entity_heads=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("entities")
    write_vectors(folder / "entities.vec", VECTORS)
    documents, rows = [], []
    for person in NAMES[:2]:
        for place in NAMES[2:]:
            text = f"{person} in {place}"
            head, tail = [0, 3], [7, len(text)]
            entities = [[*head, person], [*tail, place]]
            documents.append({"text": text, "entities": entities})
            label = "lives" if (person, place) in {("ann", "oslo"), ("bob", "rome")} else "works"
            rows.append({**documents[-1], "head": head, "tail": tail, "label": label})
    for name, lines in (("text", documents * 4), ("rows", rows)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    config = BertConfig(**SIZES)
    write_hugging_face(config, fresh_params(config, mesh=None, seed=5), folder / "bert")
    return folder


def loader(mixture: str, **changes: Any) -> LoaderConfig:
    return LoaderConfig(mixture=mixture, batch_size=8, inputs_length=32, targets_length=32, **changes)


def pretraining(folder: Path, **changes: Any) -> Experiment:
    task = PretrainingTask(
        name="linked",
        vocabulary="bytes",
        files={"train": str(folder / "text.jsonl"), "validation": str(folder / "text.jsonl")},
        spans_column="entities",
        entity_names=str(folder / "entities.vec"),
        objective=EntityDenoising(objective=MaskedLM(input_format="documents"), num_entities=4),
    )
    held_out = loader("linked", split="validation", shuffle=False, repeat=False)
    settings: dict[str, Any] = {
        "model": MODEL,
        "data": TrainingData(tasks=(task,), train=loader("linked"), validations=(held_out,)),
        "optimizer": AdamW(learning_rate=0.01),
        "mesh": MeshConfig(),
        "start": EntityVectorsStart(entity_vectors=str(folder / "entities.vec"), bert=str(folder / "bert")),
        "method": EntityPretraining(),
    }
    return Experiment(**(settings | changes))


@pytest.fixture(scope="module")
def run(folder) -> Path:
    """A run of 4 steps that ended after 2, and continued with the vectors that its checkpoint leaves out."""
    for total_steps in (2, 4):
        intervals = Intervals(log_every_steps=2, evaluate_every_steps=0, save_every_steps=2)
        settings = RunConfig(model_dir=str(folder / "run"), total_steps=total_steps, intervals=intervals)
        train(pretraining(folder, run=settings))
    return folder / "run"


def logged(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_pretraining_logs_the_loss_of_entities_and_measures_it_on_held_out_rows(run):
    for split in ("train", "validation/linked"):
        (*_, last) = [line for line in logged(run) if line["split"] == split]
        assert 0 < last["entity_loss"] < 2
        assert 0 <= last["entity_accuracy"] <= 1


def test_the_vectors_of_entities_stay_and_are_read_from_their_file(run, folder):
    params = parameters.flatten(open_checkpoint(run).params)
    np.testing.assert_array_equal(params["entities/table"], VECTORS.table)
    record = read_json(run / "frozen.json", dict)
    assert list(record["checksums"]) == ["entities/table"]
    assert record["inputs"]["entity_vectors"] == str(folder / "entities.vec")
    kept = (folder / "entities.vec").read_bytes()
    try:
        write_vectors(folder / "entities.vec", WordVectors(NAMES, VECTORS.table + 1))
        with pytest.raises(ValueError, match="which have changed since: entities/table"):
            open_checkpoint(run)
    finally:
        (folder / "entities.vec").write_bytes(kept)


def test_berts_layers_are_divided_among_both_stacks(folder):
    params = fresh_params(MODEL, mesh=None, seed=0)
    flat = parameters.flatten(with_bert(params, MODEL, folder / "bert", step=None, mesh=None)[0])
    bert = parameters.flatten(fresh_params(BertConfig(**SIZES), mesh=None, seed=5))
    name = "feed_forward/up/kernel"
    np.testing.assert_array_equal(flat[f"encoder/layers/0/{name}"], bert[f"encoder/layers/0/{name}"][:2])
    np.testing.assert_array_equal(
        flat[f"entity_encoder/layers/block/{name}"], bert[f"encoder/layers/0/{name}"][2:]
    )
    np.testing.assert_array_equal(flat["embedding/tokens/table"], bert["embedding/tokens/table"])


def test_marked_mentions_are_classified_from_the_pretrained_run(run, folder):
    task = TextTask(
        name="relations",
        vocabulary="bytes",
        files={"train": str(folder / "rows.jsonl"), "validation": str(folder / "rows.jsonl")},
        input_template="{text}",
        target_template="{label}",
        head=MentionClassification(
            classes=("lives", "works"),
            mentions={"head": "#", "tail": "$"},
            entities="entities",
            entity_names=str(folder / "entities.vec"),
        ),
    )
    rows = loader("relations", layout="encoder")
    finished = train(
        pretraining(
            folder,
            model=CheckpointModel(),
            data=TrainingData(
                tasks=(task,),
                train=rows,
                evaluations=(HeadEvaluation(mixture="relations", inputs_length=32),),
            ),
            start=PretrainedWeights(start_from=str(run)),
            method=Supervised(),
            optimizer=AdamW(learning_rate=0.003),
            run=RunConfig(
                model_dir=str(folder / "fine_tuned"),
                total_steps=80,
                intervals=Intervals(log_every_steps=40, evaluate_every_steps=0, save_every_steps=0),
            ),
        )
    )
    assert finished is not None
    (*_, last) = [line for line in logged(folder / "fine_tuned") if line["split"] == "evaluation/relations"]
    assert last["accuracy"] == 100.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": BertConfig(**SIZES)}, "reads no entities; take EntityBertConfig|reads none"),
        (
            {
                "model": EntityBertConfig(
                    **SIZES, num_entity_layers=1, num_entities=5, entity_dim=8, num_entity_heads=2
                )
            },
            "has 4 vectors of 8 dimensions, and the model num_entities=5; give it num_entities=4",
        ),
        (
            {
                "model": EntityBertConfig(
                    **SIZES, num_entity_layers=1, num_entities=4, entity_dim=6, num_entity_heads=2
                )
            },
            "and the model entity_dim=6; give it entity_dim=8",
        ),
    ],
)
def test_vectors_that_dont_fit_are_refused(folder, changes, message):
    with pytest.raises(ValueError, match=message):
        EntityVectorsStart(entity_vectors=str(folder / "entities.vec")).check_weights(changes["model"], None)


def test_names_in_another_order_than_the_vectors_are_refused(folder, tmp_path):
    (tmp_path / "names.txt").write_text("ann\noslo\nbob\nrome\n")
    start = EntityVectorsStart(
        entity_vectors=str(folder / "entities.vec"), entity_names=str(tmp_path / "names.txt")
    )
    with pytest.raises(
        ValueError, match=r"vector 2 of .* is that of 'bob', and the name there in .* is 'oslo'"
    ):
        start.check_weights(MODEL, None)


def test_the_method_needs_a_model_and_data_with_entities(folder):
    with pytest.raises(ValueError, match="EntityPretraining needs a model that reads entities"):
        EntityPretraining().check(BertConfig(**SIZES), None, loader("linked"))
    files = {"train": str(folder / "text.jsonl")}
    plain = PretrainingTask(
        name="plain", vocabulary="bytes", files=files, objective=MaskedLM(input_format="documents")
    )
    data = TrainingData(tasks=(plain,), train=loader("plain"))
    with pytest.raises(ValueError, match="EntityPretraining reads the stream 'entities'"):
        train(pretraining(folder, data=data, run=RunConfig(model_dir=str(folder / "bad"), total_steps=1)))
