"""Feed-forward layers as memories: texts that activate a key, and words that its value writes."""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from t5x_like.analysis.analysis import Analysis, AnalysisFigure, AnalysisResult, AnalysisTable, Row
from t5x_like.analysis.feed_forward_weights import (
    Neuron,
    activations_name,
    checked_neuron,
    output_embeddings,
    value_vectors,
)
from t5x_like.analysis.text_activations import TextActivations, map_texts, stack_of
from t5x_like.analysis.traced_model import traced
from t5x_like.config_class import config_class
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.reports.svg_figure import COLORS, FAINT, INK, svg_figure
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_SIZE = (7.2, 3.3)
_BLOCK = 1024  # values whose words are scored at once
_SHOWN_CHARACTERS = 80  # the end of a prefix


class Trigger(NamedTuple):
    """A prefix of a text that activates a key; larger ones activate it more.

    Attributes:
      activation: Activation of the key at the prefix's last token.
      text: Index of the text.
      position: Position of the last token.
    """

    activation: float
    text: int
    position: int


@config_class
class FeedForwardMemories(Analysis):
    """Texts and words of neurons (Geva et al. 2021, https://arxiv.org/abs/2012.14913).

    - Of some keys of each layer, the prefixes of texts that activate them most, over all tokens of all texts (§3).
    - The words whose output vectors have the largest products with a key's value, without the layers above (§4).
    - Of decoders, the agreement rate: of all keys of a layer, the share whose value's first word is the token that
      follows the key's top prefix (§4). Chance is the same rate with the prefixes exchanged between keys.

    Attributes:
      neurons: Keys to show, as pairs of layer and number from 0 on. If empty, keys of each layer are drawn.
      num_keys: Number of keys to draw from each layer.
      num_triggers: Number of prefixes of each key.
      num_words: Number of words of each key.
      final_norm: Apply the norm that ends the stack to values before the output layer.
      seed: Seed of the keys that are drawn.
    """

    neurons: tuple[tuple[int, int], ...] = ()
    num_keys: int = 5
    num_triggers: int = 5
    num_words: int = 5
    final_norm: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_keys", "num_triggers", "num_words"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")

    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Read texts and look at the keys; see the class."""
        texts = self.texts_of(rows)
        traced(model)  # an encoder or a decoder
        values = value_vectors(model)
        keys = self._keys(values)
        words = [self._word_scores(model, layer) for layer in values]
        prefixes = _Prefixes(keys, [len(layer) for layer in values], self.num_triggers)
        silent = _special_ids(model)
        ids = map_texts(
            model,
            texts,
            activations_name(model),
            lambda text: prefixes.read(text, silent),
            batch_size=self.batch_size,
            max_length=self.max_length,
            shown=True,
        )
        tokenizer = model.checkpoint.tokenizer
        entries = [self._entry(tokenizer, key, words, prefixes.triggers(key), ids) for key in keys]
        rates = []
        if stack_of(model) == "decoder":
            rng = np.random.default_rng(self.seed)
            rates = [
                _agreement(top[:, 0], following, rng)
                for (top, _), following in zip(words, prefixes.following, strict=True)
            ]
        return _result(entries, rates)

    def _keys(self, values: Sequence[np.ndarray]) -> list[Neuron]:
        sizes = [len(layer) for layer in values]
        if self.neurons:
            return [checked_neuron(Neuron(*pair), sizes) for pair in self.neurons]
        rng = np.random.default_rng(self.seed)
        return [
            Neuron(layer, int(index))
            for layer, size in enumerate(sizes)
            for index in np.sort(rng.permutation(size)[: self.num_keys])
        ]

    def _word_scores(self, model: Pretrained, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of each value and their scores, the highest first, each [F, num_words]."""
        table = output_embeddings(model)
        if self.final_norm:
            norm = getattr(model.model, stack_of(model)).final_norm
            if norm is None:
                raise ValueError("this model has no norm at the end of its stack; leave out final_norm")
            values = np.asarray(norm(jnp.asarray(values)[None])[0])
        count = min(self.num_words, len(table))
        tops, scores = [], []
        for start in range(0, len(values), _BLOCK):
            products = values[start : start + _BLOCK] @ table.T
            order = np.argsort(-products, axis=1, kind="stable")[:, :count]
            tops.append(order)
            scores.append(np.take_along_axis(products, order, axis=1))
        return np.concatenate(tops), np.concatenate(scores)

    def _entry(
        self,
        tokenizer: Tokenizer,
        key: Neuron,
        words: Sequence[tuple[np.ndarray, np.ndarray]],
        triggers: Sequence[Trigger],
        ids: Sequence[np.ndarray],
    ) -> dict[str, Any]:
        """Return the prefixes and words of one key."""
        tops, scores = words[key.layer]
        return {
            **key._asdict(),
            "triggers": [
                {
                    "activation": each.activation,
                    "prefix": tokenizer.decode(ids[each.text][: each.position + 1].tolist()),
                    "text": each.text,
                    "position": each.position,
                }
                for each in triggers
            ],
            "words": [
                {"word": tokenizer.piece(int(top)), "score": float(score)}
                for top, score in zip(tops[key.index], scores[key.index], strict=True)
            ],
        }


class _Prefixes:
    """The prefixes that activate keys most, of the texts so far.

    Args:
      keys: Keys whose prefixes are kept.
      sizes: Number of keys in each layer.
      count: Number of prefixes of each key.

    Attributes:
      following: Token after the prefix that activates each key most, [F] for each layer; -1 for none.
    """

    def __init__(self, keys: Sequence[Neuron], sizes: Sequence[int], count: int):
        self._count = count
        self._heaps: dict[Neuron, list[Trigger]] = {key: [] for key in keys}
        self._highest = [np.full(size, -np.inf, np.float32) for size in sizes]
        self.following = [np.full(size, -1) for size in sizes]

    def read(self, text: TextActivations, silent: set[int]) -> np.ndarray:
        """Read a text's activations, and return its token ids.

        Args:
          text: Activations of a text.
          silent: Ids of special tokens, which are no end of a prefix.
        """
        (activations,) = text.activations.values()
        positions = np.array([index for index, each in enumerate(text.ids) if each not in silent], int)
        followed = positions[positions < len(text.ids) - 1]
        for layer, highest in enumerate(self._highest):
            if len(followed):
                rows = activations[layer, followed, : len(highest)]
                best = rows.argmax(axis=0)
                peaks = rows[best, np.arange(len(highest))]
                is_higher = peaks > highest
                highest[is_higher] = peaks[is_higher]
                self.following[layer][is_higher] = text.ids[followed[best] + 1][is_higher]
        for key, heap in self._heaps.items():
            for position in positions:
                value = float(activations[key.layer, position, key.index])
                if len(heap) < self._count:
                    heapq.heappush(heap, Trigger(value, text.index, int(position)))
                elif value > heap[0].activation:
                    heapq.heapreplace(heap, Trigger(value, text.index, int(position)))
        return text.ids

    def triggers(self, key: Neuron) -> list[Trigger]:
        """Return the prefixes of a key, that of the highest activation first."""
        return sorted(self._heaps[key], key=lambda each: (-each.activation, each.text, each.position))


def _special_ids(model: Pretrained) -> set[int]:
    encoder = model.checkpoint.prompt_encoder
    special = encoder.tokenizer.special
    ids = (*special.by_role.values(), *special.end_ids, *encoder.prefix_ids, *encoder.suffix_ids)
    return {each for each in ids if each is not None and each != special.unk}


def _agreement(words: np.ndarray, following: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """Return the share of keys whose value's word follows their prefix, and that of exchanged prefixes.

    Args:
      words: First word of each value, [F].
      following: Token after the top prefix of each key, [F].
      rng: Exchanges the prefixes.
    """
    return {
        "agreement": float(np.mean(words == following)),
        "chance": float(np.mean(words == rng.permutation(following))),
    }


def _result(entries: Sequence[Mapping[str, Any]], rates: Sequence[Mapping[str, float]]) -> AnalysisResult:
    layers = [{"layer": layer, **rate} for layer, rate in enumerate(rates)]
    headlines = {"keys shown": float(len(entries))}
    if layers:
        headlines |= {
            f"{name}, mean of layers (%)": 100 * float(np.mean([layer[name] for layer in layers]))
            for name in ("agreement", "chance")
        }
    rows = [
        [
            f"{entry['layer']}.{entry['index']}",
            "; ".join(f"…{each['prefix'][-_SHOWN_CHARACTERS:]}" for each in entry["triggers"][:3]),
            " ".join(each["word"] for each in entry["words"]),
            f"{entry['triggers'][0]['activation']:.3g}" if entry["triggers"] else "–",
        ]
        for entry in entries
    ]
    caption = "The ends of the prefixes that activate a key most, and the first words that its value writes."
    header = ["layer.key", "prefixes", "words", ">highest activation"]
    return AnalysisResult(
        headlines,
        {"keys": list(entries), "layers": layers},
        [_agreement_figure(layers)] if layers else [],
        [AnalysisTable("Keys and values", caption, header, rows)],
    )


def _agreement_figure(layers: Sequence[Mapping[str, float]]) -> AnalysisFigure:
    def draw(axes: Any) -> None:
        for name, color in (("agreement", COLORS[0]), ("chance", FAINT)):
            axes.plot(
                [layer["layer"] for layer in layers],
                [100 * layer[name] for layer in layers],
                "o-",
                color=color,
                label=name,
                clip_on=False,
            )
        axes.set_xlabel("layer (0: the first)", color=INK)
        axes.set_ylabel("keys (%)", color=INK)
        axes.legend(frameon=False)

    caption = (
        "Share of keys whose value's first word is the token after the prefix that activates the key most."
    )
    return AnalysisFigure("Agreement", caption, svg_figure(draw, title="agreement", size_inches=_SIZE))
