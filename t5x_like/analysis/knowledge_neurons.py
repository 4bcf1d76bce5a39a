"""Knowledge neurons: which neurons of feed-forward layers a model states facts with, and what changing them does."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from t5x_like.analysis.analysis import Analysis, AnalysisResult, Row, cells_of
from t5x_like.analysis.fact_prompts import FactPrompt, answer_ids, fact_prompts
from t5x_like.analysis.feed_forward_weights import Neuron
from t5x_like.analysis.knowledge_attribution import FactModel, knowledge_attribution, shared_neurons
from t5x_like.analysis.knowledge_effects import Fact, FactEffects, erased_fact, knowledge_result, updated_fact
from t5x_like.config_class import config_class
from t5x_like.io.progress import Progress
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

__all__ = ["KnowledgeNeurons", "erased_fact", "knowledge_attribution", "updated_fact"]


@config_class
class KnowledgeNeurons(Analysis):
    """Neurons that the answers of facts depend on (Dai et al. 2022, https://arxiv.org/abs/2104.08696).

    Rows are prompts. Those of one fact share its answer, and are worded differently. A prompt for an encoder has one
    ``[MASK]``, one for a decoder ends before the answer. Answers are one token.

    - Attribution by integrated gradients, of each prompt; then the neurons that the prompts of a fact share.
    - The probability of answers with these neurons suppressed or amplified: of the fact and of other facts, and for
      comparison with as many neurons of the highest activations (the paper's baseline).
    - With ``new_answer``, the same after the fact is erased, or updated, in the values of its neurons.

    Attributes:
      text: Column of the prompts.
      answer: Column of the answers.
      fact: Column of the fact's name, which its prompts share.
      new_answer: Column of an answer to update a fact to; empty for none.
      steps: Number of points of the integrated gradients.
      threshold: Share of a prompt's largest attribution that its neurons must exceed.
      sharing: Share of a fact's prompts that a neuron must be one of.
      num_others: Number of prompts of other facts, drawn for each fact.
      erased_weight: Factor of the old answer's vector, which an update subtracts from values.
      added_weight: Factor of the new answer's vector, which an update adds to values.
      seed: Seed of the other prompts.
    """

    text: str = "prompt"
    answer: str = "answer"
    fact: str = "fact"
    new_answer: str = ""
    steps: int = 20
    threshold: float = 0.2
    sharing: float = 0.7
    num_others: int = 16
    erased_weight: float = 1.0
    added_weight: float = 8.0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "num_others"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        for name in ("threshold", "sharing"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a share from 0 to 1")

    def run(self, model: Pretrained, rows: Sequence[Row]) -> AnalysisResult:
        """Find the knowledge neurons of facts; see the class."""
        facts = self.facts_of(model, rows)
        if len(facts) < 2:
            raise ValueError("effects on other facts need at least two facts, and there is one; add another")
        prompts = fact_prompts(model, self.texts_of(rows))
        targets = np.zeros(len(prompts), np.int32)
        for fact in facts:
            targets[fact.prompts] = fact.target
        fact_model = FactModel(model, batch_size=self.batch_size)
        plain = fact_model.answers(prompts, targets.tolist())
        seeds = np.random.SeedSequence(self.seed).spawn(len(facts))
        entries, by_layer = [], np.zeros(len(plain[0].activations), int)
        with Progress("analyze", len(facts), "facts", shown=True) as progress:
            for fact, seed in zip(facts, seeds, strict=True):
                neurons, scores = self._neurons(fact_model, prompts, fact)
                np.add.at(by_layer, [neuron.layer for neuron in neurons], 1)
                others = np.setdiff1d(np.arange(len(prompts)), fact.prompts)
                others = np.random.default_rng(seed).permutation(others)[: self.num_others].tolist()
                effects = FactEffects(prompts, targets.tolist(), plain, fact, others)
                entry: dict[str, Any] = {
                    "fact": fact.name,
                    "answer": fact.answer,
                    "prompts": len(fact.prompts),
                    "probability": effects.probability(),
                    "neurons": [
                        {**neuron._asdict(), "attribution": float(scores[neuron])} for neuron in neurons
                    ],
                }
                if neurons:
                    entry |= effects.of_factors(fact_model, neurons)
                    if fact.new_answer:
                        entry["edits"] = self._edits(model, fact, neurons, effects)
                entries.append(entry)
                progress.add(1)
        return knowledge_result(entries, by_layer)

    def facts_of(self, model: Pretrained, rows: Sequence[Row]) -> list[Fact]:
        """Return the facts of rows.

        Args:
          model: Model with its tokenizer.
          rows: Rows of prompts.

        Raises:
          ValueError: A column is missing, prompts of a fact have different answers, or an answer isn't one token.
        """
        names, answers = cells_of(rows, self.fact), cells_of(rows, self.answer)
        new_answers = [""] * len(rows)
        if self.new_answer:
            new_answers = [str(row.get(self.new_answer) or "").strip() for row in rows]
        tokens = dict(zip(answers, answer_ids(model, answers), strict=True))
        changed = [new for new in new_answers if new]
        tokens |= zip(changed, answer_ids(model, changed), strict=True)
        facts: dict[str, Fact] = {}
        for index, (name, answer, new) in enumerate(zip(names, answers, new_answers, strict=True)):
            if name not in facts:
                facts[name] = Fact(name, answer, tokens[answer], [], new, tokens.get(new, -1))
            if (answer, new) != (facts[name].answer, facts[name].new_answer):
                raise ValueError(
                    f"row {index + 1}: the fact {name!r} has the answers {facts[name].answer!r} and {answer!r}, or "
                    "different new ones; give prompts of one fact the same"
                )
            facts[name].prompts.append(index)
        return list(facts.values())

    def _neurons(
        self, fact_model: FactModel, prompts: Sequence[FactPrompt], fact: Fact
    ) -> tuple[list[Neuron], np.ndarray]:
        """Return a fact's neurons, and the mean attributions of all."""
        attributions = [
            fact_model.attribution(prompts[index], fact.target, steps=self.steps) for index in fact.prompts
        ]
        neurons = shared_neurons(attributions, threshold=self.threshold, sharing=self.sharing)
        return neurons, np.mean(attributions, axis=0)

    def _edits(
        self, model: Pretrained, fact: Fact, neurons: Sequence[Neuron], effects: FactEffects
    ) -> dict[str, Any]:
        """Return what erasing and updating a fact does."""
        update = updated_fact(
            model,
            neurons,
            fact.target,
            fact.new_target,
            erased_weight=self.erased_weight,
            added_weight=self.added_weight,
        )
        changed = {"erased": erased_fact(model, neurons), "updated": update}
        return {
            name: effects.of_weights(FactModel(model, params=params, batch_size=self.batch_size))
            for name, params in changed.items()
        }
