"""Probe the layers of an encoder or decoder: what a linear classifier reads from each, with the model frozen.

    python -m benchmarks.layer_probes --checkpoint runs/elmo --output layer_probes_cpu.json

Parts of speech are read from the first piece of each word (``data/oanc_tags``), kinds of things from the mean of a
definition's tokens (``data/wordnet_definitions``). Layer 0 is the input of the first layer. Peters et al. 2018 (§5.3)
find parts of speech in lower layers and senses of words in higher ones; no data with senses is shipped, so kinds of
things are a probe of meaning instead.
"""

import argparse
import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.machine import about
from t5x_like.batch import Batch, bucket_length
from t5x_like.io.files import read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.named_activations import record
from t5x_like.pretrained.open_checkpoint import open_checkpoint

_BATCH_SIZE, _MAX_TOKENS = 32, 128
Reader = Callable[[Sequence[Sequence[int]]], Iterator[np.ndarray]]


def main() -> None:
    """Probe both tasks, and add the checkpoint's entry to the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="any checkpoint with a tokenizer")
    parser.add_argument("--name", help="of the entry; by default the model's architecture")
    parser.add_argument("--rows", type=int, default=1000, help="training rows of each task")
    parser.add_argument("--output", required=True, metavar="FILE")
    arguments = parser.parse_args()
    checkpoint = open_checkpoint(arguments.checkpoint, needs_tokenizer=True)
    tokenizer, read = checkpoint.tokenizer, reader(checkpoint)
    result: dict[str, Any] = {}
    for task, load in {"parts of speech": tagged_words, "kinds of things": definitions}.items():
        train, test = (load(tokenizer, split, arguments.rows) for split in ("train", "validation"))
        result[task] = probe(read, train, test)
    results: dict[str, Any] = read_json(arguments.output) if Path(arguments.output).exists() else {}
    name = arguments.name or type(checkpoint.config).__name__
    results[name] = {"rows": arguments.rows, "step": checkpoint.step, **result, **about()}
    write_json(arguments.output, dict(sorted(results.items())))
    for task, entry in result.items():
        print(task, entry)


def reader(checkpoint: Any) -> Reader:
    """Return a function that yields the hidden states [N, L, D] of each row of token ids."""

    @jax.jit
    def run(params: Any, tokens: jax.Array) -> jax.Array:
        batch = Batch(encoder_input_tokens=tokens, encoder_segment_ids=(tokens > 0).astype(jnp.int32))
        with record(("*/hidden_states",)) as captured:
            parameters.merge(checkpoint.graphdef, params)(batch)
        return captured[
            "encoder/hidden_states" if "encoder/hidden_states" in captured else "decoder/hidden_states"
        ]

    def read(rows: Sequence[Sequence[int]]) -> Iterator[np.ndarray]:
        for start in range(0, len(rows), _BATCH_SIZE):
            chosen = [row[:_MAX_TOKENS] for row in rows[start : start + _BATCH_SIZE]]
            length = bucket_length(max(map(len, chosen)), _MAX_TOKENS)
            tokens = np.zeros((_BATCH_SIZE, length), np.int32)
            for index, row in enumerate(chosen):
                tokens[index, : len(row)] = row
            hidden = np.asarray(run(checkpoint.params, jnp.asarray(tokens)), np.float32)
            for index, row in enumerate(chosen):
                yield hidden[:, index, : len(row)]

    return read


Examples = tuple[list[list[int]], list[list[int]], list[str]]


def tagged_words(tokenizer: Any, split: str, limit: int) -> Examples:
    """Return rows of ids, the places of words' first pieces in each, and all tags in order."""
    rows, places, tags = [], [], []
    for cells in _cells("oanc_tags", split, limit):
        ids: list[int] = []
        firsts: list[int] = []
        for word in cells["words"].split():
            firsts.append(len(ids))
            ids += tokenizer.encode(word)
        kept = [place for place in firsts if place < _MAX_TOKENS]
        rows.append(ids)
        places.append(kept)
        tags += cells["tags"].split()[: len(kept)]
    return rows, places, tags


def definitions(tokenizer: Any, split: str, limit: int) -> Examples:
    """Return rows of ids, no places, and the kind that each row defines."""
    cells = list(_cells("wordnet_definitions", split, limit))
    rows = [list(tokenizer.encode(each["definition"])) for each in cells]
    return rows, [[] for _ in rows], [each["category"] for each in cells]


def _cells(data_set: str, split: str, limit: int) -> Iterator[dict[str, str]]:
    with Path("data", data_set, f"{split}.tsv").open(encoding="utf-8", newline="") as file:
        for index, row in enumerate(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)):
            if index == limit:
                return
            yield row


def probe(read: Reader, train: Examples, test: Examples) -> dict[str, Any]:
    """Return the accuracy of a linear classifier on each layer, and that of the most frequent class."""
    (trained, labels), (held_out, wanted) = (
        (vectors(read, rows, places), labels) for rows, places, labels in (train, test)
    )
    most_frequent = Counter(labels).most_common(1)[0][0]
    accuracies = []
    for layer, tested in zip(trained, held_out, strict=True):
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
        classifier.fit(layer, labels)
        accuracies.append(round(100 * float(classifier.score(tested, wanted)), 1))
    baseline = round(100 * wanted.count(most_frequent) / len(wanted), 1)
    return {"layers": accuracies, "most frequent class": baseline, "tested": len(wanted)}


def vectors(read: Reader, rows: Sequence[Sequence[int]], places: Sequence[Sequence[int]]) -> np.ndarray:
    """Return what a probe reads of each layer, [N, examples, D]: hidden states at places, or the mean of a row."""
    results = []
    for hidden, chosen in zip(read(rows), places, strict=True):
        results.append(hidden[:, list(chosen)] if chosen else hidden.mean(axis=1, keepdims=True))
    return np.concatenate(results, axis=1)


if __name__ == "__main__":
    main()
