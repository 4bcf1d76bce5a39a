"""The batch: the contract between ``text``, which makes it, and ``model``, which reads it."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

Array = Any  # numpy.ndarray from text/, jax.Array on the mesh, None if absent: this file imports neither

# What there is one value for. A "token_pair" is a query and a key. An example has one row, or several (choices).
Level = Literal["token", "token_pair", "row", "example"]


class DataField(NamedTuple):
    """Declaration of a stream of data, by which examples become batches, and batches are cut, joined and sharded.

    Attributes:
      name: Name of the stream.
      level: What there is one value for.
      dtype: NumPy dtype.
      width: Numbers of each value, or "outputs" for as many as the head has; None for a single number.
      padding: Value where an example has none, or a row no example.
      source: Field of ``Example`` that holds it, if its name is another one.
      max_length: Most values of a sequence with a length of its own, such as samples; None for no sequence.
      length_stream: Stream with the lengths of these sequences, by which batches are padded.
    """

    name: str
    level: Level = "token"
    dtype: str = "int32"
    width: int | Literal["outputs"] | None = None
    padding: float = 0
    source: str = ""
    max_length: int | None = None
    length_stream: str = ""

    @property
    def example_field(self) -> str:
        """Name in an ``Example``."""
        return self.source or self.name


class DeclaredStreams(NamedTuple):
    """Streams that a task, an objective or a training method declares, by name; see ``DataField``.

    Attributes:
      token: Numbers of tokens [B, L], or [B, C, L].
      row: Numbers of rows [B], or [B, C].
      example: Numbers of examples [B].
    """

    token: Mapping[str, Array] = {}
    row: Mapping[str, Array] = {}
    example: Mapping[str, Array] = {}

    def __getitem__(self, name: Any) -> Any:
        """Return a stream by its name, whatever its level.

        Raises:
          KeyError: There is no such stream.
        """
        if not isinstance(name, str):
            return tuple.__getitem__(self, name)
        return {**self.token, **self.row, **self.example}[name]


class Batch(NamedTuple):
    """One batch of token ids. A plain tuple, hence a JAX pytree; absent streams are ``None``.

    Encoders read the encoder's stream, decoders the decoder's, encoder-decoders both. Targets belong to the decoder's
    positions where there is a decoder, else to the encoder's. Rows for a head have the encoder's stream only: a decoder
    reads it as its own, both stacks of an encoder-decoder read it. With several rows per example (multiple choice,
    both orders of a pair), streams are [B, C, L] and labels [B].

    Attributes:
      encoder_input_tokens: int32 [B, M].
      encoder_segment_ids: int32 [B, M]; 0 is padding, ``k`` the k-th example packed into the row. Without them every
        position is real and each row is one example.
      encoder_positions: int32 [B, M], from 0 in each segment. Without them they count from 0 in each row.
      decoder_input_tokens: int32 [B, L], targets shifted right inside each segment.
      decoder_segment_ids: int32 [B, L], as the encoder's.
      decoder_positions: int32 [B, L], as the encoder's.
      target_tokens: int32 [B, L].
      loss_weights: float32 [B, L]; 0 for positions without a target.
      task_ids: int32 [B, L], index in the mixture of each target's task.
      token_types: int32 [B, L], such as first and second sentence (BERT).
      task_types: int32 [B, L], types of pretraining tasks (ERNIE 2.0).
      block_positions: int32 [B, L], positions inside a masked span, from 1; 0 outside (GLM).
      prefix: int32 [B, L]; 1 where earlier positions of a decoder may attend to a token (prefix language model).
      attention_mask: bool [B, L, M]; limits attention further than segments do (UniLM).
      ranks: int32 [B, L], order of prediction: a token attends to lower or equal ranks, and all to 0. Ranks give
        encoders and decoders their direction of attention (UniLM), and XLNet the order of prediction.
      sequence_labels: int32 [B], labels of whole sequences, such as next sentence or class.
      continues: int32 [B]; 1 where a row continues the same row of the batch before, 0 where it starts
        (Transformer-XL).
      sequence_values: float32 [B], numbers to predict for whole sequences; not-a-number where unlabeled.
      sequence_spans: int32 [B, 2], first and last token of an answer; 0 and 0 for no answer, -1 where unlabeled.
      sequence_classes: int32 [B, C], 1 for each class of a row with several, 0 for the others; -1 where unlabeled.
      declared: Further streams, which a task, an objective or a training method declares; None if there are none.
    """

    encoder_input_tokens: Array = None
    encoder_segment_ids: Array = None
    encoder_positions: Array = None
    decoder_input_tokens: Array = None
    decoder_segment_ids: Array = None
    decoder_positions: Array = None
    target_tokens: Array = None
    loss_weights: Array = None
    task_ids: Array = None
    token_types: Array = None
    task_types: Array = None
    block_positions: Array = None
    prefix: Array = None
    attention_mask: Array = None
    ranks: Array = None
    sequence_labels: Array = None
    continues: Array = None
    sequence_values: Array = None
    sequence_spans: Array = None
    sequence_classes: Array = None
    declared: DeclaredStreams | None = None

    def map(self, function: Callable[[DataField, Array], Any]) -> "Batch":
        """Return a batch of the function's values for each stream.

        Args:
          function: Called with the declaration and the array of each stream that is there.
        """
        return map_streams(function, self)


# One entry for each stream of ``Batch``.
FIELDS: Mapping[str, DataField] = {
    field.name: field
    for field in (
        DataField("encoder_input_tokens", source="inputs"),
        DataField("encoder_segment_ids"),
        DataField("encoder_positions", source="positions"),
        DataField("decoder_input_tokens", source="inputs"),
        DataField("decoder_segment_ids"),
        DataField("decoder_positions", source="positions"),
        DataField("target_tokens", source="targets"),
        DataField("loss_weights", dtype="float32", source="weights"),
        DataField("task_ids", source="task"),
        DataField("token_types"),
        DataField("task_types"),
        DataField("block_positions"),
        DataField("prefix"),
        DataField("attention_mask", "token_pair", dtype="bool"),
        DataField("ranks"),
        DataField("sequence_labels", "example", padding=-1, source="label"),
        DataField("continues", "row"),
        DataField("sequence_values", "example", dtype="float32", padding=math.nan, source="value"),
        DataField("sequence_spans", "example", width=2, padding=-1, source="span"),
        DataField("sequence_classes", "example", width="outputs", padding=-1, source="classes"),
    )
}


# Declared streams of models that read entities. An entity belongs to the first token of its mention; -1 is none.
ENTITIES = "entities"
ENTITY_TARGETS = "entity_targets"  # the right ones, of which some are hidden or replaced in the former

# Declared streams of models that read or write speech, all with one value for each example. Their lengths are not those
# of tokens, so nothing cuts or pads them as tokens.
WAVEFORMS = "waveforms"  # float32 [B, S], samples
WAVEFORM_LENGTHS = "waveform_lengths"  # int32 [B], number of real samples; absent where all are
SPEAKERS = "speakers"  # float32 [B, E], vectors of speakers
DECODER_FRAMES = "decoder_frames"  # float32 [B, L, M], frames that a decoder reads
SPECTROGRAMS = "spectrograms"  # float32 [B, T, M], frames to predict
CLUSTERS = "clusters"  # int32 [B, F], cluster of each frame of an encoder of waveforms; -1 for none
SPECTROGRAM_LENGTHS = "spectrogram_lengths"  # int32 [B], number of real frames; absent where all are


def map_streams(function: Callable[..., Any], *batches: Batch) -> Batch:
    """Return a batch of the function's values for each stream of batches that have the same streams.

    Args:
      function: Called with the declaration of a stream and its array in each batch; not for absent streams.
      batches: At least one.
    """
    known = {
        name: function(field, *(getattr(batch, name) for batch in batches))
        for name, field in FIELDS.items()
        if getattr(batches[0], name) is not None
    }
    if batches[0].declared is None:
        return Batch(**known)
    declared: dict[str, dict[str, Any]] = {}
    for level in ("token", "row", "example"):
        streams = getattr(batches[0].declared, level)
        declared[level] = {
            name: function(
                DataField(name, level), *(getattr(batch.declared, level)[name] for batch in batches)
            )
            for name in streams
        }
    return Batch(**known, declared=DeclaredStreams(**declared))


def token_axis(level: Level) -> int | None:
    """Return the axis of a stream's tokens, counted from the last; ``None`` for values of rows and examples.

    >>> token_axis("token"), token_axis("token_pair"), token_axis("row")
    (-1, -2, None)
    """
    return {"token": -1, "token_pair": -2}.get(level)


def bucket_length(needed: int, limit: int, *, shortest: int = 32) -> int:
    """Return the shortest of ``limit`` and its halves, down to ``shortest``, that holds ``needed`` tokens.

    A program is compiled for each length, so there should be few. More tokens than ``limit`` keep their number.

    Args:
      needed: Number of tokens of the longest row.
      limit: Highest length.
      shortest: Lowest length.
    """
    length = max(needed, limit)
    while length % 2 == 0 and length > shortest and length // 2 >= needed:
        length //= 2
    return length
