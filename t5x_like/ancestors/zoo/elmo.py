"""ELMo: a bidirectional language model over characters (Peters et al. 2018, https://arxiv.org/abs/1802.05365)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from t5x_like.ancestors.families.bidirectional_language_model import (
    BidirectionalLanguageModelConfig,
    FullSoftmax,
    SoftmaxConfig,
)
from t5x_like.ancestors.layers.character_cnn import CharacterCNNConfig
from t5x_like.ancestors.layers.rnn_cell import LSTMConfig
from t5x_like.ancestors.layers.rnn_stack import RNNStackConfig
from t5x_like.ancestors.layers.sampled_softmax import SampledSoftmax
from t5x_like.ancestors.word_vectors.character_table import CHARACTER_TABLE, character_table
from t5x_like.ancestors.word_vectors.word_text import words_of
from t5x_like.ancestors.zoo.rnn_config import RNNConfig
from t5x_like.config_class import config_class
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.adaptive_softmax import AdaptiveConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.model_tasks import ModelTask, scoring_heads
from t5x_like.model.zoo.weights import Weight, WeightTransform


@config_class
class ClusteredSoftmax:
    """An adaptive softmax (Grave et al. 2017); fields are those of ``AdaptiveConfig``.

    Attributes:
      cutoffs: First id of each further cluster of words, rising.
      div_val: Each cluster's outputs are this many times narrower than those of the cluster before.
    """

    cutoffs: tuple[int, ...]
    div_val: int = 4


ElmoSoftmax: TypeAlias = FullSoftmax | SampledSoftmax | ClusteredSoftmax


@config_class
class ElmoConfig(RNNConfig):
    """An ELMo of any size: ``RNNConfig`` and these fields.

    Attributes:
      vocab_size: Number of words that are predicted, and of words whose characters are known.
      model_dim: Width of words and of each direction's outputs, to which LSTMs project.
      hidden_dim: Units of each LSTM.
      num_layers: Layers of each direction.
      character_dim: Width of character embeddings.
      filters: Width and number of filters of each convolution over characters.
      num_highway_layers: Highway layers after the convolutions.
      cell_clip: Largest absolute value of LSTM cells; ``None`` for no limit.
      projection_clip: Largest absolute value of LSTM outputs; ``None`` for no limit.
      softmax: ``FullSoftmax()``, ``SampledSoftmax()`` or ``ClusteredSoftmax()``.
      dropout_rate: Dropout of the inputs of each layer, and of the last layer's outputs.
    """

    hidden_dim: int
    num_layers: int = 2
    character_dim: int = 16
    filters: tuple[tuple[int, int], ...] = CharacterCNNConfig().filters
    num_highway_layers: int = 2
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    softmax: ElmoSoftmax = FullSoftmax()
    task: ModelTask = "bidirectional_lm"

    @property
    def hides_targets(self) -> bool:
        """True for a language model, neither of whose directions reads what it predicts."""
        return self.task == "bidirectional_lm"

    def check_vocabulary(self, vocabulary: Any) -> None:
        """Check that a vocabulary has whole words, whose characters the model reads."""
        words_of(vocabulary)

    @property
    def vocabulary_weights(self) -> tuple[str, ...]:
        """Path of the table of characters of each word."""
        return (CHARACTER_TABLE,)

    def weights_of_vocabulary(self, vocabulary: object) -> Mapping[str, np.ndarray]:
        """Return the table of characters of each word."""
        return {CHARACTER_TABLE: character_table(vocabulary, self.vocab_size)}

    @property
    def parts(self) -> BidirectionalLanguageModelConfig:
        """Configuration of the family's model."""
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling="mean"),
            dropout_rate=self.dropout_rate,
        )
        if heads is None and self.task not in ("base", "bidirectional_lm"):
            raise ValueError(f"ELMo has no head for the task {self.task!r}")
        return BidirectionalLanguageModelConfig(
            characters=CharacterCNNConfig(
                output_dim=self.model_dim,
                character_dim=self.character_dim,
                filters=self.filters,
                num_highway_layers=self.num_highway_layers,
            ),
            stack=RNNStackConfig(
                input_dim=self.model_dim,
                hidden_dims=(self.hidden_dim,) * self.num_layers,
                cell=LSTMConfig(
                    projection_dim=self.model_dim,
                    cell_clip=self.cell_clip,
                    projection_clip=self.projection_clip,
                ),
                residual=True,
                dropout_rate=self.dropout_rate,
            ),
            embeddings=self.embeddings,
            softmax=self._softmax if self.task == "bidirectional_lm" else None,
            heads=heads or HeadsConfig(),
            dropout_rate=self.dropout_rate,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Sizes of the vocabulary."""
        return self.embeddings_of()

    @property
    def _softmax(self) -> SoftmaxConfig:
        if not isinstance(self.softmax, ClusteredSoftmax):
            return self.softmax
        return AdaptiveConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.model_dim,
            cutoffs=self.softmax.cutoffs,
            div_val=self.softmax.div_val,
            tie_word_embeddings=False,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )


def bilm_weights(config: ElmoConfig) -> tuple[Weight, ...]:
    """Return the weight table of the files of bilm-tf, which AllenNLP reads: the model without softmax and heads."""
    characters = "embedding/cnn"
    rows = [Weight(f"{characters}/characters/table", "char_embed", _WITHOUT_MASK)]
    for index, (width, num_filters) in enumerate(config.filters):
        path = f"{characters}/convolutions/{index}"
        shape = (width, config.character_dim, num_filters)
        rows.append(Weight(f"{path}/kernel", f"CNN/W_cnn_{index}", _filters(*shape)))
        rows.append(Weight(f"{path}/bias", f"CNN/b_cnn_{index}"))
    for index in range(config.num_highway_layers):
        for name in ("carry", "transform"):
            path, hf_name = f"{characters}/highways/{index}/{name}", f"CNN_high_{index}"
            rows.append(Weight(f"{path}/kernel", f"{hf_name}/W_{name}"))
            rows.append(Weight(f"{path}/bias", f"{hf_name}/b_{name}"))
    rows.append(Weight(f"{characters}/projection/kernel", "CNN_proj/W_proj"))
    rows.append(Weight(f"{characters}/projection/bias", "CNN_proj/b_proj"))
    for index, direction in enumerate(("forward", "backward")):
        for layer in range(config.num_layers):
            path = f"{direction}_rnn/layers/{layer}/{direction}"
            hf_name = f"RNN_{index}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            kernels = (f"{path}/input/kernel", f"{path}/hidden/kernel")
            rows.append(Weight(kernels, f"{hf_name}/W_0", _gates(config.model_dim)))
            rows.append(Weight(f"{path}/input/bias", f"{hf_name}/B", _gate_biases(config.hidden_dim)))
            rows.append(Weight(f"{path}/projection/kernel", f"{hf_name}/W_P_0"))
    return tuple(rows)


# The first row, of tokens that are no words, is 0 and not in files.
_WITHOUT_MASK = WeightTransform(lambda table: np.pad(table, ((1, 0), (0, 0))), lambda table: table[1:])


def _filters(width: int, character_dim: int, num_filters: int) -> WeightTransform:
    return WeightTransform(
        lambda array: array.reshape(width * character_dim, num_filters),
        lambda array: array.reshape(1, width, character_dim, num_filters),
    )


def _swap_middle_gates(gates: np.ndarray) -> np.ndarray:
    """Swap the second and the third gate: TensorFlow's order is i, g, f, o, and ours i, f, g, o."""
    first, second, third, fourth = np.split(gates, 4, axis=-1)
    return np.concatenate([first, third, second, fourth], axis=-1)


def _gates(input_dim: int) -> WeightTransform:
    """Split a kernel into the rows of inputs and of the last output."""
    return WeightTransform(
        lambda array: tuple(np.split(_swap_middle_gates(array), [input_dim])),
        lambda *arrays: _swap_middle_gates(np.concatenate(arrays)),
    )


def _gate_biases(hidden_dim: int) -> WeightTransform:
    """Add the 1 that TensorFlow adds to biases of forget gates when it computes."""
    one = np.zeros(4 * hidden_dim, np.float32)
    one[hidden_dim : 2 * hidden_dim] = 1.0
    return WeightTransform(
        lambda array: _swap_middle_gates(array) + one, lambda array: _swap_middle_gates(array - one)
    )


ELMO = replace(
    unpublished(
        "elmo",
        ElmoConfig,
        "transformers has no ELMo; it can't be read or written in its form. Keep the run directory, which has all "
        "weights",
    ),
    num_sentinels=100,  # of vocabularies next to converted weights, as of tasks: words have no boundaries of sentences
)
