"""Configuration of a data loader."""

from typing import Literal

from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.text.objectives.masked_targets import MaskedTargets
from t5x_like.text.objectives.objective import Layout
from t5x_like.text.tasks.task_set import NO_LABELS, LabelSpace, TaskSet

PrefixAttention = Literal["bidirectional", "causal"]


@config_class
class LoaderConfig:
    """Examples to load, and their layout in batches.

    Lengths are in tokens and include the end of sequence. Longer examples are cut to one token less, then ended, as in
    T5. Training data repeats indefinitely, each epoch in another order. Batches don't depend on the numbers of workers
    and processes.

    Attributes:
      mixture: Name of a registered task or mixture.
      batch_size: Rows of a batch over all processes.
      inputs_length: Limit of the encoder's tokens; ignored by models without any, such as those that read speech. With
        ``layout="decoder"``, limit of the inputs within the stream.
      targets_length: Limit of the decoder's stream; ignored by models without a decoder.
      split: Split of the tasks to read.
      pack: Put several examples into a row if they fit, among a thousand consecutive ones.
      shuffle: Shuffle each epoch.
      repeat: If False, yield every example once and fill up the last batch with empty rows, for evaluation. A document
        over 65,536 tokens contributes one part of that length, as in each epoch.
      seed: Seed of order, mixing and corruption.
      cache: Directory written by ``t5x-like cache``; None tokenizes at the start.
      on_corruption: For damaged cache files: "fail", or "quarantine" to skip the examples in damaged bytes.
      max_tokens_in_memory: Limit for a task without a cache, in tokens of 2 or 4 bytes each. A larger task is read as
        a stream, and a restart replays the stream from the start of its epoch.
      num_workers: Processes that make batches; 0 makes them in this process.
      layout: Streams that the model reads; None uses the objective's own, which for inputs and targets is
        "encoder_decoder". "decoder" joins inputs and targets into one stream. "encoder" gives the input of an
        encoder's head, ``[CLS] A [SEP] B [SEP]``, unpacked and only as long as a batch needs.
      prefix_attention: For inputs in a decoder's stream: "bidirectional" as in a prefix language model, or "causal" as
        in GPT.
      loss_on_targets_only: If False, a decoder also learns the inputs, as with seqio's option of this name.
      masked_targets: For a generative encoder, with ``layout="encoder"``: inputs and targets are one row of
        ``inputs_length`` tokens, whose target of at most ``targets_length`` tokens is masked. Without it
        ``layout="encoder"`` is for heads.
      group_by_length: Put examples of similar length, among a thousand consecutive ones, into the same batch. For
        encoder heads, and for speech among at least 128.
      alternate_tasks: Each batch has examples of one task, and the tasks of a mixture take turns (as in cross-view
        training, Clark et al. 2018, §3). If False, the task of each example is drawn by the rates. For rows that aren't
        packed, and equal rates.
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
    cache: str | None = changeable(default=None)
    on_corruption: Literal["fail", "quarantine"] = changeable(default="fail")
    max_tokens_in_memory: int = changeable(default=500_000_000)
    num_workers: int = changeable(default=0)
    layout: Layout | None = None
    prefix_attention: PrefixAttention = "bidirectional"
    loss_on_targets_only: bool = True
    masked_targets: MaskedTargets | None = None
    group_by_length: bool = False
    alternate_tasks: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_tokens_in_memory"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("inputs_length", "targets_length"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, a token and its end, got {getattr(self, name)}")
        if not self.loss_on_targets_only and self.layout != "decoder":
            raise ValueError(
                "loss_on_targets_only=False learns inputs too, which needs a decoder's joint stream of inputs and "
                "targets; set layout='decoder', or omit loss_on_targets_only"
            )
        if self.masked_targets is not None and self.layout != "encoder":
            raise ValueError(
                "masked_targets is for encoders, which read inputs and targets as one row; set layout='encoder'"
            )
        if self.group_by_length and (self.layout == "decoder" or self.masked_targets is not None):
            raise ValueError(
                "group_by_length is for tasks of encoders' heads (layout='encoder') and of speech; others are packed"
            )
        if self.alternate_tasks and self.group_by_length:
            raise ValueError(
                "alternate_tasks gives each batch examples of one task, and group_by_length those of similar length; "
                "set one of them to False"
            )
        if self.layout != "decoder":
            refuse_unused(
                self,
                "prefix_attention",
                because="it is for inputs in a decoder's stream",
                advice="set layout='decoder', or leave it out",
            )
        if self.cache is None:
            refuse_unused(self, "on_corruption", because="there is no cache", advice="name it by cache")
        if self.num_workers < 0:
            raise ValueError(f"num_workers must not be negative, got {self.num_workers}")

    @property
    def source_length(self) -> int:
        """Limit of the inputs; those of a generative encoder share a row with ``[CLS]`` and the target."""
        return self.inputs_length - (0 if self.masked_targets is None else 1 + self.targets_length)

    @property
    def reads_heads(self) -> bool:
        """True if tasks other than pretraining are read for a head."""
        return self.layout == "encoder" and self.masked_targets is None

    def labels(self, tasks: TaskSet) -> LabelSpace:
        """Return the meaning of the outputs of the head that reads the batches.

        Args:
          tasks: Tasks of ``mixture``.

        Raises:
          ValueError: No head reads one of them, or they need different heads or classes.
        """
        return tasks.labels if self.reads_heads else NO_LABELS
