"""An opened checkpoint: configuration, weights, tokenizer, special ids and class names."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import jax
from flax import nnx
from jax.sharding import Mesh

from t5x_like.inference.prompt_encoder import PromptEncoder
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import num_virtual_tokens
from t5x_like.model.families.ensemble import first_member
from t5x_like.model.families.family import FamilyName
from t5x_like.model.families.recurrent import Recurrent
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.model.zoo.model_tasks import HEAD_TASKS
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.head_classes import classes_in
from t5x_like.pretrained.run_weights import (
    trained_from_first_token,
    trained_with_framing,
    was_trained_here,
)
from t5x_like.pretrained.sentence_transformers import SentenceEmbedding, recorded_embedding
from t5x_like.pretrained.tokenizer_files import find_tokenizer, required_tokenizer, special_ids_of
from t5x_like.pretrained.weight_sources import identity_of
from t5x_like.text.batches.batch_layout import SHIFTED_IN
from t5x_like.text.heads.input_format import input_format_of
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
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
        cls,
        model: nnx.Module,
        config: ModelConfig,
        fields: Mapping[str, object] | None = None,
        *,
        mesh: Mesh | None = None,
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
        scores_words = isinstance(model, Recurrent) or model.heads.lm_head is not None
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
    def special_ids(self) -> SpecialTokenIds:
        """Ids that pad, begin and end texts: from ``config.json``, or from a run's training."""
        if self.fields:
            return special_ids_of(self.fields)
        is_trained = was_trained_here(self.directory)
        if is_trained and self.found_tokenizer is not None:
            special = self.found_tokenizer.special
        else:
            model_types = architecture_of(self.config).model_types
            special = special_ids_of({"model_type": model_types[0]} if model_types else {})
        if is_trained and self.family == "decoder":
            begin = None if trained_from_first_token(self.directory) else SHIFTED_IN
            return replace(special, bos=begin, decoder_start=SHIFTED_IN)
        if is_trained and self.family == "speech_encoder_decoder":
            return replace(special, decoder_start=SHIFTED_IN)
        if is_trained and self.family == "encoder_decoder":
            parts = first_member(self.model).config
            start = SHIFTED_IN if self.can_generate else parts.decoder_start_token_id
            return replace(special, decoder_start=start)
        return special

    @functools.cached_property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end a text; each of them does.

        Files without such ids mean those of their model's usual vocabulary, which may be another one. So ids that the
        model has no embeddings for are left out. If none is left, the tokenizer's own id is taken.
        """
        ends = self.special_ids.end_ids if self.fields else ()
        ends = tuple(token_id for token_id in ends if token_id < self.config.vocab_size)
        return ends if ends or self.found_tokenizer is None else self.found_tokenizer.special.end_ids

    @functools.cached_property
    def prompt_encoder(self) -> PromptEncoder:
        """Encoder of texts with the special ids that the model reads; an encoder's texts are cut to fit.

        LLaMA's, Gemma's and BART's texts begin with a special id.
        GPT-2 has one id for both ends, and begins no text with it. Files of a tokenizer may say that none does.

        Raises:
          ValueError: There is no tokenizer, or it lacks the special ids.
        """
        tokenizer = self.tokenizer
        if self.family == "recurrent":
            return PromptEncoder(tokenizer=tokenizer)
        is_t5 = self.fields.get("model_type") in _WITHOUT_LIMIT  # also T5's encoder alone reads T5's inputs
        if self.family in ("encoder", "two_stream") and not is_t5:
            joined = input_format_of(tokenizer, self.max_positions or _NO_LIMIT)
            return PromptEncoder(
                tokenizer=tokenizer,
                prefix_ids=joined.start,
                suffix_ids=joined.end,
                max_length=self.max_positions,
            )
        if was_trained_here(self.directory):
            is_shifted = self.family == "decoder" and not trained_from_first_token(self.directory)
            prefix = (SHIFTED_IN,) if is_shifted else ()
        else:
            begin = None if is_t5 or tokenizer.adds_bos is False else self.fields.get("bos_token_id")
            is_own = begin == tokenizer.special.bos and begin not in self.end_ids
            prefix = (begin,) if begin is not None and is_own else ()
        end = self.end_ids[:1]
        if self.family == "decoder":
            return PromptEncoder(tokenizer=tokenizer, prefix_ids=prefix, empty_ids=end)
        return PromptEncoder(tokenizer=tokenizer, prefix_ids=prefix, suffix_ids=end)

    @functools.cached_property
    def sentence_embedding(self) -> SentenceEmbedding | None:
        """Settings of the vectors that a run was trained for; ``None`` for all else."""
        return recorded_embedding(self.directory)

    @functools.cached_property
    def embedding_encoder(self) -> PromptEncoder:
        """Encoder of texts whose vectors are compared: as in training, or by the template of the tokenizer's files.

        Raises:
          ValueError: There is no tokenizer, or it lacks the special ids.
        """
        encoder = self.prompt_encoder
        if was_trained_here(self.directory):
            framing = trained_with_framing(self.directory)
            joined = input_format_of(self.tokenizer, self.max_positions or _NO_LIMIT, framing)
            ends = joined.start, joined.end
        else:
            ends = self.tokenizer.text_ends
        if ends is None:
            return encoder
        return replace(encoder, prefix_ids=ends[0], suffix_ids=ends[1], max_length=self.max_positions)

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
        most = next((limit for limit in numbers if isinstance(limit, int)), None)
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
    if family == "two_stream" and model.heads.lm_head is None:  # it reads both ways, and writes nothing
        return "encoder"
    if family == "recurrent" and model.heads.scores:  # which answers, whether or not it has its softmax
        return "decoder"
    if (
        family == "two_stream"
        or family == "recurrent"
        or family in ("speech_encoder_decoder", "speech_pretraining")
    ):
        raise ValueError(
            f"a {type(model).__name__} can't be evaluated on benchmarks yet: encoders, decoders and encoder-decoders "
            "of text can"
        )
    return family


def mesh_or_one_device(mesh: Mesh | None) -> Mesh:
    """Return ``mesh``, or one of the first device if there is none."""
    return MeshConfig(data=1).build(jax.local_devices()[:1]) if mesh is None else mesh
