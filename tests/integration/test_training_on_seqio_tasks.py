"""Training on tasks registered with seqio, with each of seqio's own vocabularies."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import seqio
import tensorflow as tf

from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import pad_size
from t5x_like.training.train import train
from tests.integration.tiny_run import MODEL, experiment

SIZE = 384  # embeddings of all but one model, so that they share one compiled program
WORDS = [f"w{index}" for index in range(SIZE - 8)]


def sentencepiece(tmp_path):
    del tmp_path
    file = str(Path(seqio.__file__).parent / "test_data/sentencepiece/sentencepiece.model")
    return seqio.SentencePieceVocabulary(
        file, extra_ids=SIZE - seqio.SentencePieceVocabulary(file, 0).vocab_size
    )


def word_pieces(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]) + "\n")
    return seqio.BertWordPieceVocabulary(
        str(file), token_out_type=tf.int32, start_of_sequence_id=2, end_of_sequence_id=3
    )


VOCABULARIES = {
    "SentencePieceVocabulary": sentencepiece,
    "BertWordPieceVocabulary": word_pieces,
    "ByteVocabulary": lambda _: seqio.ByteVocabulary(extra_ids=100),
    "PassThroughVocabulary": lambda _: seqio.PassThroughVocabulary(size=SIZE - 8, eos_id=1),
    "UnigramVocabulary": lambda _: seqio.UnigramVocabulary(WORDS, split_on_space=True),
    "PartialCodepointVocabulary": lambda _: seqio.PartialCodepointVocabulary(range(32, SIZE)),
    "FullCodepointVocabulary": lambda _: seqio.FullCodepointVocabulary(),
}


def rows(name):
    words = [f"w{index}" for index in range(20)]
    texts = {"inputs": [" ".join(words[k : k + 4]) for k in range(16)], "targets": words[:16]}
    if name != "PassThroughVocabulary":
        return tf.data.Dataset.from_tensor_slices(texts)
    return tf.data.Dataset.from_tensor_slices(
        {"inputs": np.arange(3, 67, dtype=np.int32).reshape(16, 4), "targets": np.full((16, 2), 5, np.int32)}
    )


def with_known_rank(dataset):
    """Give tokens one dimension: seqio squeezes word pieces, a single one to a scalar."""
    return dataset.map(
        lambda row: {
            key: value if key.endswith("_pretokenized") else tf.reshape(value, [-1])
            for key, value in row.items()
        }
    )


def register(name, vocabulary):
    feature = seqio.Feature(vocabulary, add_eos=name not in ("UnigramVocabulary", "PassThroughVocabulary"))
    seqio.TaskRegistry.add(
        f"seqio_{name.lower()}",
        source=seqio.FunctionDataSource(
            lambda split, shuffle_files, seed=None: rows(name),  # noqa: ARG005 - seqio's signature
            splits=["train"],
            num_input_examples={"train": 16},
        ),
        preprocessors=[
            *([] if name == "PassThroughVocabulary" else [seqio.preprocessors.tokenize]),
            with_known_rank,
            seqio.preprocessors.append_eos,
        ],
        output_features={"inputs": feature, "targets": feature},
    )
    return f"seqio_{name.lower()}"


def test_every_vocabulary_of_seqio_is_covered():
    results = {
        name
        for name, value in vars(seqio.vocabularies).items()
        if isinstance(value, type) and issubclass(value, seqio.Vocabulary) and value is not seqio.Vocabulary
    }
    assert results == set(VOCABULARIES)


# Learned, computed, and none. FullCodepointVocabulary has over a million embeddings.
ALWAYS = ("SentencePieceVocabulary",)
NAMES = [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.slow) for name in VOCABULARIES]


@pytest.mark.parametrize("name", NAMES)
def test_a_seqio_task_trains_and_continues(tmp_path, name):
    registration.connect()
    vocabulary = VOCABULARIES[name](tmp_path)
    size = pad_size(int(vocabulary.vocab_size))
    assert size == SIZE or name == "FullCodepointVocabulary"
    settings = {
        "model": replace(
            MODEL,
            vocab_size=size,
            model_dim=8,
            mlp_dim=8,
            num_heads=1,
            head_dim=8,
            num_encoder_layers=1,
            num_decoder_layers=1,
        ),
        "tasks": (),
        "train": LoaderConfig(
            mixture=register(name, vocabulary), batch_size=8, inputs_length=24, targets_length=4
        ),
    }
    num_steps = 2 if name == "SentencePieceVocabulary" else 1
    for total_steps in range(1, num_steps + 1):
        train(experiment(tmp_path, model_dir=str(tmp_path / "run"), total_steps=total_steps, **settings))
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert all(np.isfinite(value) for line in lines for key, value in line.items() if key == "loss")
    assert max(line["step"] for line in lines if "step" in line) == num_steps
    if name == "SentencePieceVocabulary":  # saved with the run
        assert open_tokenizer(tmp_path / "run").encode("a test") == list(vocabulary.encode("a test"))
