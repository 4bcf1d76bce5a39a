"""``from_pretrained``: a model from a Hugging Face directory, to be called as transformers' models are."""

import difflib
import functools
import inspect
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.checkpoints.framing import frame, visible, widen
from t5x_like.checkpoints.hugging_face import SpecialIds, read_hugging_face, write_hugging_face
from t5x_like.decoding.beam_search import EarlyStopping, PowerLengthPenalty, beam_search
from t5x_like.decoding.decodable import as_ids
from t5x_like.decoding.sampling import sample
from t5x_like.files import PathLike, as_path
from t5x_like.model import parameters

_IGNORED = -100  # Hugging Face's label for positions that are not to be learned


# Hugging Face's names of what may be asked for.
_OPTIONAL_OUTPUTS = ("loss", "encoder_hidden_states", "decoder_hidden_states")


class Outputs(dict[str, Any]):
    """Numpy arrays under Hugging Face's names, as attributes or by key.

    What was not asked for is ``None`` as an attribute and absent as a key, as in transformers.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self or name in _OPTIONAL_OUTPUTS:
            return self.get(name)
        raise AttributeError(f"no {name!r} here; there are {', '.join(self)}")


def from_pretrained(
    directory: PathLike, *, dtype: Literal["float32", "bfloat16"] = "float32", mesh: Mesh | None = None
) -> "Pretrained":
    """Reads ``config.json`` and safetensors (one file, or shards with an index).

    Weights are float32, computation is in ``dtype``. With a ``mesh`` every weight goes straight to its place on it.

    >>> pretrained = t5x_like.from_pretrained("path/to/t5-v1_1-small")
    >>> pretrained(input_ids=ids, labels=labels).loss
    """
    config, params, special_ids = read_hugging_face(directory, mesh=mesh)
    config = replace(config, compute_dtype=dtype)
    graphdef, _, _ = parameters.abstract(config)
    return Pretrained(parameters.merge(graphdef, params), config, special_ids, directory=directory)


def export_hugging_face(
    model: Any, directory: PathLike, *, config: Any = None, max_shard_bytes: int = 5 * 10**9
) -> None:
    """Writes a ``Pretrained``, or a model with its ``config``, in files that Hugging Face loads.

    Raises:
      ValueError: the directory is not empty, or ``config`` is needed and missing.
    """
    if isinstance(model, Pretrained):
        model, config = model.model, model.config
    if config is None:
        raise ValueError(
            "a model alone doesn't say its sizes: export_hugging_face(model, directory, config=T5Config(…))"
        )
    write_hugging_face(config, parameters.split(model)[1], directory, max_shard_bytes=max_shard_bytes)


class Pretrained:
    """A model with its configuration and, if the directory had one, its vocabulary."""

    def __init__(
        self, model: Any, config: Any, special_ids: SpecialIds, *, directory: PathLike | None = None
    ):
        self.model = model
        self.config = config
        self.special_ids = special_ids
        self._directory = directory
        self._graphdef, self._params = parameters.split(model)
        self._forward = jax.jit(self._compute, static_argnames="collect_hidden")
        self._generate = jax.jit(self._decode, static_argnames=("options",))

    @functools.cached_property
    def vocabulary(self) -> Any:
        """The SentencePiece vocabulary of ``spiece.model``; ``None`` without that file."""
        from t5x_like.text.vocabularies.vocabulary import load_vocabulary

        path = None if self._directory is None else as_path(self._directory) / "spiece.model"
        return load_vocabulary(path) if path is not None and path.exists() else None

    def __call__(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        decoder_input_ids: Any = None,
        decoder_attention_mask: Any = None,
        labels: Any = None,
        output_hidden_states: bool = False,
        **unknown: Any,
    ) -> Outputs:
        """Scores decoder tokens: int arrays [B, M] and [B, L] in, float32 arrays out.

        With ``labels`` (-100 where nothing is to be said) the decoder reads them shifted right, and ``loss`` is their
        mean cross entropy.

        Raises:
          ValueError: ids beyond the vocabulary, or neither decoder tokens nor labels.
          TypeError: an argument that is not one of these.
        """
        _refuse(unknown, self.__call__)
        if decoder_input_ids is None and labels is None:
            raise ValueError("give decoder_input_ids, or labels to make them from")
        if decoder_input_ids is None:
            decoder_input_ids = self._shifted_right(np.asarray(labels))
        inputs, outputs = self._ids(input_ids, "input_ids"), self._ids(decoder_input_ids, "decoder_input_ids")
        batch = Batch(
            encoder_input_tokens=inputs,
            encoder_segment_ids=_mask(attention_mask, inputs),
            decoder_input_tokens=outputs,
            decoder_segment_ids=_mask(decoder_attention_mask, outputs),
            target_tokens=None if labels is None else np.asarray(labels, np.int32),
        )
        with self._precision():
            computed = self._forward(self._params, batch, collect_hidden=output_hidden_states)
        return Outputs({name: _to_numpy(value) for name, value in computed.items()})

    def generate(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        *,
        max_new_tokens: int | None = None,
        max_length: int = 20,
        num_beams: int = 1,
        length_penalty: float = 1.0,
        early_stopping: EarlyStopping = False,
        num_return_sequences: int = 1,
        eos_token_id: int | list[int] | None = None,
        pad_token_id: int | None = None,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_k: int | None = 50,
        top_p: float | None = None,
        seed: int = 0,
        **unknown: Any,
    ) -> np.ndarray:
        """Writes up to ``max_new_tokens`` after the start token: int32 [B * num_return_sequences, 1 + written].

        Greedy by default, by beams with ``num_beams``, drawn (from ``seed``) with ``do_sample``. Rows that end early
        are padded; columns that no row needs are cut off. Without a mask, padding in ``input_ids`` is not looked at.
        Defaults are Hugging Face's: ``max_length``, without ``max_new_tokens``, counts the start token too;
        sampling keeps the 50 best tokens, or all with ``top_k=0``.
        """
        _refuse(unknown, self.generate)
        if do_sample and num_beams > 1:
            raise ValueError("do_sample and num_beams > 1 exclude each other here")
        pad = self.special_ids.pad if pad_token_id is None else pad_token_id
        eos = self.special_ids.eos if eos_token_id is None else eos_token_id
        eos_ids = as_ids(tuple(eos) if isinstance(eos, list | tuple) else eos)
        ids = self._ids(input_ids, "input_ids")
        mask = _mask(attention_mask, ids)
        ids, mask = widen(ids, visible(ids, pad=pad, eos_ids=eos_ids) if mask is None else mask)
        num_new = max_length - 1 if max_new_tokens is None else max_new_tokens
        options = {"max_new_tokens": num_new, "eos_token_id": eos_ids, "pad_token_id": pad}
        if num_beams > 1:
            options |= {
                "num_beams": num_beams,
                "length_penalty": PowerLengthPenalty(length_penalty),
                "early_stopping": early_stopping,
                "num_return_sequences": num_return_sequences,
            }
        elif do_sample:
            ids, mask = (np.repeat(rows, num_return_sequences, axis=0) for rows in (ids, mask))
            options |= {"temperature": temperature, "top_k": top_k or None, "top_p": top_p}
        elif num_return_sequences != 1:
            raise ValueError("greedy decoding writes one sequence a row; use num_beams or do_sample for more")
        key = jax.random.key(seed) if do_sample else None
        with self._precision():
            written = self._generate(self._params, ids, mask, key, options=tuple(options.items()))
        rows = np.asarray(written).reshape(-1, num_new)
        return frame(rows, start=self.special_ids.decoder_start, eos_ids=eos_ids)

    def _precision(self) -> AbstractContextManager[Any]:
        """float32 means float32: left alone, GPUs would multiply in TF32 and TPUs in bfloat16."""
        exact = self.config.compute_dtype == "float32"
        return jax.default_matmul_precision("float32") if exact else nullcontext()

    def _compute(self, params: Any, batch: Batch, *, collect_hidden: bool) -> dict[str, Any]:
        model = parameters.merge(self._graphdef, params)
        predictions = model(batch, collect_hidden=collect_hidden)
        outputs = {
            "logits": predictions.logits,
            "encoder_last_hidden_state": predictions.encoder_output,
            "decoder_last_hidden_state": predictions.decoder_output,
        }
        if collect_hidden:
            outputs |= {
                "encoder_hidden_states": tuple(predictions.encoder_hidden),
                "decoder_hidden_states": tuple(predictions.decoder_hidden),
            }
        if batch.target_tokens is not None:
            outputs["loss"] = _mean_cross_entropy(predictions.logits, batch.target_tokens)
        return outputs

    def _decode(
        self, params: Any, ids: Any, mask: Any, key: Any, *, options: tuple[tuple[str, Any], ...]
    ) -> Any:
        model = parameters.merge(self._graphdef, params)
        settings = dict(options)
        cache = model.start_cache(model.encode(ids, mask), mask, max_length=settings["max_new_tokens"])
        settings["start_tokens"] = jnp.full(ids.shape[0], self.special_ids.decoder_start, jnp.int32)
        if "num_beams" in settings:
            return beam_search(model.decode_step, model.reorder_cache, cache, **settings).tokens
        return sample(model.decode_step, cache, key=key, **settings).tokens

    def _shifted_right(self, labels: np.ndarray) -> np.ndarray:
        start = np.full((len(labels), 1), self.special_ids.decoder_start, labels.dtype)
        shifted = np.concatenate([start, labels[:, :-1]], axis=1)
        return np.where(shifted == _IGNORED, self.special_ids.pad, shifted)

    def _ids(self, ids: Any, name: str) -> np.ndarray:
        ids = np.asarray(ids, np.int32)
        if ids.ndim != 2:
            raise ValueError(f"{name} has shape {ids.shape}; give rows of token ids, [batch, length]")
        outside = ids[(ids < 0) | (ids >= self.config.vocab_size)]
        if outside.size:
            raise ValueError(
                f"{name} holds id {outside[0]}; the model has the ids 0 … {self.config.vocab_size - 1}"
            )
        return ids


def _mask(mask: Any, ids: np.ndarray) -> np.ndarray | None:
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.shape != ids.shape:
        raise ValueError(
            f"a mask of shape {mask.shape} for ids of shape {ids.shape}; give a 0 or 1 for each id"
        )
    return (mask != 0).astype(np.int32)


def _mean_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    learned = labels != _IGNORED
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, jnp.where(learned, labels, 0)[..., None], axis=-1)[..., 0]
    return -jnp.sum(chosen * learned) / jnp.sum(learned)


def _to_numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_to_numpy(part) for part in value)
    return np.asarray(value, np.float32)


def _refuse(unknown: dict[str, Any], function: Any) -> None:
    for name in unknown:
        names = [known for known in inspect.signature(function).parameters if known != "unknown"]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise TypeError(f"no argument {name!r}; {hint}")
