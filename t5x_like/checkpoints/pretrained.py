"""``from_pretrained``: a model from a Hugging Face directory, to be called as transformers' models are."""

import functools
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.checkpoints.arguments import (
    IGNORED,
    check_generation,
    check_rows,
    mask_rows,
    refuse_unknown,
    shift_right,
    token_rows,
)
from t5x_like.checkpoints.framing import frame, visible, widen
from t5x_like.checkpoints.hugging_face import read_hugging_face, special_ids_of, write_hugging_face
from t5x_like.checkpoints.outputs import Outputs, to_outputs
from t5x_like.decoding.beam_search import EarlyStopping, PowerLengthPenalty, beam_search
from t5x_like.decoding.decodable import as_ids
from t5x_like.decoding.sampling import sample
from t5x_like.files import PathLike, as_path
from t5x_like.model import parameters

Dtype = Literal["float32", "bfloat16"]

_BYTE_SENTINELS = 125  # ByT5's (Xue et al. 2022, https://arxiv.org/abs/2105.13626)


def from_pretrained(
    directory: PathLike, *, dtype: Dtype = "float32", mesh: Mesh | None = None
) -> "Pretrained":
    """Reads ``config.json`` and safetensors (one file, or shards with an index).

    Weights are float32, computation is in ``dtype``. With a ``mesh`` every weight goes straight to its place on it.

    >>> pretrained = t5x_like.from_pretrained("path/to/t5-v1_1-small")
    >>> pretrained(input_ids=ids, labels=labels).loss

    Raises:
      ValueError: not such a directory, a model that we don't know, or weights that don't fit its configuration.
    """
    if dtype not in get_args(Dtype):
        raise ValueError(f"dtype is {dtype!r}; compute in one of {', '.join(get_args(Dtype))}")
    config, params, fields = read_hugging_face(directory, mesh=mesh)
    config = replace(config, compute_dtype=dtype)
    graphdef, _, _ = parameters.abstract(config)
    return Pretrained(parameters.merge(graphdef, params), config, fields, directory=directory)


def export_hugging_face(
    model: Any, directory: PathLike, *, config: Any = None, max_shard_bytes: int = 5 * 10**9
) -> None:
    """Writes a ``Pretrained``, or a model with its ``config``, in files that Hugging Face loads.

    A ``Pretrained`` takes along what it came with: special ids, other fields of ``config.json``, ``spiece.model``.

    Raises:
      ValueError: the directory is not empty, or ``config`` is needed and missing.
    """
    fields, companions = {}, ()
    if isinstance(model, Pretrained):
        fields, companions = model.fields, model.companions
        model, config = model.model, model.config
    if config is None:
        raise ValueError(
            "a model alone doesn't say its sizes: export_hugging_face(model, directory, config=T5Config(…))"
        )
    write_hugging_face(
        config,
        parameters.split(model)[1],
        directory,
        fields=fields,
        companions=companions,
        max_shard_bytes=max_shard_bytes,
    )


class Pretrained:
    """A model with its configuration and, if the directory had one, its vocabulary.

    ``fields`` are those of ``config.json``, for what is not about the model.
    """

    def __init__(
        self,
        model: Any,
        config: Any,
        fields: Mapping[str, Any] | None = None,
        *,
        directory: PathLike | None = None,
    ):
        self.model = model
        self.config = config
        self.fields = fields or {}
        self.special_ids = special_ids_of(self.fields)
        self._directory = directory
        self._graphdef, self._params = parameters.split(model)
        self._forward = jax.jit(self._compute, static_argnames="collect_hidden")
        self._generate = jax.jit(self._decode, static_argnames=("options",))

    @property
    def companions(self) -> tuple[PathLike, ...]:
        """The files beside the weights that belong to the model."""
        path = None if self._directory is None else as_path(self._directory) / "spiece.model"
        return (path,) if path is not None and path.exists() else ()

    @functools.cached_property
    def vocabulary(self) -> Any:
        """The SentencePiece vocabulary of ``spiece.model``, or ByT5's bytes; ``None`` where the directory has none.

        Raises:
          ValueError: it has more ids than the model has embeddings.
        """
        is_bytes = self.fields.get("tokenizer_class") == "ByT5Tokenizer"
        if not is_bytes and not self.companions:
            return None
        from t5x_like.text.vocabularies.vocabulary import BYTES, load_vocabulary

        if is_bytes:
            vocabulary = load_vocabulary(BYTES, num_sentinels=_BYTE_SENTINELS)
        else:
            vocabulary = load_vocabulary(self.companions[0])
        if vocabulary.vocab_size > self.config.vocab_size:
            raise ValueError(
                f"the vocabulary of {self._directory} has {vocabulary.vocab_size:,} ids, its model embeddings for "
                f"{self.config.vocab_size:,}: they don't belong together"
            )
        return vocabulary

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
        refuse_unknown(unknown, self.__call__)
        vocab_size, ids = self.config.vocab_size, self.special_ids
        inputs = token_rows(input_ids, "input_ids", vocab_size)
        targets = None if labels is None else token_rows(labels, "labels", vocab_size, is_label=True)
        if decoder_input_ids is not None:
            outputs = token_rows(decoder_input_ids, "decoder_input_ids", vocab_size)
        elif targets is not None:
            outputs = shift_right(targets, start=ids.decoder_start, pad=ids.pad)
        else:
            raise ValueError("give decoder_input_ids, or labels to make them from")
        check_rows(inputs, outputs, targets)
        batch = Batch(
            encoder_input_tokens=inputs,
            encoder_segment_ids=mask_rows(attention_mask, "attention_mask", inputs),
            decoder_input_tokens=outputs,
            decoder_segment_ids=mask_rows(decoder_attention_mask, "decoder_attention_mask", outputs),
            target_tokens=targets,
        )
        with self._precision():
            computed = self._forward(self._params, batch, collect_hidden=output_hidden_states)
        return to_outputs(computed)

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
        return_dict_in_generate: bool = False,
        **unknown: Any,
    ) -> Any:
        """Writes up to ``max_new_tokens`` after the start token: int32 [B * num_return_sequences, 1 + written].

        Greedy by default, by beams with ``num_beams``, drawn (from ``seed``) with ``do_sample``. Rows that end early
        are padded; columns that no row needs are cut off. Without a mask, padding in ``input_ids`` is not looked at.
        Defaults are Hugging Face's: ``max_length``, without ``max_new_tokens``, counts the start token too;
        sampling keeps the 50 best tokens, or all with ``top_k=0``. ``return_dict_in_generate`` gives
        ``.sequences`` and, of beams, ``.sequences_scores``.

        Raises:
          ValueError: a setting out of its range, or settings that exclude each other.
        """
        refuse_unknown(unknown, self.generate)
        check_generation(
            num_beams=num_beams,
            num_return_sequences=num_return_sequences,
            do_sample=do_sample,
            temperature=temperature,
            early_stopping=early_stopping,
        )
        pad = self.special_ids.pad if pad_token_id is None else pad_token_id
        eos = self.special_ids.eos if eos_token_id is None else eos_token_id
        eos_ids = as_ids(tuple(eos) if isinstance(eos, list | tuple) else eos)
        ids = token_rows(input_ids, "input_ids", self.config.vocab_size)
        mask = mask_rows(attention_mask, "attention_mask", ids)
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
        key = jax.random.key(seed) if do_sample else None
        with self._precision():
            written, scores = self._generate(self._params, ids, mask, key, options=tuple(options.items()))
        rows = np.asarray(written).reshape(-1, num_new)
        sequences = frame(rows, start=self.special_ids.decoder_start, eos_ids=eos_ids)
        if not return_dict_in_generate:
            return sequences
        found = {} if scores is None else {"sequences_scores": np.asarray(scores).reshape(-1)}
        return Outputs(sequences=sequences, **found)

    def _precision(self) -> AbstractContextManager[Any]:
        """float32 means float32: left alone, GPUs would multiply in TF32 and TPUs in bfloat16."""
        exact = self.config.compute_dtype == "float32"
        return jax.default_matmul_precision("float32") if exact else nullcontext()

    def _compute(self, params: Any, batch: Batch, *, collect_hidden: bool) -> dict[str, Any]:
        model = parameters.merge(self._graphdef, params)
        predictions = model(batch, collect_hidden=collect_hidden)
        predictions = predictions._replace(logits=predictions.logits[..., : self.config.vocab_size])
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
            beams = beam_search(model.decode_step, model.reorder_cache, cache, **settings)
            return beams.tokens, beams.scores
        return sample(model.decode_step, cache, key=key, **settings).tokens, None


def _mean_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    learned = labels != IGNORED
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, jnp.where(learned, labels, 0)[..., None], axis=-1)[..., 0]
    return -jnp.sum(chosen * learned) / jnp.sum(learned)
