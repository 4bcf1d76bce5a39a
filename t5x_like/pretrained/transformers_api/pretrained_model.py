"""``from_pretrained``: a checkpoint to be called as transformers' models are."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.inference.beam_search import EarlyStopping
from t5x_like.inference.decodable import as_ids
from t5x_like.inference.generator import continue_prompts
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.heads import pool
from t5x_like.model.zoo.model_tasks import GENERATIVE_TASKS, ModelTask
from t5x_like.pretrained.checkpoint import Checkpoint, Dtype, Family, check_dtype, family_of, open_checkpoint
from t5x_like.pretrained.hugging_face import write_hugging_face
from t5x_like.pretrained.tokenizer_files import tokenizer_files
from t5x_like.pretrained.transformers_api import (
    decoder_call,
    encoder_call,
    encoder_decoder_call,
    recurrent_call,
    two_stream_call,
)
from t5x_like.pretrained.transformers_api.call import Call, Context, Outputs, to_outputs
from t5x_like.pretrained.transformers_api.call_arguments import (
    argument_names,
    check_generation,
    refuse_unknown,
)
from t5x_like.pretrained.transformers_api.generation import padding_of, read_prompts, search_settings
from t5x_like.text.vocabularies.tokenizer import Tokenizer

# How the models of each family are called.
CALLS: dict[Family, Call] = {
    "decoder": decoder_call,
    "encoder": encoder_call,
    "encoder_decoder": encoder_decoder_call,
    "recurrent": recurrent_call,
    "two_stream": two_stream_call,
}


def from_pretrained(
    directory: PathLike,
    *,
    dtype: Dtype = "float32",
    mesh: Mesh | None = None,
    task: ModelTask | None = None,
    num_labels: int | None = None,
    seed: int = 0,
    step: int | None = None,
) -> "PretrainedModel":
    """Opens a checkpoint to be called as transformers' models are.

    >>> pretrained = t5x_like.from_pretrained("path/to/t5-v1_1-small")
    >>> pretrained(input_ids=ids, labels=labels).loss

    Args:
      directory: a Hugging Face directory, a GGUF file, a T5X checkpoint, or a run of ours.
      dtype: of computation; weights are float32.
      mesh: places every weight straight on these devices.
      task: the head to use; that of the class in ``config.json`` if not given.
      num_labels: the outputs of that head.
      seed: of a head that the files lack. It is drawn, with a warning.
      step: a run's step; its newest good one if not given.

    Raises:
      ValueError: no checkpoint, a model that we don't know, or weights that don't fit its configuration.
    """
    check_dtype(dtype)
    checkpoint = open_checkpoint(
        directory, mesh=mesh, step=step, head=task, num_labels=num_labels, seed=seed, finite=False
    )
    return PretrainedModel(checkpoint.computing_in(dtype))


def export_hugging_face(
    model: Any, directory: PathLike, *, config: Any = None, max_shard_bytes: int = 5 * 10**9
) -> None:
    """Writes a ``PretrainedModel``, or a model with its ``config``, in files that Hugging Face loads.

    A ``PretrainedModel`` takes along what it came with: special ids, other fields of ``config.json``, its vocabulary.

    Raises:
      ValueError: the directory is not empty, or ``config`` is needed and missing.
    """
    fields, companions = {}, ()
    if isinstance(model, PretrainedModel):
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


class PretrainedModel:
    """A checkpoint's model, called as transformers' models are.

    Attributes:
      checkpoint: what it was opened from.
      model: with its weights.
      config: the model's configuration.
      fields: those of ``config.json``, for what is not about the model; empty for runs.
      special_ids: ids that pad, begin and end texts.
    """

    def __init__(self, checkpoint: Checkpoint):
        self.checkpoint = checkpoint
        self.model = checkpoint.model
        self.config = checkpoint.config
        self.fields = checkpoint.fields
        self.special_ids = checkpoint.special_ids
        self._call = CALLS[family_of(self.model)]
        self._graphdef, self._params = parameters.split(self.model)
        self._forward = jax.jit(self._compute, static_argnames="collect_hidden")
        self._generate = jax.jit(self._write, static_argnames=("settings",))

    @property
    def companions(self) -> tuple[PathLike, ...]:
        """The files beside the weights that belong to the model."""
        return tokenizer_files(self.checkpoint.directory)

    @property
    def vocabulary(self) -> Tokenizer | None:
        """The tokenizer beside the weights; ``None`` where there is none.

        Raises:
          ValueError: it has more ids than the model has embeddings.
        """
        return self.checkpoint.found_tokenizer

    def __call__(
        self, input_ids: Any = None, *, output_hidden_states: bool = False, **arguments: Any
    ) -> Outputs:
        """Scores what a transformers model of this class scores: arrays in, float32 arrays out, by its names.

        ``attention_mask`` is [B, L] of 0 and 1, or [B, L, L] of who may look at whom. With ``labels`` (-100 where
        nothing is to be said), or what the class has in their place, there is a ``loss``.

        Raises:
          ValueError: values out of their range, or shapes that don't belong together.
          TypeError: an argument that this model doesn't take.
        """
        refuse_unknown(arguments, self._call.ARGUMENTS)
        if input_ids is None and arguments.get("encoder_outputs") is None:
            raise ValueError("give input_ids, [batch, length]")
        given = {"input_ids": input_ids, **arguments}
        inputs = self._call.read(given, Context(self.config, self.special_ids))
        with self._precision():
            computed = self._forward(self._params, inputs, collect_hidden=output_hidden_states)
        return to_outputs(computed)

    def embed(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        *,
        takes: Literal["mean", "first", "last"] = "mean",
        normalized: bool = True,
        **arguments: Any,
    ) -> np.ndarray:
        """One vector for each text, float32 [B, D]: the mean over its tokens, or its first or last token.

        ``normalized`` vectors have length 1, so that inner products are cosines (Reimers and Gurevych 2019,
        https://arxiv.org/abs/1908.10084).
        """
        answers = self(input_ids, attention_mask=attention_mask, **arguments)
        states = answers.get("encoder_last_hidden_state")
        states = answers["last_hidden_state"] if states is None else states
        real = np.ones(states.shape[:2], bool) if attention_mask is None else np.asarray(attention_mask) > 0
        vectors = np.asarray(pool(jnp.asarray(states), jnp.asarray(real), takes))
        return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True) if normalized else vectors

    def generate(
        self,
        input_ids: Any = None,
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
        """Generates tokens after the start token, or after a decoder's prompt; greedily by default.

        Arguments and defaults are transformers'.

        Args:
          input_ids: prompts, [B, M]. A decoder without any begins with its ``bos`` token.
          attention_mask: 1 where a token is real, [B, M]; without it, padding is not attended to.
          max_new_tokens: the most to generate for each row.
          max_length: the same, counting the prompt or the start token; used without ``max_new_tokens``.
          num_beams: more than 1 for beam search.
          length_penalty: of beam search.
          early_stopping: of beam search.
          num_return_sequences: for each row, with beams or sampling.
          eos_token_id: ends a row; the model's own if not given.
          pad_token_id: fills rows that end early; the model's own if not given.
          do_sample: sample, with ``temperature``, ``top_k`` (0 keeps all tokens) and ``top_p``, from ``seed``.
          temperature: of sampling.
          top_k: of sampling.
          top_p: of sampling.
          seed: of sampling.
          return_dict_in_generate: return ``.sequences`` and, of beams, ``.sequences_scores``.

        Returns:
          int32 [B * num_return_sequences, length], prompts included, without columns that no row needs.

        Raises:
          ValueError: a setting out of its range, or settings that exclude each other.
        """
        refuse_unknown(unknown, argument_names(self.generate))
        if not hasattr(self.model, "decode_step") or self.config.task not in GENERATIVE_TASKS:
            raise ValueError(f"this model's task is {self.config.task}; it writes nothing")
        check_generation(
            num_beams=num_beams,
            num_return_sequences=num_return_sequences,
            do_sample=do_sample,
            temperature=temperature,
            early_stopping=early_stopping,
        )
        special = self.special_ids
        eos_ids = as_ids(special.eos if eos_token_id is None else eos_token_id)
        pad = padding_of(pad_token_id, special, eos_ids)
        in_encoder = family_of(self.model) == "encoder_decoder"
        prompts = read_prompts(
            input_ids, attention_mask, self.config, special, eos_ids, pad, in_encoder=in_encoder
        )
        num_new = prompts.num_new_tokens(self.config, max_new_tokens=max_new_tokens, max_length=max_length)
        settings = search_settings(
            do_sample=do_sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            num_beams=num_beams,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
            num_return_sequences=num_return_sequences,
        )
        settings |= {
            "max_new_tokens": num_new,
            "eos_token_id": eos_ids,
            "pad_token_id": special.pad if pad is None else pad,
        }
        ids, mask = prompts.widened(self.config)
        if do_sample:
            ids, mask = (np.repeat(rows, num_return_sequences, axis=0) for rows in (ids, mask))
        key = jax.random.key(seed) if do_sample else None
        with self._precision():
            new, scores = self._generate(self._params, ids, mask, key, settings=tuple(settings.items()))
        rows = np.asarray(new).reshape(-1, num_new)
        sequences = prompts.sequences(rows, start=special.decoder_start, eos_ids=eos_ids)
        if not return_dict_in_generate:
            return sequences
        found = {} if scores is None else {"sequences_scores": np.asarray(scores).reshape(-1)}
        return Outputs(sequences=sequences, **found)

    def _precision(self) -> AbstractContextManager[Any]:
        """float32 means float32: left alone, GPUs would multiply in TF32 and TPUs in bfloat16."""
        exact = self.config.compute_dtype == "float32"
        return jax.default_matmul_precision("float32") if exact else nullcontext()

    def _compute(self, params: Any, inputs: dict[str, Any], *, collect_hidden: bool) -> dict[str, Any]:
        model = parameters.merge(self._graphdef, params)
        return self._call.compute(model, self.config, inputs, collect_hidden)

    def _write(
        self, params: Any, ids: Any, mask: Any, key: Any, *, settings: tuple[tuple[str, Any], ...]
    ) -> Any:
        model = parameters.merge(self._graphdef, params)
        start = self.special_ids.decoder_start
        return continue_prompts(model, ids, mask, key, start_id=start, settings=dict(settings))
