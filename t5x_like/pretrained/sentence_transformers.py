"""Settings of sentence vectors: next to a Hugging Face model in directories of sentence-transformers, and of runs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from etils import epath
from jax.typing import ArrayLike

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json, write_json
from t5x_like.model.layers.pooler import VectorPooling, pool
from t5x_like.nested_values import one_or_several

Pooling = VectorPooling

_OF_RUN = "sentence_embedding.json"
_MODULES, _LENGTH, _PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
_POOLING_FIELDS: Mapping[Pooling, str] = {
    "mean": "pooling_mode_mean_tokens",
    "first": "pooling_mode_cls_token",
    "last": "pooling_mode_lasttoken",
    "max": "pooling_mode_max_tokens",
    "weighted_mean": "pooling_mode_weightedmean_tokens",
}
_MODES: Mapping[str, Pooling] = {
    "mean": "mean",
    "cls": "first",
    "lasttoken": "last",
    "max": "max",
    "weightedmean": "weighted_mean",
}
_NO_LIMIT = 10**9
_MOST_ROWS = 5  # that a message lists
_PACKAGE = "sentence_transformers.models"


@dataclass(frozen=True, kw_only=True)
class SentenceEmbedding:
    """Settings of sentence vectors (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084).

    Attributes:
      pooling: Mean or maximum over a text's tokens, a mean whose weights rise with the position, or the state of the
        first or last token.
      normalized: Scale vectors to length 1, so that inner products are cosines.
      max_length: Number of tokens to cut texts to, special tokens included; ``None`` for as many as the model reads.
      lower_case: Convert texts to lower case.
      prompt: Beginning of every text.
    """

    pooling: Pooling = "mean"
    normalized: bool = True
    max_length: int | None = None
    lower_case: bool = False
    prompt: str = ""

    def __post_init__(self) -> None:
        if self.pooling not in get_args(Pooling):
            raise ValueError(f"pooling is {self.pooling!r}; give one of {', '.join(get_args(Pooling))}")

    def word(self, text: str) -> str:
        """Return a text as the model reads it."""
        text = self.prompt + text
        return text.lower() if self.lower_case else text

    def vectors(self, states: ArrayLike, real: ArrayLike, *, dimensions: int | None = None) -> np.ndarray:
        """Return a vector for each row, float32 [B, D].

        Args:
          states: Hidden states, [B, L, D].
          real: True for tokens that are not padding, [B, L].
          dimensions: Number of the first dimensions to keep; all if not given.

        Raises:
          ValueError: A vector is not finite, or has fewer dimensions.
        """
        vectors = np.asarray(pool(jnp.asarray(states), jnp.asarray(real), self.pooling))
        if bad := np.flatnonzero(~np.isfinite(vectors).all(axis=-1)).tolist():
            listed = ", ".join(map(str, bad[:_MOST_ROWS])) + (", ..." if len(bad) > _MOST_ROWS else "")
            raise ValueError(
                f"the vectors of rows {listed} are NaN or infinite; the weights may be damaged or of a run that "
                "diverged: open an earlier step, or compute in float32"
            )
        return self.truncated(vectors, vectors.shape[-1] if dimensions is None else dimensions)

    def truncated(self, vectors: np.ndarray, dimensions: int) -> np.ndarray:
        """Return the first dimensions of vectors, scaled to length 1 if these settings say so.

        Models that were trained for several widths keep most of their quality (Kusupati et al. 2022,
        https://arxiv.org/abs/2205.13147).

        Args:
          vectors: Vectors, float32 [..., D].
          dimensions: Number of dimensions to keep.

        Raises:
          ValueError: The vectors have fewer dimensions.
        """
        if not 1 <= dimensions <= vectors.shape[-1]:
            raise ValueError(f"dimensions is {dimensions}; give 1 to {vectors.shape[-1]}, the vectors' width")
        kept = vectors[..., :dimensions]
        return kept / np.linalg.norm(kept, axis=-1, keepdims=True) if self.normalized else kept

    def files(self, width: int) -> dict[str, object]:
        """Return the JSON files of a sentence-transformers directory, by their paths in it.

        Args:
          width: Width of the vectors.
        """
        kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
        kinds += [("2_Normalize", "Normalize")] if self.normalized else []
        modules = [
            {"idx": index, "name": str(index), "path": path, "type": f"{_PACKAGE}.{kind}"}
            for index, (path, kind) in enumerate(kinds)
        ]
        modes = {field: name == self.pooling for name, field in _POOLING_FIELDS.items()}
        files: dict[str, Any] = {
            _MODULES: modules,
            "1_Pooling/config.json": {"word_embedding_dimension": width, **modes, "include_prompt": True},
            _LENGTH: {"max_seq_length": self.max_length, "do_lower_case": self.lower_case},
        }
        if self.prompt:
            files[_PROMPTS] = {"prompts": {"default": self.prompt}, "default_prompt_name": "default"}
        return files


def write_sentence_embedding(directory: PathLike, embedding: SentenceEmbedding) -> None:
    """Record the settings of the vectors that a run was trained for.

    Args:
      directory: Folder of the run.
      embedding: Settings.
    """
    write_json(as_path(directory) / _OF_RUN, asdict(embedding))


def recorded_embedding(directory: PathLike) -> SentenceEmbedding | None:
    """Read what ``write_sentence_embedding`` wrote; ``None`` for a run that was trained for something else."""
    path = as_path(directory) / _OF_RUN
    if not path.exists():
        return None
    with refusing_damage(path):
        return SentenceEmbedding(**read_json(path, dict))


class SentenceTransformer(NamedTuple):
    """Directory of sentence-transformers.

    Attributes:
      model: Hugging Face directory in it.
      embedding: Settings of its sentence vectors.
    """

    model: PathLike
    embedding: SentenceEmbedding


def find_sentence_transformer(directory: PathLike) -> SentenceTransformer | None:
    """Read the settings of a sentence-transformers directory; ``None`` for other directories.

    Raises:
      ValueError: A module or a kind of pooling is not supported.
    """
    home = as_path(directory)
    if not (home / _MODULES).exists():
        return None
    with refusing_damage(home / _MODULES):
        modules = {
            str(each["type"]).rpartition(".")[2]: _folder(home, each["path"])
            for each in read_json(home / _MODULES, list)
        }
        others = [name for name in modules if name not in ("Transformer", "Pooling", "Normalize")]
        if others or next(iter(modules), "") != "Transformer" or "Pooling" not in modules:
            raise ValueError(
                f"{home / _MODULES} lists the modules {', '.join(modules)}; Transformer, Pooling and Normalize, in "
                "this order, can be read"
            )
        settings = sorted(modules["Transformer"].glob("sentence_*_config.json"))
        length = read_json(settings[0], dict) if settings else {}
        prompts = read_json(home / _PROMPTS, dict) if (home / _PROMPTS).exists() else {}
        name = prompts.get("default_prompt_name")
        embedding = SentenceEmbedding(
            pooling=_pooling_in(modules["Pooling"] / "config.json", has_prompt=name is not None),
            normalized="Normalize" in modules,
            max_length=length.get("max_seq_length") or _tokenizer_limit(modules["Transformer"]),
            lower_case=bool(length.get("do_lower_case")),
            prompt="" if name is None else prompts["prompts"][name],
        )
        return SentenceTransformer(modules["Transformer"], embedding)


def _folder(home: epath.Path, path: str) -> epath.Path:
    """Return the folder of a module; one outside of the directory is refused."""
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(f"{home / _MODULES} names the folder {path!r}; only folders in {home} are read")
    return home / path


def _tokenizer_limit(model: epath.Path) -> int | None:
    """Return the length in ``tokenizer_config.json``; ``None`` without one, or for the huge one that means no limit."""
    path = model / "tokenizer_config.json"
    limit = read_json(path, dict).get("model_max_length") if path.exists() else None
    return int(limit) if limit is not None and limit < _NO_LIMIT else None


def _pooling_in(path: PathLike, *, has_prompt: bool) -> Pooling:
    fields = read_json(path, dict)
    on = [name for name, value in fields.items() if name.startswith("pooling_mode_") and value]
    names: dict[str, Pooling] = {field: pooling for pooling, field in _POOLING_FIELDS.items()}
    newer = fields.get("pooling_mode")  # since version 6
    if not on and newer:
        on, names = list(one_or_several(newer)), dict(_MODES)
    if len(on) != 1 or on[0] not in names:
        raise ValueError(
            f"{path} pools by {', '.join(on) or 'nothing'}; one of {', '.join(names)} can be read"
        )
    if has_prompt and not fields.get("include_prompt", True):
        raise ValueError(
            f"{path}: include_prompt is false, which leaves a prompt's tokens out; that can't be read"
        )
    return names[on[0]]
