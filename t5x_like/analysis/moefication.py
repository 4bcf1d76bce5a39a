"""MoEfication: the loss of a model whose neurons are split into experts, of which a token computes some."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from t5x_like.analysis.analysis import Analysis, AnalysisFigure, AnalysisResult, AnalysisTable, Row
from t5x_like.analysis.expert_routing import ExpertRouter, RoutedExperts, routed_loss
from t5x_like.analysis.expert_splits import balanced_clusters, coactivation_clusters, random_clusters
from t5x_like.analysis.feed_forward_weights import key_vectors
from t5x_like.analysis.language_model_rows import language_model_rows
from t5x_like.analysis.text_activations import TextActivations, map_texts, stack_of
from t5x_like.analysis.traced_model import traced
from t5x_like.config_class import config_class
from t5x_like.io.progress import Progress
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.reports.svg_figure import COLORS, INK, svg_figure

ExpertSplit = Literal["parameters", "coactivation", "random"]

_SIZE = (7.2, 3.6)
_RIDGE = 1e-2  # of the mean squared input
_STYLES = {"oracle": "o-", "learned": "s--", "centers": "^:"}


class _Fit(NamedTuple):
    """Statistics of the tokens of some texts, by layer.

    Attributes:
      coactivation: Number of tokens for which both neurons of a pair are active, [N, F, F].
      inputs: Products of inputs, with a 1 at their end, [N, D + 1, D + 1].
      activations: Products of inputs with positive activations, [N, D + 1, F].
      num_tokens: Number of tokens.
    """

    coactivation: np.ndarray
    inputs: np.ndarray
    activations: np.ndarray
    num_tokens: int


@config_class
class MoEfication(Analysis):
    """Loss of a model by the share of feed-forward neurons that each token computes (Zhang et al. 2022).

    The paper is https://arxiv.org/abs/2110.01786. Neurons of each layer are split into experts of equal sizes (§3.2).
    They are split by balanced k-means of their keys, by the graph of neurons that are active together, or at random.
    The paper cuts the graph with METIS; here its eigenvectors are clustered.

    A router scores the experts, and all others compute nothing (§3.3): the oracle by the sum of positive activations,
    which an actual router can't know; a linear map that predicts that sum from the layer's input; and the cosine of the
    input with the mean of an expert's keys.

    Splits and routers are fitted on some texts, and losses are those of the others. The loss is that of causal or of
    masked language modeling. The paper treats models with ReLU, whose neurons are mostly 0. With other nonlinearities
    activations are small, but not 0.

    Attributes:
      expert_size: Number of neurons of an expert (32 in the paper).
      shares: Shares of experts that each token computes.
      splits: Ways to split: "parameters", "coactivation" and "random".
      routers: Routers: "oracle", "learned" and "centers".
      fitted_share: Share of the texts that splits and routers are fitted on.
      mask_rate: Share of an encoder's tokens that are masked.
      seed: Seed of the texts, masks and splits.
    """

    expert_size: int = 32
    shares: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.8)
    splits: tuple[ExpertSplit, ...] = get_args(ExpertSplit)
    routers: tuple[ExpertRouter, ...] = get_args(ExpertRouter)
    fitted_share: float = 0.5
    mask_rate: float = 0.15
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expert_size < 1:
            raise ValueError(f"expert_size is {self.expert_size}; give at least 1 neuron")
        for name in ("fitted_share", "mask_rate"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a share between 0 and 1")
        if not self.shares or not all(0 < share <= 1 for share in self.shares):
            raise ValueError(f"shares is {self.shares}; give at least one, above 0 and at most 1")
        for name, known in (("splits", get_args(ExpertSplit)), ("routers", get_args(ExpertRouter))):
            unknown = set(getattr(self, name)) - {*known}
            if unknown or not getattr(self, name):
                raise ValueError(f"{name} is {getattr(self, name)}; give some of {', '.join(known)}")

    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Split a model's neurons and measure its loss; see the class."""
        texts = list(dict.fromkeys(self.texts_of(rows)))
        if len(texts) < 2:
            raise ValueError("experts are fitted on some texts and measured on others; give at least two")
        traced(model)  # an encoder or a decoder
        keys = key_vectors(model)
        count = len(keys[0])
        if any(len(layer) != count for layer in keys):
            raise ValueError(
                "layers of this model have different numbers of neurons; take one with equal layers"
            )
        if count % self.expert_size:
            raise ValueError(
                f"expert_size is {self.expert_size}, and layers have {count} neurons; give a divisor of that number"
            )
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(len(texts))
        num_fitted = min(max(round(self.fitted_share * len(texts)), 1), len(texts) - 1)
        fit = self._fit(model, [texts[index] for index in order[:num_fitted]], len(keys), count)
        batches = language_model_rows(
            model,
            [texts[index] for index in order[num_fitted:]],
            batch_size=self.batch_size,
            max_length=self.max_length,
            mask_rate=self.mask_rate,
            rng=rng,
        )
        num_experts = count // self.expert_size
        splits = {split: self._experts(split, keys, fit, num_experts, rng) for split in self.splits}
        kept = {share: max(round(share * num_experts), 1) for share in self.shares}
        total = len(splits) * len(self.routers) * len(kept)
        measure = partial(routed_loss, model, batches)
        results = []
        full = measure(next(iter(splits.values())), "oracle", num_experts)
        with Progress("analyze", total, "settings", shown=True) as progress:
            for split, experts in splits.items():
                for router in self.routers:
                    for share, number in kept.items():
                        loss = measure(experts, router, number)
                        entry = {"split": split, "router": router, "share": share, "experts": number}
                        results.append({**entry, "loss": loss, "relative_loss": loss / full})
                        progress.add(1)
        active = np.diagonal(fit.coactivation, axis1=1, axis2=2).mean(axis=1) / max(fit.num_tokens, 1)
        return _result(results, full, active, num_experts, _nonlinearity(model))

    def _fit(self, model: Pretrained, texts: Sequence[str], num_layers: int, count: int) -> _Fit:
        names = [f"{stack_of(model)}/feed_forward/{name}" for name in ("inputs", "activations")]
        width = key_vectors(model)[0].shape[1] + 1
        coactivation = np.zeros((num_layers, count, count), np.float32)
        inputs = np.zeros((num_layers, width, width))
        activations = np.zeros((num_layers, width, count))

        def read(text: TextActivations) -> int:
            rows, hidden = (text.activations[name] for name in names)
            rows = np.concatenate([rows, np.ones((*rows.shape[:2], 1), rows.dtype)], axis=-1)
            active = (hidden > 0).astype(np.float32)
            coactivation[:] += active.swapaxes(1, 2) @ active
            inputs[:] += rows.swapaxes(1, 2) @ rows
            activations[:] += rows.swapaxes(1, 2) @ np.maximum(hidden, 0.0)
            return len(text.ids)

        counts = map_texts(
            model, texts, names, read, batch_size=self.batch_size, max_length=self.max_length, shown=True
        )
        return _Fit(coactivation, inputs, activations, sum(counts))

    def _experts(
        self,
        split: ExpertSplit,
        keys: Sequence[np.ndarray],
        fit: _Fit,
        num_experts: int,
        rng: np.random.Generator,
    ) -> RoutedExperts:
        of_neurons, centers, learned = [], [], []
        for layer, own in enumerate(keys):
            if split == "parameters":
                experts = balanced_clusters(own, num_experts, rng)
            elif split == "coactivation":
                experts = coactivation_clusters(fit.coactivation[layer], num_experts, rng)
            else:
                experts = random_clusters(len(own), num_experts, rng)
            belongs = np.eye(num_experts)[experts]  # [F, E]
            means = belongs.T @ own
            products = fit.inputs[layer]
            ridge = _RIDGE * np.trace(products) / len(products) * np.eye(len(products))
            of_neurons.append(experts)
            centers.append(means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12))
            learned.append(np.linalg.solve(products + ridge, fit.activations[layer] @ belongs))
        return RoutedExperts(
            np.stack(of_neurons), *(np.stack(each).astype(np.float32) for each in (centers, learned))
        )


def _nonlinearity(model: Pretrained) -> str:
    block = getattr(model.model, stack_of(model)).config.blocks[0].feed_forward
    return f"{block.activation}{', gated' if block.gated else ''}"


def _result(
    results: Sequence[Mapping[str, Any]],
    full: float,
    active: np.ndarray,
    num_experts: int,
    nonlinearity: str,
) -> AnalysisResult:
    note = f"Each layer has {num_experts} experts; its nonlinearity is {nonlinearity}."
    if nonlinearity != "relu":
        note += " The paper's models have ReLU: with another one, what is left out is small but not 0."
    best = min(results, key=lambda each: (each["share"], each["loss"]))
    headlines = {
        "loss of the whole model": full,
        "positive activations (%)": 100 * float(active.mean()),
        f"relative loss with {100 * best['share']:g} % of the neurons, {best['split']}, {best['router']}": best[
            "relative_loss"
        ],
    }
    values = {
        "loss": full,
        "experts": num_experts,
        "nonlinearity": nonlinearity,
        "positive_share_by_layer": active,
        "settings": list(results),
    }
    rows = [
        [
            each["split"],
            each["router"],
            f"{100 * each['share']:g} %",
            f"{each['loss']:.4f}",
            f"{each['relative_loss']:.3f}",
        ]
        for each in results
    ]
    header = ["split", "router", ">neurons", ">loss", ">relative to the whole model"]
    return AnalysisResult(
        headlines, values, [_figure(results, note)], [AnalysisTable("Losses", note, header, rows)]
    )


def _figure(results: Sequence[Mapping[str, Any]], note: str) -> AnalysisFigure:
    splits = list(dict.fromkeys(each["split"] for each in results))

    def draw(axes: Any) -> None:
        for color, split in zip(COLORS, splits, strict=False):
            for router, style in _STYLES.items():
                lines = [each for each in results if (each["split"], each["router"]) == (split, router)]
                if lines:
                    axes.plot(
                        [100 * each["share"] for each in lines],
                        [each["relative_loss"] for each in lines],
                        style,
                        color=color,
                        label=f"{split}, {router}",
                    )
        axes.axhline(1.0, color=INK, linewidth=0.8)
        axes.set_xlabel("neurons that a token computes (%)", color=INK)
        axes.set_ylabel("loss, relative to the whole model", color=INK)
        axes.legend(frameon=False, fontsize=8)

    return AnalysisFigure("Share of neurons", note, svg_figure(draw, title="experts", size_inches=_SIZE))
