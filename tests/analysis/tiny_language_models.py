"""Tiny encoders and decoders with fresh weights and a vocabulary, for analyses of their neurons."""

from pathlib import Path
from typing import Any

import jax

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining

WORDS = ("red", "blue", "green", "sky", "grass", "rose", "is", "the", "colour", "of", "looks", ".")
TEXTS = [
    "the colour of the sky is blue .",
    "grass is green .",
    "the rose looks red .",
    "the colour of grass is green .",
]
_SIZE: dict[str, Any] = {
    "model_dim": 12,
    "mlp_dim": 16,
    "num_heads": 2,
    "num_layers": 2,
    "max_position_embeddings": 32,
}


def bert(folder: Path, **options: Any) -> Pretrained:
    """Return a masked language model that knows ``WORDS``."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##ning"]
    settings = {**_SIZE, "vocab_size": len(pieces), "task": "masked_lm", **options}
    return _written(folder, BertConfig(**settings), {"vocab.txt": "\n".join([*pieces, ""]).encode()})


def gpt2(folder: Path, **options: Any) -> Pretrained:
    """Return a language model that knows ``WORDS``."""
    (folder / "texts.txt").write_text("\n".join(TEXTS * 3) + "\n")
    file = folder / "words.json"
    VocabularyTraining(kind="words", inputs=str(folder / "texts.txt"), output=file, size=30).run()
    settings = {**_SIZE, "vocab_size": 32, **options}
    return _written(folder, GPT2Config(**settings), {"words.json": file.read_bytes()})


def _written(folder: Path, config: Any, companions: dict[str, bytes]) -> Pretrained:
    params = jax.jit(lambda key: parameters.split(config.build(key))[1])(jax.random.key(0))
    # Fresh weights are so small that every answer is equally likely.
    params = jax.tree.map(lambda weight: 8.0 * weight if weight.ndim > 1 else weight, params)
    write_hugging_face(config, params, folder / "model", companions=companions)
    return t5x_like.from_pretrained(folder / "model")
