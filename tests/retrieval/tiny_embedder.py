"""A BERT of few weights in a directory of sentence-transformers, which reads words of a small vocabulary."""

import json
from dataclasses import replace
from pathlib import Path

from t5x_like.retrieval.text_embedder import EmbeddingSettings, TextEmbedder
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import write

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    *("whales", "are", "mammals", "paris", "is", "the", "capital", "of", "france", "rust", "a", "language"),
    *("query", "passage", ":", ".", "which", "animals", "cats", "sleep", "all", "day", "long"),
)


def write_model(directory: Path, *, max_length: int = 32, **fields: object) -> Path:
    """Write the model with fresh weights, and a vocabulary of whole words.

    Args:
      directory: Directory to write.
      max_length: Tokens that texts are cut to.
      **fields: Fields of ``config_sentence_transformers.json``.
    """
    config = replace(TINY["bert"], vocab_size=64, max_position_embeddings=max_length)
    write(config, directory)
    (directory / "vocab.txt").write_text("\n".join((*_SPECIAL, *WORDS)) + "\n")
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(kinds.items())
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length}))
    if fields:
        (directory / "config_sentence_transformers.json").write_text(json.dumps(fields))
    return directory


def open_embedder(directory: Path, settings: EmbeddingSettings | None = None) -> TextEmbedder:
    """Write the model and open it.

    Args:
      directory: Directory to write.
      settings: Settings of the vectors.
    """
    return TextEmbedder.open(write_model(directory), settings, batch_size=4)
