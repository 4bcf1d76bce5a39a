"""Configuration of a data loader."""

from typing import Literal

from t5x_like.config_class import config_class
from t5x_like.text.objectives.objective import Layout

PrefixAttention = Literal["bidirectional", "causal"]


@config_class
class LoaderConfig:
    """Selects the examples to load and describes how they become batches.

    Lengths are in tokens and include the end of sequence. Longer examples are cut T5's way: to one token less, then
    ended. Training data repeats without end, each epoch in another order. The batches are the same with any number of
    workers and processes.

    Attributes:
      mixture: Name of a registered task or mixture.
      batch_size: Rows of a batch over all processes.
      inputs_length: Limit of the encoder's stream. With ``layout="decoder"``, limit of the inputs within the stream.
      targets_length: Limit of the decoder's stream. A model without a decoder ignores it.
      split: Split of the tasks to read.
      pack: Puts several examples in a row where both sides fit, among a thousand consecutive ones.
      shuffle: Shuffles each epoch.
      repeat: If False, yields every example once (of a document over 65,536 tokens one such part, as in each epoch)
        and fills up the last batch with empty rows. Used for measuring.
      seed: Seed of order, mixing and corruption.
      cache: Directory written by ``t5x-like cache``; None tokenizes at the start.
      on_corruption: For damaged cache files: "fail", or "quarantine" to leave out the examples in damaged bytes.
      max_tokens_in_memory: Limit for a task without a cache, in tokens of 2 or 4 bytes each. A larger task is read as
        a stream, and a restart replays the stream from the start of its epoch.
      num_workers: Processes that make batches; 0 makes them in this process.
      layout: Streams the model reads; None takes the objective's own, which for inputs and targets is
        "encoder_decoder". "decoder" joins inputs and targets in one stream. "encoder" gives what a head of an
        encoder reads, ``[CLS] A [SEP] B [SEP]``, unpacked and only as long as a batch needs.
      prefix_attention: For inputs in a decoder's stream: "bidirectional" as in a prefix language model, or "causal" as
        GPT reads.
      loss_on_targets_only: If False, a decoder also learns the inputs, as with seqio's option of this name.
      group_by_length: Puts examples of similar length, of a thousand consecutive ones, into the same batch. For
        encoder heads.
    """

    mixture: str
    batch_size: int
    inputs_length: int
    targets_length: int
    split: str = "train"
    pack: bool = True
    shuffle: bool = True
    repeat: bool = True
    seed: int = 0
    cache: str | None = None
    on_corruption: Literal["fail", "quarantine"] = "fail"
    max_tokens_in_memory: int = 500_000_000
    num_workers: int = 0
    layout: Layout | None = None
    prefix_attention: PrefixAttention = "bidirectional"
    loss_on_targets_only: bool = True
    group_by_length: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_tokens_in_memory"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("inputs_length", "targets_length"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, a token and its end, got {getattr(self, name)}")
        if not self.loss_on_targets_only and self.layout != "decoder":
            raise ValueError(
                "loss_on_targets_only=False learns inputs too, which only a decoder's one stream of inputs and targets "
                "can; set layout='decoder', or leave loss_on_targets_only out"
            )
        if self.group_by_length and self.layout != "encoder":
            raise ValueError(
                "group_by_length is for tasks of encoders' heads (layout='encoder'); others are packed"
            )
        if self.num_workers < 0:
            raise ValueError(f"num_workers must not be negative, got {self.num_workers}")
