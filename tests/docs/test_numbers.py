"""The page of numbers says what the code base computes."""

import json
import re
from typing import Any

import numpy as np

from t5x_like.gin_config.configuration import load
from t5x_like.model import parameters
from t5x_like.text.objectives.word_masking import TokenMasking
from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining
from tests.recipes.test_model_sizes import MACROS, config_class
from tests.references import ROOT

PAGE = (ROOT / "docs/numbers.md").read_text(encoding="utf-8")
BOLD = re.findall(r"\*\*([^*]+)\*\*", PAGE)


def weights_of(size: str, **changes: Any) -> dict[str, int]:
    """Number of weights by path; the word table has the published rows, without padding."""
    file = ROOT / "gin/models" / f"{size}.gin"
    settings = [f"{config_class(file).__name__}.{name}={value!r}" for name, value in changes.items()]
    macros = [*MACROS, "VOCAB_SIZE=%PUBLISHED_VOCAB", *settings]
    config = load([str(file)], macros, roots=[config_class(file)]).value
    flat = parameters.flatten(parameters.abstract(config)[1])
    counts = {name: int(np.prod(leaf.shape)) for name, leaf in flat.items()}
    for name, leaf in flat.items():
        if name.endswith("tokens/table"):
            counts[name] = config.vocab_size * leaf.shape[1]
    return counts


def total(counts: dict[str, int], *parts: str) -> int:
    return sum(count for name, count in counts.items() if any(part in name for part in parts or ("",)))


def words(number: int) -> str:
    return f"{number:,}"


def test_parameters_by_part() -> None:
    base = weights_of("bert/base", task="base")
    kernels = {name: count for name, count in base.items() if "layers" in name and "kernel" in name}
    assert f"{100 * total(kernels, 'feed_forward') / total(kernels):.1f} %" in BOLD
    for size in ("base", "large"):
        counts = weights_of(f"bert/{size}", task="base")
        table, in_layers = (
            counts["embedding/tokens/table"],
            total(counts, "kernel") - total(counts, "pooler/transform/dense/kernel"),
        )
        assert {words(table), words(in_layers), words(table + in_layers), words(total(counts))} <= set(BOLD)


def test_factorized_embeddings() -> None:
    def embedding(width: int) -> int:
        counts = weights_of("albert/large", embed_dim=width)
        return counts["embedding/tokens/table"] + counts["embedding/projection/kernel"]

    assert {words(30_000 * 1024), words(embedding(512)), words(embedding(128))} <= set(BOLD)
    albert = weights_of("albert/base", task="base")
    assert f"{total(albert) / 1e6:.1f}" in BOLD


def test_architectures_of_t5() -> None:
    for size in (
        "t5_1_0/base",
        "t5_variants/shared",
        "t5_variants/half_layers",
        "t5_variants/language_model",
    ):
        assert words(total(weights_of(size), "layers/")) in BOLD, size


def test_the_first_merges(tmp_path) -> None:
    counts = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    text = "\n".join(word for word, count in counts.items() for _ in range(count))
    (tmp_path / "words.txt").write_text(text)
    assert str(sum(count for word, count in counts.items() if "es" in word)) in BOLD
    training = VocabularyTraining(
        kind="bpe",
        inputs=str(tmp_path / "words.txt"),
        output=tmp_path / "tokenizer.json",
        size=20,
        end_of_word=True,
    )
    training.run()
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    assert model["merges"] == [["e", "s"], ["es", "t</w>"], ["l", "o"], ["e", "w"]]


def test_masks_of_bert() -> None:
    masking = TokenMasking(whole_words=False)
    assert f"{100 * masking.noise_density * masking.mask_rate:.0f} %" in BOLD
    assert f"{100 * masking.noise_density * masking.random_rate:.1f} %" in BOLD


def test_epochs_of_bert() -> None:
    tokens = 1_000_000 * 256 * 512
    assert {f"{tokens / 1e9:.0f}", f"{tokens / 3.3e9:.0f}"} <= set(BOLD)
    assert f"{256 * (900_000 * 128 + 100_000 * 512) / 1e9:.0f}" in BOLD


def test_the_cost_of_gpt_3() -> None:
    num_weights = total(weights_of("gpt3/175b"))
    operations = 6 * num_weights * 300e9
    assert {f"{num_weights / 1e9:.1f}", f"{operations / 1e23:.2f}"} <= set(BOLD)
    assert f"{operations / (0.5 * 989e12) / 3600 / 1e3:.0f}" in BOLD


def test_every_bold_number_is_computed_above() -> None:
    assert len(BOLD) == 26, BOLD
