"""A run of an encoder-decoder or of a decoder that begins with the weights of a pretrained encoder."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from jax.sharding import Mesh

from t5x_like.checkpoints.steps import absolute
from t5x_like.config_class import changeable, config_class
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.encoder_weights import DecoderLayers, check_encoder, with_encoder
from t5x_like.pretrained.frozen_weights import fresh_params, missing_source
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_unread
from t5x_like.pretrained.other_direction import check_turned, is_turned, with_turned
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.text.tasks.task_set import LabelSpace
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.start.start import Start, StartingWeights
from t5x_like.training.vocabulary_checks import check_same_vocabulary


@config_class
class RecordedEncoder:
    """An encoder that a run's fresh weights were filled in from, as ``frozen.json`` records it: an ``InitialInputs``.

    Attributes:
      encoder: Absolute path of the encoder's checkpoint.
      encoder_step: Step of it, if it is a run.
      decoder_layers: Weights of the decoder's layers, as in ``PretrainedEncoder``.
    """

    encoder: str
    encoder_step: int | None = None
    decoder_layers: DecoderLayers = "fresh"

    def sources(self) -> Mapping[str, str]:
        """Return what the run began with, by the field that has its path."""
        return {"encoder": f"those of the encoder {self.encoder}"}

    def weights(
        self, params: Parameters, config: Any, *, run: str, vocabulary: Callable[[], Any], mesh: Mesh | None
    ) -> Parameters:
        """Return a model's weights with those of the encoder.

        Args:
          params: Fresh weights.
          config: Configuration of the model.
          run: Directory of the run, for messages.
          vocabulary: Returns the run's tokenizer, which isn't needed.
          mesh: Devices to place the weights on.
        """
        del vocabulary
        try:
            return _filled(params, config, self.encoder, self.encoder_step, self.decoder_layers, mesh)[0]
        except (OSError, ValueError) as error:
            raise missing_source(error, "encoder", self.encoder, run=run) from error


@config_class
class PretrainedEncoder(Start):
    """Starts an encoder-decoder from an encoder, as BERT2BERT (Rothe et al. 2020) and SixT (Chen et al. 2021).

    Word table, positions and layers of the model's encoder are the pretrained ones, so that its outputs are those of
    the encoder alone. Cross-attention is freshly drawn. A decoder with the layers of the encoder has its weights, too,
    and reads in one direction (Weller et al. 2025).

    Attributes:
      encoder: A run or a Hugging Face directory of an encoder, such as BERT, RoBERTa or XLM-R, or ModernBERT for a
        decoder.
      step: Step of a run; its newest if not given.
      decoder_layers: "fresh" draws the decoder's layers and positions (BERT2RND, SixT); "encoder" begins with those of
        the encoder (BERT2BERT), of which the decoder must have as many. Decoders alone have the encoder's anyway.
    """

    encoder: str = changeable()
    step: int | None = None
    decoder_layers: DecoderLayers = "fresh"

    def __post_init__(self) -> None:
        if not self.encoder:
            raise ValueError("encoder is empty; name a run or a Hugging Face directory of an encoder")

    @property
    def description(self) -> str:
        """Origin of the weights, as the opening lines name it."""
        stacks = "encoder and decoder" if self.decoder_layers == "encoder" else "encoder"
        return f"from fresh weights, with {self.encoder} as {stacks}"

    def check(self, loader: object) -> None:
        """Check that the encoder reads the vocabulary of the tasks."""
        with open_unread(self.encoder, step=self.step) as pretrained:
            check_same_vocabulary("the encoder", pretrained, loader, has_all_rows=False)

    def check_weights(self, model: Any, tokenizer: Tokenizer | None) -> list[str]:
        """Check that the encoder fits the model."""
        del tokenizer
        _check(self.encoder, read_config(self.encoder), model, self.decoder_layers)
        return []

    def weights(
        self, model: Any, *, mesh: Mesh, seed: int, labels: LabelSpace, vocabulary: Any
    ) -> StartingWeights:
        """Return fresh weights with those of the encoder in them."""
        del labels, vocabulary
        params = fresh_params(model, mesh=mesh, seed=seed)
        params, step = _filled(params, model, self.encoder, self.step, self.decoder_layers, mesh)
        recorded = RecordedEncoder(
            encoder=os.fspath(absolute(self.encoder)), encoder_step=step, decoder_layers=self.decoder_layers
        )
        return StartingWeights(params, {"inputs": recorded})


def _check(where: str, encoder: Any, model: Any, decoder_layers: DecoderLayers) -> None:
    if is_turned(encoder, model) and not isinstance(model.parts, EncoderConfig):
        check_turned(where, encoder, model)
    else:
        check_encoder(where, encoder, model, decoder_layers)


def _filled(
    params: Parameters,
    config: Any,
    encoder: str,
    step: int | None,
    decoder_layers: DecoderLayers,
    mesh: Mesh | None,
) -> tuple[Parameters, int | None]:
    """Return weights with those of an encoder, and the step that these are of."""
    checkpoint = open_checkpoint(encoder, mesh=mesh, step=step)
    _check(encoder, checkpoint.config, config, decoder_layers)
    if is_turned(checkpoint.config, config):
        return with_turned(params, config, checkpoint.config, checkpoint.params), checkpoint.step
    filled = with_encoder(params, config, checkpoint.config, checkpoint.params, decoder_layers)
    return filled, checkpoint.step
