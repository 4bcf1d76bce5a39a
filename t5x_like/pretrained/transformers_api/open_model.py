"""An open model with its tokenizer and adapters: what ``Pretrained`` is called on."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import jax
import numpy as np

from t5x_like.inference.length_batches import pad_prompts
from t5x_like.io.files import PathLike, as_path
from t5x_like.model import parameters
from t5x_like.model.families.family import FamilyName
from t5x_like.model.model_traits import traits_of
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.conversion import save_adapter
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.tokenizer_files import tokenizer_contents
from t5x_like.pretrained.transformers_api import (
    decoder_call,
    encoder_call,
    encoder_decoder_call,
    recurrent_call,
    speech_call,
    two_stream_call,
)
from t5x_like.pretrained.transformers_api.call import Call
from t5x_like.pretrained.transformers_api.generation_defaults import FILE
from t5x_like.text.vocabularies.tokenizer import Tokenizer

# How the models of each family are called.
CALLS: dict[FamilyName, Call] = {
    "decoder": decoder_call,
    "encoder": encoder_call,
    "encoder_decoder": encoder_decoder_call,
    "recurrent": recurrent_call,
    "speech_encoder_decoder": speech_call,
    "two_stream": two_stream_call,
}


class OpenModel:
    """A checkpoint's model with its tokenizer, and the adapters that were loaded over it.

    Args:
      checkpoint: Checkpoint that was opened.
    """

    model: Any
    config: Any

    def __init__(self, checkpoint: Checkpoint):
        self.fields = checkpoint.fields
        self.special_ids = checkpoint.special_ids
        self.adapter: str | None = None
        self._others: dict[str | None, Checkpoint] = {}  # with the adapters that are not in use
        self._use(checkpoint)
        family = self._opened.family
        if family not in CALLS:
            raise ValueError(
                f"{checkpoint.directory} is a {type(checkpoint.config).__name__} for "
                f"{traits_of(checkpoint.config).task}, which isn't called: fine-tune it, or open it with the task of a "
                "part, such as task='speech_to_text'"
            )
        self._call = CALLS[family]

    def __repr__(self) -> str:
        opened = self._opened
        tokenizer = f"{self.vocabulary.vocab_size:,} token ids" if self.vocabulary else "no tokenizer"
        step = "" if opened.step is None else f", step {opened.step}"
        name, task = type(self.config).__name__.removesuffix("Config"), traits_of(self.config).task
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
          name: Name for ``set_adapter``; one in use is replaced.
          directory: Directory of a run with frozen weights, such as one that trained an adapter; or an adapter that
            PEFT saved.
          step: Step of the run; its newest good one if not given.

        Raises:
          ValueError: The run was trained on other weights, or the adapter is for another model; says what differs.
        """
        self.set_adapter(None)
        base = self.checkpoint
        opened = open_checkpoint(directory, mesh=base.mesh, step=step, finite=False, base=base)
        self._others[name] = opened.computing_in(self.config.compute_dtype)
        self.set_adapter(name)

    def set_adapter(self, name: str | None) -> None:
        """Use a loaded adapter and its head; ``None`` uses the model without one.

        Raises:
          ValueError: No adapter of this name was loaded.
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

    def save_adapter(self, directory: PathLike) -> None:
        """Write the adapter in use, and what was trained with it, as PEFT saves adapters.

        >>> pretrained = t5x_like.from_pretrained("runs/sst2_lora")
        >>> pretrained.save_adapter("path/to/peft_adapter")

        Args:
          directory: Directory to write, new or empty. PEFT loads it over the model that the adapter was trained on.

        Raises:
          ValueError: No adapter is in use, PEFT can't express it, or the directory is not empty.
        """
        base, opened = self._others.get(None), self.checkpoint
        # An adapter that PEFT saved has no directory of a run, which would say what was trained.
        is_of_peft = base is not None and opened.directory == base.directory
        save_adapter(opened, directory, base=base if is_of_peft else None)

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
    def companions(self) -> dict[str, bytes]:
        """Contents of the tokenizer's files and of ``generation_config.json`` by name."""
        settings = as_path(self._opened.directory) / FILE
        own = {FILE: settings.read_bytes()} if settings.exists() else {}
        return own | tokenizer_contents(self._opened.directory)

    @property
    def vocabulary(self) -> Tokenizer | None:
        """Tokenizer next to the weights; ``None`` if there is none.

        Raises:
          ValueError: The tokenizer has more ids than the model has embeddings.
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
          text: Text, which makes a row, or several.
          padding_side: Side where shorter rows are padded; if not given, the left for decoders, whose texts continue.
          max_length: Number of tokens to cut texts to, special tokens included; no cut but an encoder's if not given.

        Returns:
          ``input_ids`` and ``attention_mask``, int32 [B, L].

        Raises:
          ValueError: There is no tokenizer, or the model takes no padding and the texts differ in length.
        """
        rows = [self._opened.prompt_encoder.encode(each, max_length) for each in one_or_several(text)]
        if not any(rows):
            raise ValueError(f"{text!r} has no token; give a text, or a list of at least one text")
        if padding_side is None:
            padding_side = "left" if self._opened.family == "decoder" else "right"
        return self.padded(rows, padding_side=padding_side)

    def padded(
        self, rows: Sequence[list[int]], *, padding_side: Literal["left", "right"]
    ) -> dict[str, np.ndarray]:
        """Return the arguments of a call for rows of token ids.

        Args:
          rows: Token ids of each row.
          padding_side: Side where shorter rows are padded.

        Raises:
          ValueError: The model takes no padding and the rows differ in length.
        """
        length = max(map(len, rows))
        ids, mask = pad_prompts(
            rows, length=length, fill=self.special_ids.fill, on_the_left=padding_side == "left"
        )
        if "attention_mask" in self._call.ARGUMENTS:
            return {"input_ids": ids, "attention_mask": mask}
        if not mask.all():
            raise ValueError(
                "this model takes no padding; give one text at a time, or texts of as many tokens"
            )
        return {"input_ids": ids}

    def decode(self, ids: object) -> Any:
        """Return the text of token ids [L], or the list of texts of rows [B, L], up to the end of each.

        Raises:
          ValueError: There is no tokenizer.
        """
        rows = np.asarray(ids)
        if rows.ndim == 2:
            return [self.decode(row) for row in rows]
        special = self.special_ids
        silent = {special.fill, special.decoder_start, *special.end_ids}
        start = next(
            (index for index, token_id in enumerate(rows.tolist()) if token_id not in silent), len(rows)
        )
        return self._opened.tokenizer.decode(rows[start:].tolist())

    def matmul_precision(self) -> AbstractContextManager[object]:
        """Return a context in which float32 means float32: GPUs would multiply in TF32, TPUs in bfloat16."""
        exact = self.config.compute_dtype == "float32"
        return jax.default_matmul_precision("float32") if exact else nullcontext()
