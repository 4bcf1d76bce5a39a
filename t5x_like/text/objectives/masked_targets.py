"""Sequence-to-sequence fine-tuning of an encoder: masked tokens of a target that follows its source (UniLM)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import frame, require_ids, rows_to_examples
from t5x_like.text.objectives.masking import choose_units, replace_targets, require_rates
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class MaskedTargets:
    """Masks tokens of targets, so that an encoder learns to write them.

    Inputs ``a b`` and targets ``c d`` are the row ``[CLS] a b [SEP] c d [SEP]``, with token type 1 from ``c`` on. All
    tokens attend to the source; those of the target also to earlier ones and themselves. ``ranks`` encode this: ``0 0 0
    0 1 2 3``. The last ``[SEP]`` ends the target, and is masked like its other tokens, so that the model learns where
    to stop.

    Dong et al. 2019, on fine-tuning for generation, https://arxiv.org/abs/1905.03197.

    Attributes:
      noise_density: Fraction of the target's tokens to predict, its end included; at least one. The paper masks 0.7 for
        summaries and questions.
      mask_rate: Fraction of these that become the mask.
      random_rate: Fraction of these that become a random token; the others stay as they are, as in the authors' code.
    """

    noise_density: float = 0.7
    mask_rate: float = 0.8
    random_rate: float = 0.1

    def __post_init__(self) -> None:
        require_rates(self.noise_density, self.mask_rate, self.random_rate)

    @property
    def spec(self) -> ExampleSpec:
        """Encoder examples whose attention mask is given by ranks."""
        return ExampleSpec(layout="encoder", fields=("weights", "token_types", "ranks"))

    def limits(self, lengths: Lengths, ids: VocabularyIds) -> Lengths:
        """Return the lengths of inputs and targets in a row, each with its ``[SEP]``.

        Args:
          lengths: Lengths of the row and of its target.
          ids: Special ids of the vocabulary.

        Raises:
          ValueError: The vocabulary has no mask, cls or sep, or rows are too short for a source.
        """
        require_ids({name: getattr(ids, name) for name in ("mask", "cls", "sep")})
        sources = lengths.inputs - 1 - lengths.targets
        if sources < 2:
            raise ValueError(
                f"rows of inputs_length={lengths.inputs} have no room for a source next to targets_length="
                f"{lengths.targets} and [CLS]; set inputs_length to {lengths.targets + 3} or more"
            )
        return Lengths(sources, lengths.targets)

    def make(self, pairs: Sequence[Example], seeds: np.ndarray, ids: VocabularyIds) -> list[Example]:
        """Build one row from each pair.

        Args:
          pairs: Examples with inputs and targets, each ended by ``[SEP]``.
          seeds: Random seed of each row, uint64 [N, 2].
          ids: Special ids of the vocabulary.
        """
        framed = frame([_text(pair) for pair in pairs], ids)
        columns = np.arange(framed.tokens.shape[1])[None]
        in_target = (columns >= framed.second[:, None]) & (columns < framed.lengths[:, None])
        # The end of the target may be masked, too.
        candidates = framed._replace(is_text=in_target)
        counts = np.maximum(np.rint(in_target.sum(1) * self.noise_density), 1).astype(np.int64)
        is_target = choose_units(in_target, counts, candidates, seeds)
        masked = replace_targets(
            candidates, is_target, seeds, ids, mask_rate=self.mask_rate, random_rate=self.random_rate
        )
        return rows_to_examples(
            framed.lengths,
            inputs=masked.inputs,
            targets=framed.tokens,
            weights=is_target.astype(np.float32),
            ranks=np.maximum(columns - framed.second[:, None] + 1, 0).astype(np.int32),
            token_types=(columns >= framed.second[:, None]).astype(np.int32),
        )


def _text(pair: Example) -> Text:
    assert pair.inputs is not None
    assert pair.targets is not None
    source, target = pair.inputs[:-1], pair.targets[:-1]  # whose ends are framed
    return Text(np.concatenate([source, target]), second=len(source))
