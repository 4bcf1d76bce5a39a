"""An opened checkpoint: configuration, weights, tokenizer, special ids and class names."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import jax
from jax.sharding import Mesh

from t5x_like.inference.decodable import as_ids
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import num_virtual_tokens
from t5x_like.model.families.ensemble import first_member
from t5x_like.model.families.family import FamilyName
from t5x_like.model.families.recurrent import Recurrent
from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.model.zoo.model_tasks import HEAD_TASKS
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.head_classes import classes_in
from t5x_like.pretrained.run_weights import was_trained_here
from t5x_like.pretrained.tokenizer_files import SpecialIds, find_tokenizer, required_tokenizer, special_ids_of
from t5x_like.pretrained.weight_sources import identity_of
from t5x_like.text.batches.batch_layout import SHIFTED_IN
from t5x_like.text.heads.input_format import input_format_of
from t5x_like.text.vocabularies.tokenizer import Tokenizer

Kind = Literal["encoder", "decoder", "encoder_decoder"]
Dtype = Literal["float32", "bfloat16"]

_NO_LIMIT = 1 << 30  # tokens of a text
# Their files give the training length as a limit, which relative positions don't have.
_WITHOUT_LIMIT = ("t5", "mt5", "umt5")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """An opened checkpoint: weights, and everything that is needed to use them.

    Attributes:
      directory: Directory or GGUF file that the weights came from.
      step: Step of a run; ``None`` for what has no steps.
      config: Configuration of the model.
      graphdef: Structure of the model, for ``parameters.merge(graphdef, params)``.
      params: Nested weights, float32, on ``mesh``.
      mesh: Devices of the weights; one device if none was asked for.
      fields: Fields of a published model's ``config.json``, also after a conversion; empty for trained runs.
      class_names: Classes of the head in the order of its outputs; empty if they have no names.
      vocabulary: Path of a tokenizer to use in place of the one next to the weights.
      num_sentinels: Number of the tokenizer's sentinels; ``None`` for as many as the model was trained with.
    """

    directory: str
    step: int | None
    config: Any
    graphdef: Any
    params: Any
    mesh: Mesh
    fields: Mapping[str, Any]
    class_names: tuple[str, ...]
    vocabulary: str = ""
    num_sentinels: int | None = None

    @classmethod
    def in_memory(
        cls, model: Any, config: Any, fields: Mapping[str, Any] | None = None, *, mesh: Mesh | None = None
    ) -> "Checkpoint":
        """Return the checkpoint that a model in memory would have; it has no tokenizer.

        Args:
          model: Model with its weights.
          config: Configuration of the model.
          fields: Fields of a ``config.json``, for special ids and the like.
          mesh: Devices of the weights; one device if not given.
        """
        graphdef, params = parameters.split(model)
        fields = fields or {}
        return cls(
            directory="(a model in memory)",
            step=None,
            config=config,
            graphdef=graphdef,
            params=params,
            mesh=mesh_or_one_device(mesh),
            fields=fields,
            class_names=classes_in(fields),
        )

    @property
    def model(self) -> Any:
        """Model with its weights."""
        return parameters.merge(self.graphdef, self.params)

    @functools.cached_property
    def family(self) -> FamilyName:
        """Family of the model."""
        return family_of(self.model)

    @functools.cached_property
    def kind(self) -> Kind:
        """Family of the model, among those that benchmarks can evaluate.

        Raises:
          ValueError: Benchmarks can't be answered with this family.
        """
        return kind_of(self.model)

    @property
    def answers_by_head(self) -> bool:
        """True if the model has a head for sequences, tokens or choices, and answers with it."""
        return traits_of(self.config).task in HEAD_TASKS

    @property
    def can_generate(self) -> bool:
        """True if the model generates text: with a head over the vocabulary, and no other to answer with."""
        model = first_member(self.model)
        scores_words = isinstance(model, Recurrent) or model.heads.words is not None
        return scores_words and not self.answers_by_head

    @functools.cached_property
    def found_tokenizer(self) -> Tokenizer | None:
        """Tokenizer next to the weights, or at ``vocabulary``; ``None`` if there is neither.

        Raises:
          ValueError: The tokenizer has more ids than the model has embeddings.
        """
        return find_tokenizer(
            self.directory,
            self.config,
            self.fields,
            vocabulary=self.vocabulary,
            num_sentinels=self.num_sentinels,
        )

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer, for callers that need one.

        Raises:
          ValueError: There is no tokenizer, or it doesn't fit the model.
        """
        return required_tokenizer(self.found_tokenizer, self.directory)

    @functools.cached_property
    def special_ids(self) -> SpecialIds:
        """Ids that pad, begin and end texts: from ``config.json``, or from a run's training."""
        if self.fields:
            return special_ids_of(self.fields)
        own = None if self.found_tokenizer is None else self.found_tokenizer.special
        if not was_trained_here(self.directory) or own is None:  # a model in memory, or without a tokenizer
            model_types = architecture_of(self.config).model_types
            return special_ids_of({"model_type": model_types[0]} if model_types else {})
        pad = SHIFTED_IN if own.pad is None else own.pad
        begin = SHIFTED_IN if self.family == "decoder" else own.bos
        return SpecialIds(SHIFTED_IN, pad, as_ids(own.eos), begin, knows_padding=own.pad is not None)

    @property
    def start_id(self) -> int:
        """First id that an encoder-decoder's decoder reads."""
        return SHIFTED_IN if was_trained_here(self.directory) else self.special_ids.decoder_start

    @functools.cached_property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end a text; each of them does.

        Files without such ids mean those of their model's usual vocabulary, which may be another one. So ids that the
        model has no embeddings for are left out. If none is left, the tokenizer's own id is taken.
        """
        special = special_ids_of(self.fields) if self.fields else None
        ends = () if special is None else as_ids(special.eos)
        ends = tuple(number for number in ends if number < self.config.vocab_size)
        if ends or self.found_tokenizer is None:
            return ends
        return as_ids(self.found_tokenizer.special.eos)

    @functools.cached_property
    def begin_id(self) -> int | None:
        """Id that begins every text the model reads; ``None`` if there is none.

        LLaMA's, Gemma's and BART's texts begin with a special id.
        GPT-2 has one id for both ends, and begins no text with it. Files of a tokenizer may say that none does.
        """
        if was_trained_here(self.directory) and self.family == "decoder":
            return SHIFTED_IN
        begin = None if self.fields.get("model_type") in _WITHOUT_LIMIT else self.fields.get("bos_token_id")
        if begin is None or begin in self.end_ids or self.found_tokenizer is None:
            return None
        if self.found_tokenizer.adds_bos is False:
            return None
        return begin if begin == self.found_tokenizer.special.bos else None

    def text_ids(self, text: str, max_length: int | None = None) -> list[int]:
        """Return the ids of a text with the special ids that the model reads; an encoder's text is cut to fit.

        Args:
          text: Text to encode.
          max_length: Number of tokens to cut the text to, special tokens included; only as the model needs if not
            given.

        Raises:
          ValueError: There is no tokenizer, or it lacks the special ids.
        """
        ids = self.tokenizer.encode(text)
        if self.family == "recurrent":
            return ids[:max_length]
        is_t5 = self.fields.get("model_type") in _WITHOUT_LIMIT  # also T5's encoder alone reads T5's inputs
        if self.family in ("encoder", "two_stream") and not is_t5:
            limit = min(self.max_positions or _NO_LIMIT, max_length or _NO_LIMIT)
            input_format = input_format_of(self.tokenizer, limit)
            return input_format.join([ids]).tokens.tolist()
        begin = [] if self.begin_id is None else [self.begin_id]
        if self.family == "decoder":
            return [*begin, *ids][:max_length] or list(self.end_ids[:1])
        end = self.end_ids[:1]
        limit = None if max_length is None else max(0, max_length - len(end))
        return [*[*begin, *ids][:limit], *end]

    @property
    def max_positions(self) -> int | None:
        """Length in tokens of the longest text that the model can read; ``None`` if nothing limits it."""
        if self.fields.get("model_type") in _WITHOUT_LIMIT:
            return None
        # RoBERTa's files count two more than texts can have, so that our own number comes first.
        numbers = (
            vars(self.config).get("max_position_embeddings"),
            self.fields.get("n_positions"),
            self.fields.get("max_position_embeddings"),
        )
        most = next((number for number in numbers if isinstance(number, int)), None)
        return None if most is None else most - num_virtual_tokens(self.config)

    @property
    def num_parameters(self) -> int:
        """Number of parameters."""
        return parameters.count(self.params)

    @functools.cached_property
    def identity(self) -> str:
        """Short hash that identifies the weights."""
        return identity_of(self.directory, self.step)

    def computing_in(self, dtype: str) -> "Checkpoint":
        """Return the same checkpoint for computing in ``dtype``; weights stay float32.

        Raises:
          ValueError: The model can't compute in ``dtype``.
        """
        check_dtype(dtype)
        config = replace(self.config, compute_dtype=dtype)
        return replace(self, config=config, graphdef=parameters.abstract(config)[0])


def check_dtype(dtype: str) -> None:
    """Check that a model can compute in ``dtype``.

    Raises:
      ValueError: The model can't compute in ``dtype``.
    """
    if dtype not in get_args(Dtype):
        raise ValueError(f"dtype is {dtype!r}; compute in one of {', '.join(get_args(Dtype))}")


def family_of(model: Any) -> FamilyName:
    """Return the name of a model's family."""
    return type(model).family_name


def kind_of(model: Any) -> Kind:
    """Return the family of a model, as far as reading its answers goes.

    Raises:
      ValueError: Benchmarks can't be answered with this family.
    """
    family = family_of(model)
    if family == "two_stream" and model.heads.words is None:  # it reads both ways, and writes nothing
        return "encoder"
    if family == "recurrent" and model.heads.scores:  # which answers, whether or not it has its softmax
        return "decoder"
    if family == "two_stream" or family == "recurrent":
        raise ValueError(
            f"a {type(model).__name__} can't be evaluated on benchmarks yet: encoders, decoders and encoder-decoders "
            "can"
        )
    return family


def mesh_or_one_device(mesh: Mesh | None) -> Mesh:
    """Return ``mesh``, or one of the first device if there is none."""
    return MeshConfig(data=1).build(jax.local_devices()[:1]) if mesh is None else mesh
