"""A model as a function of its weights, to be differentiated or edited inside of ``jax.jit``."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jaxtyping import PyTree

from t5x_like.inference.length_batches import pad_prompts, round_length
from t5x_like.model import parameters
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.transformers_api.call import Call, Context
from t5x_like.pretrained.transformers_api.open_model import CALLS
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained


class TracedModel(NamedTuple):
    """Structure of a model without its weights; a static argument of ``jax.jit``.

    Attributes:
      call: Call of the model's family.
      config: Configuration of the model.
      graphdef: Structure of the model.
      max_positions: Number of tokens that it reads; ``None`` without a limit.
    """

    call: Call
    config: Any
    graphdef: nnx.GraphDef
    max_positions: int | None

    def logits(self, params: Parameters, inputs: Mapping[str, PyTree]) -> jax.Array:
        """Return the scores of words, [B, L, V].

        Args:
          params: Weights.
          inputs: Result of ``traced_inputs``.

        Raises:
          ValueError: The model has no head over the vocabulary.
        """
        outputs = self.call.compute(parameters.merge(self.graphdef, params), self.config, dict(inputs))
        logits = outputs.get("prediction_logits", outputs.get("logits"))
        if logits is None or logits.ndim != 3 or logits.shape[-1] != self.config.vocab_size:
            raise ValueError(
                f"this model's task is {self.config.task}; take one with a head over the vocabulary, of language "
                "modeling or masked language modeling"
            )
        return logits


def traced(model: Pretrained) -> tuple[TracedModel, Parameters]:
    """Return a model's structure and its weights.

    Raises:
      ValueError: It is no encoder and no decoder.
    """
    checkpoint = model.checkpoint
    family = checkpoint.family
    if family not in ("encoder", "decoder"):
        raise ValueError(f"this model's family is {family}; take an encoder or a decoder")
    structure = TracedModel(CALLS[family], model.config, checkpoint.graphdef, checkpoint.max_positions)
    return structure, checkpoint.params


def traced_inputs(
    model: Pretrained, structure: TracedModel, rows: list[np.ndarray], num_rows: int
) -> dict[str, PyTree]:
    """Return the inputs of ``TracedModel.logits``; rows are padded on the right.

    Args:
      model: The model.
      structure: Its structure.
      rows: Token ids of each row.
      num_rows: Number of rows to pad to.

    Raises:
      ValueError: A row has more tokens than the model reads, or an id is out of range.
    """
    limit, longest = structure.max_positions, max(map(len, rows))
    if limit is not None and longest > limit:
        raise ValueError(f"a text has {longest} tokens, and the model reads {limit}; shorten it")
    ids, mask = pad_prompts(
        rows, length=round_length(longest, limit), batch_size=num_rows, fill=model.special_ids.fill
    )
    arguments = {"input_ids": ids, "attention_mask": mask}
    return structure.call.read(arguments, Context(model.config, model.special_ids))
