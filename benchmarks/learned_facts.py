"""Knowledge neurons of facts that a small BERT has just learned.

    python -m benchmarks.learned_facts --seeds 0 1 2 --output learned_facts_cpu.json

A BERT of 3 layers learns capitals and languages of 16 countries from three sentences each, by predicting the masked
answer. Then ``t5x-like analyze --what knowledge_neurons`` runs on the same sentences. Every third fact is also erased
and updated to another country's answer. ``--model_dir`` keeps the model and its table, for the command.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import t5x_like
from benchmarks.machine import about
from t5x_like.analysis.analysis import AnalysisResult, Row
from t5x_like.analysis.fact_prompts import MASK, answer_ids, fact_prompts
from t5x_like.analysis.knowledge_neurons import KnowledgeNeurons
from t5x_like.analysis.traced_model import traced, traced_inputs
from t5x_like.io.files import write_json, write_jsonl
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face

COUNTRIES = tuple(
    line.split()
    for line in """\
france paris french
germany berlin german
italy rome italian
spain madrid spanish
portugal lisbon portuguese
greece athens greek
poland warsaw polish
hungary budapest hungarian
sweden stockholm swedish
norway oslo norwegian
denmark copenhagen danish
finland helsinki finnish
turkey ankara turkish
japan tokyo japanese
china beijing chinese
russia moscow russian""".splitlines()
)
SENTENCES = {
    "capital": (
        f"the capital of {{}} is {MASK} .",
        f"{MASK} is the capital of {{}} .",
        f"the government of {{}} sits in {MASK} .",
    ),
    "language": (
        f"the language of {{}} is {MASK} .",
        f"people in {{}} speak {MASK} .",
        f"books in {{}} are written in {MASK} .",
    ),
}
_UPDATED = 3  # every so many facts get a new answer


def main() -> None:
    """Train and analyze a model for each seed, and write what is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument(
        "--model_dir", type=Path, metavar="DIR", help="keep the models there, one for each seed"
    )
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    runs = {}
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as temporary:
            home = (arguments.model_dir or Path(temporary)) / f"seed_{seed}"
            loss = learn_facts(home, seed=seed, steps=arguments.steps)
            write_jsonl(home / "facts.jsonl", fact_rows())
            result = analyze(home)
        runs[str(seed)] = {"loss": loss, **summary(result)}
        print(seed, runs[str(seed)])
    write_json(arguments.output, {"steps": arguments.steps, "runs": runs, **about()})


def fact_rows() -> list[Row]:
    """Return the prompts of all facts, with new answers for some."""
    rows: list[Row] = []
    for column, (relation, sentences) in enumerate(SENTENCES.items(), start=1):
        for index, country in enumerate(COUNTRIES):
            new = COUNTRIES[(index + 1) % len(COUNTRIES)][column] if index % _UPDATED == 0 else ""
            rows.extend(
                {
                    "prompt": sentence.format(country[0]),
                    "answer": country[column],
                    "fact": f"{relation} of {country[0]}",
                    "new": new,
                }
                for sentence in sentences
            )
    return rows


def learn_facts(directory: Path, *, seed: int, steps: int) -> float:
    """Train a BERT to predict the answers of all prompts, write it, and return its last loss.

    Args:
      directory: Directory to write, new or empty.
      seed: Seed of the weights.
      steps: Number of steps, each on all prompts.
    """
    rows = fact_rows()
    words = {word for row in rows for word in f"{row['prompt']} {row['answer']}".split()} - {MASK}
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", MASK, *sorted(words)]
    config = BertConfig(
        vocab_size=len(pieces),
        model_dim=64,
        mlp_dim=256,
        num_heads=4,
        num_layers=3,
        max_position_embeddings=32,
        task="masked_lm",
    )
    params = parameters.split(config.build(jax.random.key(seed)))[1]
    vocabulary = {"vocab.txt": "\n".join([*pieces, ""]).encode()}
    with tempfile.TemporaryDirectory() as temporary:  # the tokenizer is read from files
        write_hugging_face(config, params, Path(temporary) / "fresh", companions=vocabulary)
        model = t5x_like.from_pretrained(Path(temporary) / "fresh")
        prompts = fact_prompts(model, [row["prompt"] for row in rows])
        targets = np.array(answer_ids(model, [row["answer"] for row in rows]))
        structure, params = traced(model)
        inputs = traced_inputs(model, structure, [prompt.ids for prompt in prompts], len(prompts))
    positions = np.array([prompt.position for prompt in prompts])
    optimizer = optax.adam(optax.warmup_cosine_decay_schedule(0.0, 2e-3, steps // 10, steps))

    def loss(params: Any) -> jax.Array:
        logits = structure.logits(params, inputs)[jnp.arange(len(targets)), positions]
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    @jax.jit
    def step(params: Any, state: Any) -> tuple[Any, Any, jax.Array]:
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    state, value = optimizer.init(params), jnp.inf
    for _ in range(steps):
        params, state, value = step(params, state)
    write_hugging_face(config, params, directory, companions=vocabulary)
    return float(value)


def analyze(directory: Path) -> AnalysisResult:
    """Return the analysis of the facts that a model has learned."""
    model = t5x_like.from_pretrained(directory)
    return KnowledgeNeurons(new_answer="new", batch_size=32).run(model, fact_rows())


def summary(result: AnalysisResult) -> dict[str, Any]:
    """Return the means over facts."""
    facts: Sequence[dict[str, Any]] = result.values["facts"]
    return {
        "probability": float(np.mean([fact["probability"] for fact in facts])),
        "neurons_of_a_fact": float(np.mean([len(fact["neurons"]) for fact in facts])),
        "facts_without_neurons": sum(not fact["neurons"] for fact in facts),
        "neurons_by_layer": np.asarray(result.values["neurons_by_layer"]).tolist(),
        "mean_changes": result.values["mean_changes"],
        "mean_edits": result.values["mean_edits"],
    }


if __name__ == "__main__":
    main()
