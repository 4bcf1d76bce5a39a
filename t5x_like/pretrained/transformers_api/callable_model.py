"""An open model that is called as transformers' models are, and whose activations are read and changed."""

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from flax import nnx
from jaxtyping import PyTree

from t5x_like.model import parameters
from t5x_like.model.model_traits import traits_of
from t5x_like.model.named_activations import HIDDEN_STATES, Edits, as_arguments, record
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.call import Context, Outputs, hidden_states, to_outputs
from t5x_like.pretrained.transformers_api.call_arguments import is_text, refuse_unknown
from t5x_like.pretrained.transformers_api.open_model import OpenModel


class CallableModel(OpenModel):
    """A model that computes outputs and activations.

    Args:
      checkpoint: Checkpoint that was opened.
    """

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(checkpoint)
        self._edits: Edits = {}
        self._forward = jax.jit(self._compute, static_argnames=("graphdef", "capture"))

    def __call__(
        self, input_ids: object = None, *, output_hidden_states: bool = False, **arguments: object
    ) -> Outputs:
        """Compute what a transformers model of this class computes: arrays in, float32 arrays out, by its names.

        Args:
          input_ids: Token ids, [B, L].
          output_hidden_states: Also return each layer's hidden states.
          **arguments: Arguments of the transformers class. ``attention_mask`` is [B, L] of 0 and 1, or [B, L, L] with 1
            where a position may attend to another. With ``labels`` (-100 where there is none), or what the class has in
            their place, there is a ``loss``.

        Raises:
          ValueError: Values are out of their range, or shapes don't belong together.
          TypeError: The model doesn't take one of the arguments.
        """
        capture = (f"*/{HIDDEN_STATES}",) if output_hidden_states else ()
        outputs, captured = self._run({"input_ids": input_ids, **arguments}, capture)
        if output_hidden_states:
            outputs |= hidden_states(captured, self._opened.family, self.config)
        return to_outputs(outputs)

    def activations(
        self,
        input_ids: Any,
        capture: Sequence[str],
        attention_mask: object = None,
        **arguments: Any,
    ) -> dict[str, np.ndarray]:
        """Return activations of all layers by name; ``t5x_like.model.named_activations`` has the names and shapes.

        >>> pretrained.activations("The capital of France is", ["decoder/feed_forward/activations"])

        Args:
          input_ids: Token ids [B, L], or a text or list of texts, which are padded on the right.
          capture: Names, or patterns such as ``"*/hidden_states"``.
          attention_mask: Mask with 1 where a token is real, [B, L]; made for texts.
          **arguments: Other arguments of a call. An encoder-decoder's decoder reads its start token alone if none says
            otherwise.

        Returns:
          Arrays of float32 with a leading axis of layers.

        Raises:
          ValueError: A name or pattern matches nothing; names the activations that there are.
        """
        if is_text(input_ids):
            return self.activations(
                capture=capture, **self.encode(input_ids, padding_side="right"), **arguments
            )
        if isinstance(capture, str) or not capture:
            raise ValueError(f"capture is {capture!r}; give a list of names, such as ['*/{HIDDEN_STATES}']")
        if attention_mask is not None:
            arguments["attention_mask"] = attention_mask
        arguments = {"input_ids": input_ids, **self._decoder_start(input_ids), **arguments}
        return dict(to_outputs(self._run(arguments, tuple(capture))[1]))

    @contextmanager
    def edited(self, edits: Edits) -> Iterator[None]:
        """Edit activations in all calls inside of the context, in ``generate`` and ``embed`` too.

        >>> with pretrained.edited({"decoder/feed_forward/activations": AffineEdit(factors=factors)}):
        ...     pretrained.generate("The capital of France is")

        Args:
          edits: Edits by name or pattern: an ``AffineEdit`` of arrays by layer, or a function of an activation and the
            number of its layer. While generating, an activation is that of the new tokens.

        Raises:
          ValueError: At a call, if a name or pattern matches nothing or a shape doesn't fit.
        """
        before, self._edits = self._edits, as_arguments({**self._edits, **edits})
        try:
            yield
        finally:
            self._edits = before

    def _decoder_start(self, input_ids: Sized) -> dict[str, object]:
        """Return the shortest input of a decoder that reads an encoder's output, as an argument of a call."""
        if "decoder_input_ids" not in self._call.ARGUMENTS:
            return {}
        return {"decoder_input_ids": np.full((len(input_ids), 1), self.special_ids.decoder_start, np.int32)}

    def _run(
        self, arguments: dict[str, object], capture: tuple[str, ...]
    ) -> tuple[dict[str, PyTree], dict[str, jax.Array]]:
        """Return outputs of a call by transformers' names, and captured activations."""
        refuse_unknown(
            {name: each for name, each in arguments.items() if name != "input_ids"}, self._call.ARGUMENTS
        )
        if all(arguments.get(name) is None for name in ("input_ids", "input_values", "encoder_outputs")):
            raise ValueError(f"give {self._input_name}, [batch, length]")
        inputs = self._call.read(arguments, Context(self.config, self.special_ids))
        graphdef, params = parameters.split(self.model)
        with self.matmul_precision():
            return self._forward(params, inputs, self._edits, graphdef=graphdef, capture=capture)

    def _compute(
        self,
        params: Parameters,
        inputs: dict[str, PyTree],
        edits: Edits,
        *,
        graphdef: nnx.GraphDef,
        capture: tuple[str, ...],
    ) -> tuple[dict[str, PyTree], dict[str, jax.Array]]:
        with record(capture, edits) as captured:
            outputs = self._call.compute(parameters.merge(graphdef, params), self.config, inputs)
        return outputs, captured

    @property
    def _input_name(self) -> str:
        return "input_values" if traits_of(self.config).reads_speech else "input_ids"
