"""A run of an encoder-decoder or of an encoder that begins with the weights of a pretrained decoder."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jax.sharding import Mesh

from t5x_like.checkpoints.steps import absolute
from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.decoder_weights import (
    CrossAttention,
    DecoderWeights,
    check_decoder,
    require_decoder,
    with_decoder,
)
from t5x_like.pretrained.frozen_weights import fresh_params, missing_source
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_unread
from t5x_like.pretrained.other_direction import check_turned, is_turned, with_turned
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.start.start import Start, StartingWeights
from t5x_like.training.vocabulary_checks import check_same_vocabulary


@config_class
class RecordedDecoder:
    """Decoders that a run's fresh weights were filled in from, as ``frozen.json`` records them: an ``InitialInputs``.

    Attributes:
      decoder: Absolute path of the decoder's checkpoint.
      decoder_step: Step of it, if it is a run.
      encoder: Absolute path of the checkpoint for the encoder; ``None`` for that of ``decoder``.
      encoder_step: Step of it, if it is a run.
      cross_attention: Weights of cross-attention, as in ``PretrainedDecoder``.
    """

    decoder: str
    decoder_step: int | None = None
    encoder: str | None = None
    encoder_step: int | None = None
    cross_attention: CrossAttention = "self_attention"

    def sources(self) -> Mapping[str, str]:
        """Return what the run began with, by the field that has its path."""
        sources = {"decoder": f"those of the decoder {self.decoder}"}
        if self.encoder is not None:
            sources["encoder"] = f"those of {self.encoder} in its encoder"
        return sources

    def weights(
        self, params: Parameters, config: Any, *, run: str, vocabulary: Callable[[], Any], mesh: Mesh | None
    ) -> Parameters:
        """Return a model's weights with those of the decoders.

        Args:
          params: Fresh weights.
          config: Configuration of the model.
          run: Directory of the run, for messages.
          vocabulary: Returns the run's tokenizer, which isn't needed.
          mesh: Devices to place the weights on.
        """
        del vocabulary
        try:
            return _filled(params, config, self, mesh)[0]
        except (OSError, ValueError) as error:
            fields = " or ".join(self.sources())
            raise missing_source(error, fields, self.encoder or self.decoder, run=run) from error


@config_class
class PretrainedDecoder(Start):
    """Starts an encoder-decoder from a decoder (T5Gemma, Zhang et al. 2025), or an encoder (BehnamGhader et al. 2024).

    Word tables, self-attention, feed-forward layers and norms of both stacks are the decoder's. An encoder such as
    EuroBERT has its layers, too, and reads in both directions.

    Attributes:
      decoder: A run or a Hugging Face directory of a decoder, such as Gemma 2, or LLaMA for an encoder.
      step: Step of a run; its newest if not given.
      encoder: Another decoder, whose weights the encoder of an encoder-decoder begins with; ``None`` for the same.
      encoder_step: Step of that one, if it is a run.
      cross_attention: "self_attention" begins with the self-attention of the same layer, which needs stacks of one
        width; "fresh" draws it.
    """

    decoder: str = changeable()
    step: int | None = None
    encoder: str | None = changeable(default=None)
    encoder_step: int | None = None
    cross_attention: CrossAttention = "self_attention"

    def __post_init__(self) -> None:
        if not self.decoder:
            raise ValueError("decoder is empty; name a run or a Hugging Face directory of a decoder")
        if not self.encoder:
            refuse_unused(self, "encoder_step", because="encoder names no other decoder")

    @property
    def description(self) -> str:
        """Origin of the weights, as the opening lines name it."""
        other = f", and {self.encoder} in the encoder" if self.encoder else ""
        return f"from fresh weights, with those of the decoder {self.decoder}{other}"

    def check(self, loader: object) -> None:
        """Check that the decoders read the vocabulary of the tasks."""
        steps = {self.decoder: self.step} | ({self.encoder: self.encoder_step} if self.encoder else {})
        for directory, step in steps.items():
            with open_unread(directory, step=step) as pretrained:
                check_same_vocabulary("the decoder", pretrained, loader, has_all_rows=False)

    def check_weights(self, model: Any, tokenizer: Tokenizer | None) -> list[str]:
        """Check that the decoders fit the model."""
        del tokenizer
        encoder = self.encoder or self.decoder
        decoder_config, encoder_config = (read_config(each) for each in (self.decoder, encoder))
        _check(
            model, self.decoder, decoder_config, encoder, encoder_config, cross_attention=self.cross_attention
        )
        if is_turned(decoder_config, model):
            refuse_unused(
                self,
                *("encoder", "cross_attention"),
                because=f"a {type(model).__name__} is an encoder, and has no decoder next to it",
            )
        return []

    def weights(
        self, model: Any, *, mesh: Mesh, seed: int, labels: LabelSpace, vocabulary: Any
    ) -> StartingWeights:
        """Return fresh weights with those of the decoders in them."""
        del labels, vocabulary
        recorded = RecordedDecoder(
            decoder=os.fspath(absolute(self.decoder)),
            decoder_step=self.step,
            encoder=os.fspath(absolute(self.encoder)) if self.encoder else None,
            encoder_step=self.encoder_step,
            cross_attention=self.cross_attention,
        )
        params, recorded = _filled(fresh_params(model, mesh=mesh, seed=seed), model, recorded, mesh)
        return StartingWeights(params, {"inputs": recorded})


def _check(
    model: Any,
    decoder: str,
    decoder_config: Any,
    encoder: str,
    encoder_config: Any,
    *,
    cross_attention: CrossAttention,
) -> None:
    """Check that decoders fit the model; ``encoder`` is the one for an encoder-decoder's encoder."""
    require_decoder(decoder, decoder_config)
    require_decoder(encoder, encoder_config)
    if is_turned(decoder_config, model):
        check_turned(decoder, decoder_config, model)
        return
    check_decoder(encoder, encoder_config, model, "encoder", cross_attention)
    check_decoder(decoder, decoder_config, model, "decoder", cross_attention)


def _filled(
    params: Parameters, model: Any, recorded: RecordedDecoder, mesh: Mesh | None
) -> tuple[Parameters, RecordedDecoder]:
    """Return weights with those of decoders, and the record with the steps that these are of."""
    decoder = open_checkpoint(recorded.decoder, mesh=mesh, step=recorded.decoder_step)
    encoder = (
        decoder
        if recorded.encoder is None
        else open_checkpoint(recorded.encoder, mesh=mesh, step=recorded.encoder_step)
    )
    _check(
        model,
        recorded.decoder,
        decoder.config,
        recorded.encoder or recorded.decoder,
        encoder.config,
        cross_attention=recorded.cross_attention,
    )
    if is_turned(decoder.config, model):
        filled = with_turned(params, model, decoder.config, decoder.params)
    else:
        filled = with_decoder(
            params,
            model,
            decoder=DecoderWeights(decoder.config, decoder.params),
            encoder=DecoderWeights(encoder.config, encoder.params),
            cross_attention=recorded.cross_attention,
        )
    encoder_step = None if recorded.encoder is None else encoder.step
    steps = {"decoder_step": decoder.step, "encoder_step": encoder_step}
    return filled, replace(recorded, **steps)
