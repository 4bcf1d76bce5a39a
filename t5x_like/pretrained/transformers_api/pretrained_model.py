"""``from_pretrained``: a checkpoint to be called as transformers' models are."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.inference.beam_search import EarlyStopping
from t5x_like.inference.decodable import as_ids
from t5x_like.inference.generator import GenerationConfig, continue_prompts
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.zoo.model_tasks import GENERATIVE_TASKS, ModelTask
from t5x_like.pretrained.checkpoint import Checkpoint, Dtype, Family, check_dtype
from t5x_like.pretrained.gguf_export import GgufType, write_gguf
from t5x_like.pretrained.hub import local_directory
from t5x_like.pretrained.hugging_face import write_hugging_face
from t5x_like.pretrained.model_card import ModelCard, card_of
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.sentence_transformers import (
    Pooling,
    SentenceEmbedding,
    find_sentence_transformer,
)
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
    is_text,
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
    revision: str | None = None,
    cache_dir: PathLike | None = None,
) -> "Pretrained":
    """Open a checkpoint to be called as transformers' models are.

    >>> pretrained = t5x_like.from_pretrained("path/to/t5-v1_1-small")
    >>> pretrained(input_ids=ids, labels=labels).loss

    Args:
      directory: a Hugging Face or sentence-transformers directory, a GGUF file, a T5X checkpoint, or a run of ours. Or
        a name on the Hugging Face Hub, such as ``google/flan-t5-small``; files in its local cache are used without a
        network.
      dtype: of computation; weights are float32.
      mesh: places every weight straight on these devices.
      task: the head to use; that of the class in ``config.json`` if not given.
      num_labels: the outputs of that head.
      seed: of a head that the files lack. It is drawn, with a warning.
      step: a run's step; its newest good one if not given.
      revision: a branch, tag or commit on the Hub; the main branch if not given.
      cache_dir: the Hub's local cache; its usual place if not given.

    Raises:
      ValueError: no checkpoint, a model that we don't know, or weights that don't fit its configuration.
    """
    check_dtype(dtype)
    home = local_directory(directory, revision=revision, cache_dir=cache_dir)
    sentences = find_sentence_transformer(home)
    checkpoint = open_checkpoint(
        home if sentences is None else sentences.model,
        mesh=mesh,
        step=step,
        head=task,
        num_labels=num_labels,
        seed=seed,
        finite=False,
    )
    return Pretrained(checkpoint.computing_in(dtype), sentences and sentences.embedding)


def export_hugging_face(
    model: Any,
    directory: PathLike,
    *,
    config: Any = None,
    license: str = "",
    max_shard_bytes: int = 5 * 10**9,
) -> None:
    """Write a ``Pretrained``, or a model with its ``config``, in files that Hugging Face loads.

    A ``Pretrained`` is exported with its special ids, other fields of ``config.json`` and its vocabulary. With
    ``sentence_embedding`` it becomes a directory of sentence-transformers.

    Args:
      model: with its weights.
      directory: new or empty.
      config: of a model that is not a ``Pretrained``.
      license: for the model card, ``README.md``: an identifier such as ``apache-2.0``; ``unknown`` if not given.
      max_shard_bytes: limit for the size of each file of weights.

    Raises:
      ValueError: the directory is not empty, or ``config`` is needed and missing.
    """
    fields, companions, sentences, card = {}, (), None, ModelCard(license=license)
    if isinstance(model, Pretrained):
        card = card_of(model._opened.directory, step=model._opened.step, license=license)
        fields, companions, sentences = model.fields, model.companions, model.sentence_embedding
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
        card=card,
        json_files={} if sentences is None else sentences.files(config.model_dim),
        max_shard_bytes=max_shard_bytes,
    )


def export_gguf(pretrained: "Pretrained", path: PathLike, *, dtype: GgufType = "float32") -> None:
    """Write a causal language model of Llama's kind as a ``.gguf`` file, without its tokenizer.

    Args:
      pretrained: a Llama, Mistral, Qwen 2 or Qwen 3.
      path: the file; it must not exist.
      dtype: of matrices; ``q8_0`` quantizes them to 8 bits.

    Raises:
      ValueError: the package gguf is missing, the file exists, or GGUF can't express the model; says which field.
    """
    params = parameters.split(pretrained.model)[1]
    write_gguf(pretrained.config, params, path, special_ids=pretrained.special_ids, dtype=dtype)


class Pretrained:
    """A checkpoint's model with its tokenizer, called as transformers' models are; texts work in place of ids.

    >>> pretrained = t5x_like.from_pretrained("path/to/t5-small")
    >>> pretrained.generate("translate English to German: Good morning.")
    'Guten Morgen.'

    Attributes:
      model: the model with its weights. There is no other copy: when it is trained, calls and exports change.
      config: the model's configuration.
      adapter: name of the adapter in use, of those that ``load_adapter`` loaded; ``None`` for none of them.
      fields: those of ``config.json`` that are not about the model; empty for runs.
      special_ids: ids that pad, begin and end texts.
      sentence_embedding: how ``embed`` makes vectors, for a directory of sentence-transformers; else ``None``. Exports
        have it too.
    """

    def __init__(self, checkpoint: Checkpoint, sentence_embedding: SentenceEmbedding | None = None):
        self.fields = checkpoint.fields
        self.special_ids = checkpoint.special_ids
        self.sentence_embedding = sentence_embedding
        self.adapter: str | None = None
        self._others: dict[str | None, Checkpoint] = {}  # with the adapters that are not in use
        self._use(checkpoint)
        self._call = CALLS[self._opened.family]
        self._forward = jax.jit(self._compute, static_argnames=("graphdef", "collect_hidden"))
        self._generate = jax.jit(self._continue, static_argnames=("graphdef", "settings"))

    def __repr__(self) -> str:
        opened = self._opened
        tokenizer = f"{self.vocabulary.vocab_size:,} token ids" if self.vocabulary else "no tokenizer"
        step = "" if opened.step is None else f", step {opened.step}"
        name, task = type(self.config).__name__.removesuffix("Config"), getattr(self.config, "task", None)
        return (
            f"Pretrained({name}, task {task}, "
            f"{opened.num_parameters:,} parameters, {tokenizer}, computes in {self.config.compute_dtype}, "
            f"from {opened.directory!r}{step})"
        )

    def load_adapter(self, name: str, directory: PathLike, *, step: int | None = None) -> None:
        """Load what a run trained on this model's weights, and use it; the weights themselves are shared.

        >>> pretrained = t5x_like.from_pretrained("path/to/bert")
        >>> pretrained.load_adapter("sst2", "runs/sst2_lora")
        >>> pretrained.load_adapter("cola", "runs/cola_lora")
        >>> pretrained.set_adapter("sst2")

        Args:
          name: the name for ``set_adapter``; one in use is replaced.
          directory: a run with frozen weights, such as one that trained an adapter.
          step: a step of the run; its newest good one if not given.

        Raises:
          ValueError: the run was trained on other weights; says which differ.
        """
        self.set_adapter(None)
        base = self.checkpoint
        opened = open_checkpoint(directory, mesh=base.mesh, step=step, finite=False, base=base)
        self._others[name] = opened.computing_in(self.config.compute_dtype)
        self.set_adapter(name)

    def set_adapter(self, name: str | None) -> None:
        """Use a loaded adapter and its head; ``None`` uses the model without one.

        Raises:
          ValueError: no adapter of this name was loaded.
        """
        if name == self.adapter:
            return
        if name not in self._others:
            loaded = ", ".join(sorted(each for each in (*self._others, self.adapter) if each)) or "none"
            raise ValueError(
                f"no adapter {name!r} was loaded, but {loaded}; call load_adapter(name, directory)"
            )
        self._others[self.adapter] = self.checkpoint
        self.adapter = name
        self._use(self._others.pop(name))

    def _use(self, checkpoint: Checkpoint) -> None:
        self.model, self.config = checkpoint.model, checkpoint.config
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), checkpoint.params)
        self._opened = replace(checkpoint, params=shapes)  # the weights themselves are in self.model alone

    @property
    def checkpoint(self) -> Checkpoint:
        """Checkpoint that it was opened from, with the weights that the model has now."""
        graphdef, params = parameters.split(self.model)
        return replace(self._opened, graphdef=graphdef, params=params)

    @property
    def companions(self) -> tuple[PathLike, ...]:
        """Files of the tokenizer, next to the weights."""
        return tokenizer_files(self._opened.directory)

    @property
    def vocabulary(self) -> Tokenizer | None:
        """Tokenizer next to the weights; ``None`` if there is none.

        Raises:
          ValueError: it has more ids than the model has embeddings.
        """
        return self._opened.found_tokenizer

    def encode(
        self,
        text: str | Sequence[str],
        *,
        padding_side: Literal["left", "right"] | None = None,
        max_length: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the arguments of a call for one text or several, with the special ids that the model reads.

        >>> pretrained(**pretrained.encode(["a first text", "and a second one"])).last_hidden_state

        Args:
          text: one text, which makes a row, or several.
          padding_side: where shorter rows are padded; if not given, on the left for decoders, whose texts continue.
          max_length: tokens to which texts are cut, special tokens included; no cut but an encoder's if not given.

        Returns:
          ``input_ids`` and ``attention_mask``, int32 [B, L].

        Raises:
          ValueError: there is no tokenizer, or the model takes no padding and the texts differ in length.
        """
        texts = [text] if isinstance(text, str) else list(text)
        rows = [self._opened.text_ids(each, max_length) for each in texts]
        length = max(map(len, rows), default=0)
        if not length:
            raise ValueError(f"{text!r} has no token; give a text, or a list of at least one text")
        ids = np.full((len(rows), length), self.special_ids.pad, np.int32)
        mask = np.zeros((len(rows), length), np.int32)
        if padding_side is None:
            padding_side = "left" if self._opened.family == "decoder" else "right"
        for number, row in enumerate(rows):
            places = slice(length - len(row), length) if padding_side == "left" else slice(len(row))
            ids[number, places], mask[number, places] = row, 1
        if "attention_mask" in self._call.ARGUMENTS:
            return {"input_ids": ids, "attention_mask": mask}
        if not mask.all():
            raise ValueError(
                "this model takes no padding; give one text at a time, or texts of as many tokens"
            )
        return {"input_ids": ids}

    def decode(self, ids: Any) -> Any:
        """Return the text of token ids [L], or the list of texts of rows [B, L], up to the end of each.

        Raises:
          ValueError: there is no tokenizer.
        """
        rows = np.asarray(ids)
        if rows.ndim == 2:
            return [self.decode(row) for row in rows]
        special = self.special_ids
        silent = {special.pad, special.decoder_start, *as_ids(special.eos)}
        start = next((place for place, number in enumerate(rows.tolist()) if number not in silent), len(rows))
        return self._opened.tokenizer.decode(rows[start:].tolist())

    def __call__(
        self, input_ids: Any = None, *, output_hidden_states: bool = False, **arguments: Any
    ) -> Outputs:
        """Compute what a transformers model of this class computes: arrays in, float32 arrays out, by its names.

        Args:
          input_ids: token ids, [B, L].
          output_hidden_states: also return each layer's hidden states.
          **arguments: those of the transformers class. ``attention_mask`` is [B, L] of 0 and 1, or [B, L, L] with 1
            where a position may attend to another. With ``labels`` (-100 where there is none), or what the class has
            in their place, there is a ``loss``.

        Raises:
          ValueError: values out of their range, or shapes that don't belong together.
          TypeError: an argument that this model doesn't take.
        """
        refuse_unknown(arguments, self._call.ARGUMENTS)
        if input_ids is None and arguments.get("encoder_outputs") is None:
            raise ValueError("give input_ids, [batch, length]")
        given = {"input_ids": input_ids, **arguments}
        inputs = self._call.read(given, Context(self.config, self.special_ids))
        graphdef, params = parameters.split(self.model)
        with self.matmul_precision():
            computed = self._forward(params, inputs, graphdef=graphdef, collect_hidden=output_hidden_states)
        return to_outputs(computed)

    def embed(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        *,
        takes: Pooling | None = None,
        normalized: bool | None = None,
        **arguments: Any,
    ) -> np.ndarray:
        """Return a vector for each text (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084).

        Args:
          input_ids: token ids [B, L], or a text or list of texts.
          attention_mask: 1 where a token is real, [B, L]; made for texts.
          takes: the mean or maximum over a text's tokens, or the state of its first or last token. If not given, that
            of ``sentence_embedding``, else the mean.
          normalized: scale vectors to length 1, so that inner products are cosines. If not given, likewise, else True.
          **arguments: others of a call, such as ``token_type_ids``.

        Returns:
          float32 [B, D]; [D] for a single string.
        """
        settings = self.sentence_embedding or SentenceEmbedding()
        if is_text(input_ids):
            texts = [input_ids] if isinstance(input_ids, str) else input_ids
            worded = [settings.word(text) for text in texts]
            encoded = self.encode(worded, padding_side="right", max_length=settings.max_length)
            vectors = self.embed(**encoded, takes=takes, normalized=normalized, **arguments)
            return vectors[0] if isinstance(input_ids, str) else vectors
        if attention_mask is not None:
            arguments["attention_mask"] = attention_mask
        if "decoder_input_ids" in self._call.ARGUMENTS:  # an encoder-decoder embeds by its encoder
            start = np.full((len(input_ids), 1), self.special_ids.decoder_start, np.int32)
            arguments.setdefault("decoder_input_ids", start)
        outputs = self(input_ids, **arguments)
        states = outputs.get("encoder_last_hidden_state")
        states = outputs["last_hidden_state"] if states is None else states
        real = np.ones(states.shape[:2], bool) if attention_mask is None else np.asarray(attention_mask) > 0
        given = {"pooling": takes, "normalized": normalized}
        changed = replace(settings, **{name: value for name, value in given.items() if value is not None})
        return changed.vectors(states, real)

    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        max_new_tokens: int | None = None,
        max_length: int | None = None,
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
        """Generate tokens after the start token, or after a decoder's prompt; greedily by default.

        Arguments and defaults are transformers'.

        Args:
          input_ids: prompts, [B, M], or a text or list of texts. A decoder without any begins with its ``bos`` token.
          attention_mask: 1 where a token is real, [B, M]; without it, padding is not attended to. Made for texts.
          max_new_tokens: the most to generate for each row; 64 for texts without ``max_length``.
          max_length: the same, counting the prompt or the start token; 20 for ids without ``max_new_tokens``.
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
          int32 [B * num_return_sequences, length], prompts included, without columns that no row needs. For texts a
          list of new texts without their prompts; for a single string and one sequence, one text.

        Raises:
          ValueError: a setting out of its range, or settings that exclude each other.
        """
        refuse_unknown(unknown, argument_names(self.generate))
        text = input_ids if is_text(input_ids) else None
        if text is not None:
            encoded = self.encode(text)
            input_ids, attention_mask = encoded["input_ids"], encoded.get("attention_mask")
            if max_new_tokens is None and max_length is None:
                max_new_tokens = GenerationConfig().max_new_tokens
        if not hasattr(self.model, "decode_step") or self.config.task not in GENERATIVE_TASKS:
            raise ValueError(f"this model's task is {self.config.task}; it generates no text")
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
        in_encoder = self._opened.family == "encoder_decoder"
        prompts = read_prompts(
            input_ids, attention_mask, self.config, special, eos_ids, pad, in_encoder=in_encoder
        )
        num_new = prompts.num_new_tokens(
            self.config,
            max_new_tokens=max_new_tokens,
            max_length=20 if max_length is None else max_length,
        )
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
        graphdef, params = parameters.split(self.model)
        with self.matmul_precision():
            new, scores = self._generate(
                params, ids, mask, key, graphdef=graphdef, settings=tuple(settings.items())
            )
        rows = np.asarray(new).reshape(-1, num_new)
        sequences = prompts.sequences(rows, start=special.decoder_start, eos_ids=eos_ids)
        texts = None if text is None else self.decode(rows)
        if not return_dict_in_generate:
            if texts is None:
                return sequences
            return texts[0] if isinstance(text, str) and len(texts) == 1 else texts
        found = {} if scores is None else {"sequences_scores": np.asarray(scores).reshape(-1)}
        return Outputs(sequences=sequences, **found, **({} if texts is None else {"texts": texts}))

    def matmul_precision(self) -> AbstractContextManager[Any]:
        """Return a context in which float32 means float32: GPUs would multiply in TF32, TPUs in bfloat16."""
        exact = self.config.compute_dtype == "float32"
        return jax.default_matmul_precision("float32") if exact else nullcontext()

    def _compute(
        self, params: Any, inputs: dict[str, Any], *, graphdef: Any, collect_hidden: bool
    ) -> dict[str, Any]:
        return self._call.compute(parameters.merge(graphdef, params), self.config, inputs, collect_hidden)

    def _continue(
        self,
        params: Any,
        ids: Any,
        mask: Any,
        key: Any,
        *,
        graphdef: Any,
        settings: tuple[tuple[str, Any], ...],
    ) -> Any:
        model = parameters.merge(graphdef, params)
        start = self.special_ids.decoder_start
        return continue_prompts(model, ids, mask, key, start_id=start, settings=dict(settings))
