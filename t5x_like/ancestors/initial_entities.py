"""A run of a model that reads entities, from their vectors and the weights of a BERT (Zhang et al. 2019, §4.1)."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import Mesh

from t5x_like.ancestors.word_vectors.vector_files import read_vectors
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.checkpoints.steps import absolute
from t5x_like.config_class import config_class
from t5x_like.io.files import PathLike
from t5x_like.io.paths import find_file
from t5x_like.model import parameters
from t5x_like.model.lazy_array import put_on_devices
from t5x_like.model.parameters import ModelConfig, Parameters
from t5x_like.model.zoo.entity_bert import EntityBertConfig
from t5x_like.pretrained.frozen_weights import fresh_params, missing_source
from t5x_like.pretrained.open_checkpoint import open_initial
from t5x_like.text.entity_names import entity_numbers
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.start.start import Start, StartingWeights

_TABLE = "entities/table"
_LAYERS, _FIRST, _LAST = "encoder/layers/0/", "encoder/layers/0/", "entity_encoder/layers/block/"

log = logging.getLogger(__name__)


@config_class
class RecordedEntities:
    """Files that a run began with, as ``frozen.json`` records them: an ``InitialInputs``.

    Attributes:
      entity_vectors: Absolute path of the file of entities' vectors.
      bert: Absolute path of the checkpoint of a BERT; ``None`` for fresh weights.
      bert_step: Step of ``bert``, if that is a run.
    """

    entity_vectors: str
    bert: str | None = None
    bert_step: int | None = None

    def sources(self) -> Mapping[str, str]:
        """Return what a run began with, by the field that has its path."""
        named = {"entity_vectors": f"the vectors of {self.entity_vectors}", "bert": str(self.bert)}
        return {field: name for field, name in named.items() if getattr(self, field) is not None}

    def weights(
        self, params: Parameters, config: Any, *, run: str, vocabulary: Callable[[], Any], mesh: Mesh | None
    ) -> Parameters:
        """Return a model's weights with the entities' vectors and those of BERT.

        Args:
          params: Fresh weights.
          config: Configuration of the model.
          run: Directory of the run, for messages.
          vocabulary: Returns the run's tokenizer, which is not needed.
          mesh: Devices to place the weights on.
        """
        if self.bert is not None:
            try:
                params = with_bert(params, config, self.bert, step=self.bert_step, mesh=mesh)[0]
            except (OSError, ValueError) as error:
                raise missing_source(error, "bert", self.bert, run=run) from error
        try:
            return with_entities(params, read_entities(config, self.entity_vectors))
        except (OSError, ValueError) as error:
            raise missing_source(error, "entity_vectors", self.entity_vectors, run=run) from error


@config_class
class EntityVectorsStart(Start):
    """Starts from vectors of entities, which stay as they are, and from a BERT. What neither has is freshly drawn.

    Attributes:
      entity_vectors: File of vectors in the order of the tasks' ``entity_names``, such as that of ``t5x-like vectors
        train --method transe``.
      entity_names: File of the names that the tasks have; ``None`` where that is ``entity_vectors``.
      bert: A run or a Hugging Face directory of a BERT with as many layers; ``None`` for fresh weights.
    """

    entity_vectors: str
    entity_names: str | None = None
    bert: str | None = None

    @property
    def description(self) -> str:
        """Origin of the weights, as the opening lines name it."""
        others = "fresh weights" if self.bert is None else f"the weights of {self.bert}"
        return f"from the entities' vectors of {self.entity_vectors} and {others}"

    def check_weights(self, model: ModelConfig, tokenizer: Tokenizer | None) -> list[str]:
        """Check that the vectors fit the model."""
        vectors = read_entities(model, self.entity_vectors)
        if self.entity_names is not None:
            names = tuple(entity_numbers(self.entity_names))
            places = enumerate(zip(vectors.words, names, strict=False))
            other = next((place for place, (word, name) in places if word != name), None)
            if other is not None:
                raise ValueError(
                    f"vector {other + 1:,} of {self.entity_vectors} is that of {vectors.words[other]!r}, and the name "
                    f"there in {self.entity_names} is {names[other]!r}; give names in the order of the vectors"
                )
        return []

    def weights(
        self, model: Any, *, mesh: Mesh, seed: int, labels: LabelSpace, vocabulary: Any
    ) -> StartingWeights:
        """Return fresh weights with those of BERT and the entities' vectors in them."""
        params, step = fresh_params(model, mesh=mesh, seed=seed), None
        if self.bert is not None:
            params, step = with_bert(params, model, self.bert, step=None, mesh=mesh, seed=seed)
        params = with_entities(params, read_entities(model, self.entity_vectors))
        recorded = RecordedEntities(
            entity_vectors=os.fspath(absolute(find_file(self.entity_vectors))),
            bert=None if self.bert is None else os.fspath(absolute(self.bert)),
            bert_step=step,
        )
        return StartingWeights(params, {"inputs": recorded})


def read_entities(config: ModelConfig, file: PathLike) -> WordVectors:
    """Read vectors of entities.

    Args:
      config: The model.
      file: Vectors in a format of ``read_vectors``.

    Raises:
      ValueError: The file can't be read, has another number of vectors or of dimensions; or the model reads none.
    """
    if not isinstance(config, EntityBertConfig):
        raise ValueError(
            f"entity_vectors={os.fspath(file)!r}, and a {type(config).__name__} reads none; take EntityBertConfig"
        )
    vectors = read_vectors(file)
    for name, has, wanted, macro in (
        ("num_entities", len(vectors.words), config.num_entities, " (NUM_ENTITIES in recipes)"),
        ("entity_dim", vectors.dim, config.entity_dim, ""),
    ):
        if has != wanted:
            raise ValueError(
                f"{os.fspath(file)} has {len(vectors.words):,} vectors of {vectors.dim} dimensions, and the model "
                f"{name}={wanted}; give it {name}={has}{macro}"
            )
    return vectors


def with_entities(params: Parameters, vectors: WordVectors) -> Parameters:
    """Return a model's weights with these vectors of entities.

    Args:
      params: The weights, on the devices that they stay on.
      vectors: Vectors of all entities.
    """
    flat = parameters.flatten(params)
    return parameters.unflatten(flat | {_TABLE: jax.device_put(vectors.table, flat[_TABLE].sharding)})


def with_bert(
    params: Parameters,
    config: EntityBertConfig,
    directory: PathLike,
    *,
    step: int | None,
    mesh: Mesh | None,
    seed: int = 0,
) -> tuple[Parameters, int | None]:
    """Return a model's weights with those of a BERT for its tokens, and the step they are of.

    The last of BERT's layers become the tokens' part of the layers that read entities.

    Args:
      params: The weights, on the devices that they stay on.
      config: Configuration of the model.
      directory: A run or a Hugging Face directory.
      step: Step of a run; its newest if not given.
      mesh: Devices to place the weights on.
      seed: Seed of heads that BERT lacks.

    Raises:
      FileNotFoundError, ValueError: There are no weights, or those of a model with other sizes.
    """
    bert, notes = open_initial(
        directory, config=replace(config.bert, adapter=None), mesh=mesh, step=step, seed=seed
    )
    for note in notes:
        log.warning("%s", note)
    flat, num_first = parameters.flatten(params), config.num_layers - config.num_entity_layers
    of_bert: dict[str, Any] = {}
    for path, weight in parameters.flatten(bert.params).items():
        if path.startswith(_LAYERS):
            name = path.removeprefix(_LAYERS)
            of_bert[_FIRST + name], of_bert[_LAST + name] = weight[:num_first], weight[num_first:]
        else:
            of_bert[path] = weight
    placed = {path: put_on_devices(weight, flat[path].sharding) for path, weight in of_bert.items()}
    return parameters.unflatten(flat | placed), bert.step
