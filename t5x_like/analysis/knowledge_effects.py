"""Effects of changing a fact's neurons, on its own prompts and on those of others."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.analysis.analysis import AnalysisFigure, AnalysisResult, AnalysisTable
from t5x_like.analysis.fact_prompts import FactPrompt
from t5x_like.analysis.feed_forward_weights import (
    Neuron,
    output_embeddings,
    value_vectors,
    with_changed_values,
)
from t5x_like.analysis.knowledge_attribution import FactModel, PromptAnswer, largest_neurons, neuron_factors
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.reports.svg_figure import COLORS, INK, svg_figure

_SIZE = (7.2, 3.3)
_FACTORS = {"suppressed": 0.0, "amplified": 2.0}
_LABELS = {
    "own": "the fact's prompts",
    "others": "prompts of other facts",
    "baseline": "the fact's prompts, most active neurons",
}


class Fact(NamedTuple):
    """A fact, with one or more prompts.

    Attributes:
      name: Its name.
      answer: Its answer.
      target: Token of the answer.
      prompts: Indices of its prompts.
      new_answer: Answer to update it to; empty for none.
      new_target: Token of the new answer.
    """

    name: str
    answer: str
    target: int
    prompts: list[int]
    new_answer: str
    new_target: int


class FactEffects:
    """Measures of a fact's answers and others after a change.

    Args:
      prompts: Prompts of all facts.
      targets: Answer of each.
      plain: What the unchanged model answers.
      fact: The fact.
      others: Indices of prompts of other facts.
    """

    def __init__(
        self,
        prompts: Sequence[FactPrompt],
        targets: Sequence[int],
        plain: Sequence[PromptAnswer],
        fact: Fact,
        others: Sequence[int],
    ):
        self._prompts, self._targets, self._plain = prompts, targets, plain
        self._fact, self._others = fact, others

    def probability(self) -> float:
        """Return the mean probability of the fact's answer in the unchanged model."""
        return float(np.mean([self._plain[index].probability for index in self._fact.prompts]))

    def of_factors(self, fact_model: FactModel, neurons: Sequence[Neuron]) -> dict[str, dict[str, float]]:
        """Return the relative changes of probabilities where neurons are suppressed or amplified.

        Args:
          fact_model: The model.
          neurons: The fact's neurons. The baseline are as many neurons of the highest mean activations.
        """
        own = self._fact.prompts
        activations = np.mean([self._plain[index].activations for index in own], axis=0)
        baseline = largest_neurons(activations, len(neurons))
        changes = {}
        for name, factor in _FACTORS.items():
            scaled = neuron_factors(activations.shape, neurons, factor)
            changes[name] = {
                "own": self._change(own, self._ask(fact_model, own, scaled)),
                "others": self._change(self._others, self._ask(fact_model, self._others, scaled)),
                "baseline": self._change(
                    own, self._ask(fact_model, own, neuron_factors(activations.shape, baseline, factor))
                ),
            }
        return changes

    def of_weights(self, fact_model: FactModel) -> dict[str, float]:
        """Return what a model with other weights answers.

        Args:
          fact_model: The changed model.
        """
        own = self._fact.prompts
        new = fact_model.answers([self._prompts[index] for index in own], [self._fact.new_target] * len(own))
        return {
            "own": self._change(own, self._ask(fact_model, own)),
            "others": self._change(self._others, self._ask(fact_model, self._others)),
            "new_probability": float(np.mean([answer.probability for answer in new])),
            "new_is_first": float(np.mean([answer.top == self._fact.new_target for answer in new])),
        }

    def _ask(
        self, fact_model: FactModel, indices: Sequence[int], factors: np.ndarray | None = None
    ) -> list[PromptAnswer]:
        targets = [self._targets[index] for index in indices]
        return fact_model.answers([self._prompts[index] for index in indices], targets, factors)

    def _change(self, indices: Sequence[int], answers: Sequence[PromptAnswer]) -> float:
        """Return the relative change of the mean probability of answers."""
        before = sum(self._plain[index].probability for index in indices)
        return sum(answer.probability for answer in answers) / max(before, 1e-30) - 1.0


def erased_fact(model: Pretrained, neurons: Sequence[Neuron]) -> Parameters:
    """Return the weights of a model in which neurons write nothing (§5.2).

    Args:
      model: The model, which stays as it is.
      neurons: The fact's neurons.
    """
    values = value_vectors(model)
    return with_changed_values(model, {neuron: -values[neuron.layer][neuron.index] for neuron in neurons})


def updated_fact(
    model: Pretrained,
    neurons: Sequence[Neuron],
    old: int,
    new: int,
    *,
    erased_weight: float = 1.0,
    added_weight: float = 8.0,
) -> Parameters:
    """Return the weights of a model whose neurons write a new answer in place of the old one (§5.1).

    Args:
      model: The model, which stays as it is.
      neurons: The fact's neurons.
      old: Token of the old answer, whose vector is subtracted from each value.
      new: Token of the new answer, whose vector is added.
      erased_weight: Factor of the old answer's vector.
      added_weight: Factor of the new answer's vector.
    """
    words = output_embeddings(model)
    change: np.ndarray = added_weight * words[new] - erased_weight * words[old]
    return with_changed_values(model, dict.fromkeys(neurons, change))


def knowledge_result(entries: Sequence[Mapping[str, Any]], by_layer: np.ndarray) -> AnalysisResult:
    """Return the result of an analysis of facts.

    Args:
      entries: Numbers of each fact.
      by_layer: Number of knowledge neurons in each layer.
    """
    changed = [entry for entry in entries if entry["neurons"]]
    means = {
        name: {kind: float(np.mean([entry[name][kind] for entry in changed])) for kind in _LABELS}
        for name in _FACTORS
        if changed
    }
    edits = _mean_edits(changed)
    headlines = {"knowledge neurons of a fact": float(by_layer.sum()) / len(entries)}
    for name, values in means.items():
        headlines |= {f"change of {_LABELS[kind]}, {name} (%)": 100 * value for kind, value in values.items()}
    values = {
        "facts": list(entries),
        "neurons_by_layer": by_layer,
        "mean_changes": means,
        "mean_edits": edits,
    }
    figures = [_layers_figure(by_layer), *([_changes_figure(means)] if means else [])]
    tables = [_facts_table(entries), *([_edits_table(edits)] if edits else [])]
    return AnalysisResult(headlines, values, figures, tables)


def _mean_edits(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    edits = [entry["edits"] for entry in entries if "edits" in entry]
    if not edits:
        return {}
    return {
        name: {measure: float(np.mean([each[name][measure] for each in edits])) for measure in measures}
        for name, measures in edits[0].items()
    }


def _layers_figure(by_layer: np.ndarray) -> AnalysisFigure:
    def draw(axes: Any) -> None:
        axes.bar(np.arange(len(by_layer)), 100 * by_layer / max(by_layer.sum(), 1), color=COLORS[0])
        axes.set_xlabel("layer (0: the first)", color=INK)
        axes.set_ylabel("knowledge neurons (%)", color=INK)

    caption = "Share of the knowledge neurons of all facts that lie in each layer."
    return AnalysisFigure("Neurons by layer", caption, svg_figure(draw, title="neurons", size_inches=_SIZE))


def _changes_figure(means: Mapping[str, Mapping[str, float]]) -> AnalysisFigure:
    def draw(axes: Any) -> None:
        for index, (kind, label) in enumerate(_LABELS.items()):
            places = np.arange(len(means)) + 0.25 * (index - 1)
            heights = [100 * values[kind] for values in means.values()]
            axes.bar(places, heights, 0.22, color=COLORS[index], label=label)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        axes.set_xticks(np.arange(len(means)), list(means))
        axes.set_ylabel("change of the probability (%)", color=INK)
        axes.legend(frameon=False)

    caption = (
        "Relative change of the mean probability of answers, averaged over facts. A fact's neurons are its own if its "
        "prompts change and others don't."
    )
    return AnalysisFigure("Effects", caption, svg_figure(draw, title="effects", size_inches=_SIZE))


def _facts_table(entries: Sequence[Mapping[str, Any]]) -> AnalysisTable:
    rows = []
    for entry in entries:
        cells = [
            f"{100 * entry[name][kind]:+.1f} %" if entry["neurons"] else "–"
            for name in _FACTORS
            for kind in ("own", "others")
        ]
        count = len(entry["neurons"])
        rows.append(
            [entry["fact"], entry["answer"], entry["prompts"], f"{entry['probability']:.3f}", count, *cells]
        )
    changes = [f">{name}, {kind}" for name in _FACTORS for kind in ("own", "others")]
    header = ["fact", "answer", ">prompts", ">probability", ">neurons", *changes]
    caption = (
        "Probability of the answer, and its relative change for the fact's own prompts and those of others."
    )
    return AnalysisTable("Facts", caption, header, rows)


def _edits_table(edits: Mapping[str, Mapping[str, float]]) -> AnalysisTable:
    rows = [
        [
            name,
            f"{100 * each['own']:+.1f} %",
            f"{100 * each['others']:+.1f} %",
            f"{each['new_probability']:.3f}",
            f"{100 * each['new_is_first']:.1f} %",
        ]
        for name, each in edits.items()
    ]
    header = ["", ">old answer", ">answers of others", ">probability of the new", ">new is first"]
    caption = (
        "Means over facts with a new answer, whose values are set to zero or moved towards the new answer."
    )
    return AnalysisTable("Erased and updated facts", caption, header, rows)
