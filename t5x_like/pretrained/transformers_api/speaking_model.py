"""Speech by an open model."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from t5x_like.index_checks import check_seed
from t5x_like.inference.speech_generation import GeneratedSpeech, generate_frames
from t5x_like.model import parameters
from t5x_like.model.named_activations import Edits, record
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.call_arguments import is_text
from t5x_like.pretrained.transformers_api.callable_model import CallableModel
from t5x_like.pretrained.transformers_api.speech_call import encoder_batch
from t5x_like.pretrained.transformers_api.speech_requests import (
    Vocoder,
    answer_with_speech,
    read_speech_request,
)


class SpeakingModel(CallableModel):
    """A model that writes spectrograms.

    Args:
      checkpoint: Checkpoint that was opened.
    """

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(checkpoint)
        self._generate_speech = jax.jit(self._speak, static_argnames=("graphdef", "ratios"))

    def generate_speech(
        self,
        input_ids: Any = None,
        speaker_embeddings: object = None,
        attention_mask: object = None,
        *,
        input_values: object = None,
        threshold: float = 0.5,
        minlenratio: float = 0.0,
        maxlenratio: float = 20.0,
        vocoder: Vocoder | None = None,
        return_output_lengths: bool = False,
        seed: int = 0,
    ) -> Any:
        """Generate the spectrograms of texts, or of speech in another voice, until a stop flag.

        >>> pretrained = t5x_like.from_pretrained("path/to/speecht5_tts")
        >>> pretrained.generate_speech(ids, speaker_embeddings=vector)

        Arguments and defaults are transformers'. The net before the decoder drops units at every step, as it did in
        training: another seed gives other speech.

        Args:
          input_ids: Token ids [B, M], or a text or list of texts; waveforms [B, S] for a model that reads speech.
          speaker_embeddings: Vectors of speakers, [B, E] or [1, E]; zeros for speech to speech if not given.
          attention_mask: Mask with 1 for real tokens or samples; padding of ids is left out without it.
          input_values: Waveforms [B, S], in place of ``input_ids``.
          threshold: A row ends where the probabilities of a step's stop flags sum to this.
          minlenratio: Fewest frames for each of the encoder's outputs.
          maxlenratio: Most frames for each of the encoder's outputs.
          vocoder: Function from a spectrogram, or a padded batch of them, to waveforms.
          return_output_lengths: Return the number of frames or samples of each row, too.
          seed: Seed of the units that are kept.

        Returns:
          Spectrogram [T, E] for one row, or [B, T, E] with zeros after shorter ones. With a vocoder, its waveforms.
          With ``return_output_lengths``, always a batch, and the list of lengths.

        Raises:
          ValueError: The model writes no speech, it needs a speaker, or arguments make no sense.
        """
        if is_text(input_ids):
            encoded = self.encode(input_ids, padding_side="right")
            input_ids, attention_mask = encoded["input_ids"], encoded["attention_mask"]
        arguments = {
            "input_ids": input_ids,
            "input_values": input_values,
            "attention_mask": attention_mask,
            "speaker_embeddings": speaker_embeddings,
        }
        pad = self.special_ids.pad
        inputs = read_speech_request(
            arguments, self.config, pad=pad, min_ratio=minlenratio, max_ratio=maxlenratio
        )
        check_seed(seed)
        graphdef, params = parameters.split(self.model)
        with self.matmul_precision():
            generated = self._generate_speech(
                params,
                inputs,
                jax.random.key(seed),
                threshold,
                self._edits,
                graphdef=graphdef,
                ratios=(minlenratio, maxlenratio),
            )
        frames, lengths = map(np.asarray, generated)
        return answer_with_speech(frames, lengths, vocoder=vocoder, with_lengths=return_output_lengths)

    def _speak(
        self,
        params: Parameters,
        inputs: dict[str, jax.Array],
        key: jax.Array,
        threshold: float,
        edits: Edits,
        *,
        graphdef: nnx.GraphDef,
        ratios: tuple[float, float],
    ) -> GeneratedSpeech:
        model = parameters.merge(graphdef, params)
        with record(edits=edits):
            return generate_frames(
                model,
                encoder_batch(inputs),
                inputs["speakers"],
                key,
                threshold=threshold,
                min_ratio=ratios[0],
                max_ratio=ratios[1],
            )
