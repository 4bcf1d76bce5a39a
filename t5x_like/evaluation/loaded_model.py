"""A checkpoint ready to be asked: a run of ours or a Hugging Face directory, with the vocabulary beside it."""

import hashlib
import re
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from t5x_like.checkpoints.steps import absolute, find_checkpoints, finished_steps
from t5x_like.inference.decodable import as_ids
from t5x_like.io.files import as_path, read_json
from t5x_like.model import parameters
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.pretrained.head_classes import classes_at
from t5x_like.pretrained.hugging_face import read_hugging_face
from t5x_like.pretrained.model_config import load_run
from t5x_like.pretrained.special_ids import special_ids_of
from t5x_like.pretrained.tokenizer_files import vocabulary_of
from t5x_like.text.batches.batch_layout import SHIFTED_IN
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer

Kind = Literal["encoder", "decoder", "encoder_decoder"]


class LoadedModel(NamedTuple):
    """Weights on a mesh and all that asking them needs."""

    kind: Kind
    config: Any
    graphdef: Any
    params: Any
    mesh: Mesh
    tokenizer: Tokenizer
    start: int  # begins an encoder-decoder's answer
    ends: tuple[int, ...]  # each ends a text
    begin: int | None  # begins every text that is read, if the model wants that
    positions: int | None  # the longest text it can read; None where nothing limits it
    classes: tuple[str, ...]  # names of its head's, in the order of their scores; none where they have none

    @property
    def num_parameters(self) -> int:
        """Numbers in its weights."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))


def load_model(
    checkpoint: str,
    *,
    mesh: Mesh,
    step: int | None = None,
    vocabulary: str = "",
    num_sentinels: int | None = None,
) -> LoadedModel:
    """Reads weights straight onto the mesh. ``vocabulary`` stands for the one beside the weights, if given.

    ``num_sentinels`` are those that the model was trained with, where not given.

    Raises:
      NotNumbersError: weights that are NaN or infinite.
      ValueError: neither a run nor a Hugging Face directory, no vocabulary, or one that doesn't fit the model.
    """
    fields: dict[str, Any] = {}
    if is_run(checkpoint):
        config, params = load_run(checkpoint, step=step, mesh=mesh)
    elif step is not None:
        raise ValueError(f"{checkpoint} is no run, it has no steps; leave --step out")
    else:
        config, params, fields = read_hugging_face(checkpoint, mesh=mesh)
    require_numbers(params, checkpoint if step is None else f"{checkpoint}, step {step}")
    graphdef, _, _ = parameters.abstract(config)
    tokenizer = _tokenizer(checkpoint, vocabulary, num_sentinels, fields, config)
    special = special_ids_of(fields) if fields else None
    kind = kind_of(parameters.merge(graphdef, params))
    # Files that don't say how texts end leave it to their model's usual vocabulary, which need not be theirs.
    ends = tuple(number for number in as_ids(special.eos) if number < config.vocab_size) if special else ()
    own_end = () if tokenizer.special.eos is None else (tokenizer.special.eos,)
    ends = ends or own_end
    begin = _begin_of(fields, tokenizer, ends)
    if kind == "decoder" and was_trained_here(checkpoint):
        begin = SHIFTED_IN
    return LoadedModel(
        kind=kind,
        config=config,
        graphdef=graphdef,
        params=params,
        mesh=mesh,
        tokenizer=tokenizer,
        start=special.decoder_start if special else SHIFTED_IN,
        ends=ends,
        begin=begin,
        positions=_positions(config, fields),
        classes=classes_at(checkpoint),
    )


class NotNumbersError(ValueError):
    """Weights that nothing can be asked: a training that diverged leaves such."""


def require_numbers(params: Any, name: str) -> None:
    """Whether all weights are finite.

    Raises:
      NotNumbersError: some are NaN or infinite.
    """
    finite = jax.jit(lambda tree: jax.tree.map(lambda leaf: jnp.isfinite(leaf).all(), tree))(params)
    bad = [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, good in jax.tree.leaves_with_path(finite)
        if not good
    ]
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise NotNumbersError(
            f"{name}: weights are NaN or infinite ({bad[0]}{more}), nothing can be asked of them; evaluate others, "
            "as of an earlier step"
        )


def is_run(checkpoint: str) -> bool:
    """Whether a directory is a run of ours (or a step of one).

    Raises:
      ValueError: it is nothing that can be evaluated.
    """
    directory = as_path(checkpoint)
    if (directory / "model.json").exists():
        return True
    if (directory / "config.json").exists() or checkpoint.endswith(".gguf"):
        return False
    raise ValueError(
        f"{checkpoint} is neither a run (with model.json) nor a Hugging Face directory (with config.json); give the "
        "directory that train wrote, or that save_pretrained wrote"
    )


def was_trained_here(checkpoint: str) -> bool:
    """Whether ``train`` wrote it. (A conversion has weights and model.json alone.)"""
    return all((as_path(checkpoint) / name).exists() for name in ("model.json", "config.json"))


def trained_on(checkpoint: str) -> str:
    """The task or mixture that a run was trained on; nothing of what was not trained here."""
    if not was_trained_here(checkpoint):
        return ""
    return str(read_json(as_path(checkpoint) / "config.json").get("train.mixture", ""))


def steps_of(checkpoint: str) -> list[int]:
    """The finished steps of a run, in ascending order."""
    return finished_steps(find_checkpoints(absolute(checkpoint))[0])


def identity_of(checkpoint: str, step: int | None) -> str:
    """A short hash that other weights would not have."""
    directory = as_path(checkpoint)
    digest = hashlib.sha256()
    if step is not None:
        files = [find_checkpoints(absolute(checkpoint))[0] / str(step) / "manifest.json"]
    else:
        files = sorted(
            [*directory.glob("*.safetensors"), *directory.glob("*.bin"), directory / "config.json"]
        )
    for file in files:
        if file.exists():
            digest.update(f"{file.name} {file.stat().length}".encode())
            with file.open("rb") as stream:
                digest.update(stream.read(1 << 20))
    return digest.hexdigest()[:16]


def kind_of(model: Any) -> Kind:
    """Which family a model is of, as far as asking it goes.

    Raises:
      ValueError: one that can't be asked.
    """
    from t5x_like.model.families.decoder import Decoder
    from t5x_like.model.families.encoder import Encoder
    from t5x_like.model.families.encoder_decoder import EncoderDecoder
    from t5x_like.model.families.two_stream import TwoStream

    if isinstance(model, TwoStream) and model.heads.words is None:  # it reads both ways, and writes nothing
        return "encoder"
    kinds: dict[type, Kind] = {EncoderDecoder: "encoder_decoder", Decoder: "decoder", Encoder: "encoder"}
    for family, kind in kinds.items():
        if isinstance(model, family):
            return kind
    raise ValueError(
        f"a {type(model).__name__} can't be evaluated on benchmarks yet: encoders, decoders and encoder-decoders can"
    )


def _tokenizer(
    checkpoint: str, vocabulary: str, given: int | None, fields: dict[str, Any], config: Any
) -> Tokenizer:
    num_sentinels = _sentinels_of(checkpoint, config) if given is None else given
    if vocabulary:
        found = open_tokenizer(vocabulary, num_sentinels)
    elif fields:
        found = vocabulary_of(checkpoint, fields, config.vocab_size)
    else:
        found = _beside(checkpoint, num_sentinels)
    if found is None:
        raise ValueError(f"{checkpoint} has no vocabulary beside its weights; name it: --vocabulary PATH")
    if found.vocab_size > config.vocab_size:
        raise ValueError(
            f"the vocabulary {vocabulary or checkpoint} has {found.vocab_size:,} ids, the model embeddings for "
            f"{config.vocab_size:,}: they don't belong together (num_sentinels is {num_sentinels})"
        )
    return found


def _sentinels_of(checkpoint: str, config: Any) -> int:
    """A run's as its tasks had them; others' as their architecture's vocabularies have them."""
    if was_trained_here(checkpoint):
        fields = read_json(as_path(checkpoint) / "config.json")
        found = {fields[name] for name in fields if re.fullmatch(r"tasks\.\d+\.num_sentinels", name)}
        return found.pop() if len(found) == 1 else 100
    return architecture_of(config).num_sentinels


def _beside(checkpoint: str, num_sentinels: int) -> Tokenizer | None:
    from t5x_like.text.vocabularies.opening import vocabulary_files

    return open_tokenizer(checkpoint, num_sentinels) if vocabulary_files(checkpoint) else None


def _begin_of(fields: dict[str, Any], tokenizer: Tokenizer, ends: tuple[int, ...]) -> int | None:
    """LLaMA's and Gemma's texts begin with an id of its own, BART's too; GPT-2's one id for both ends begins none."""
    begin = fields.get("bos_token_id") if fields.get("model_type") not in ("t5", "mt5", "umt5") else None
    return begin if begin is not None and begin == tokenizer.special.bos and begin not in ends else None


def _positions(config: Any, fields: dict[str, Any]) -> int | None:
    for holder, names in (
        (vars(config), ("max_position_embeddings",)),  # RoBERTa's files count two more than texts can have
        (fields, ("n_positions", "max_position_embeddings")),
    ):
        for name in names:
            if isinstance(holder.get(name), int) and fields.get("model_type") not in ("t5", "mt5", "umt5"):
                return holder[name]
    return None
