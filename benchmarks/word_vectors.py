"""Train word vectors on the King James Bible by word2vec and GloVe, and score them on analogies of its grammar.

    python -m benchmarks.word_vectors --output benchmarks/results/word_vectors_cpu.json

The analogies are pairs of words in six sections, each pair with each other one of its section; ``--questions`` writes
them in the form of questions-words.txt. Random vectors of the same words are the baseline.

Then a tiny GPT-2 over the same words is trained by gin/recipes/objectives/king_james.gin for a few steps: from fresh
embeddings, from word2vec's vectors, and from the same vectors with their words shuffled. The last shows what their
scale alone does.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import about
from t5x_like.ancestors.word_vectors.glove import Glove
from t5x_like.ancestors.word_vectors.skip_gram import SkipGram
from t5x_like.ancestors.word_vectors.vector_benchmarks import read_analogies, score_analogies
from t5x_like.ancestors.word_vectors.vector_files import write_vectors
from t5x_like.ancestors.word_vectors.word_text import WordText, read_word_text
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.gin_config.configuration import load
from t5x_like.io.files import write_json, write_text
from t5x_like.io.paths import find_file
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_training import VocabularyTraining
from t5x_like.training.experiment import Experiment
from t5x_like.training.train import train

TEXT = "data/king_james/train.txt"
SECTIONS = {
    "gender": "king queen, man woman, men women, he she, his her, father mother, son daughter, sons daughters, "
    "brother sister, husband wife",
    "plural": "king kings, city cities, day days, year years, son sons, servant servants, priest priests, "
    "prophet prophets, nation nations, word words, work works, hand hands, eye eyes, house houses, "
    "mountain mountains, tree trees, beast beasts, daughter daughters, prince princes, man men, woman women, "
    "foot feet, child children, enemy enemies, stone stones, river rivers",
    "third person": "speak speaketh, come cometh, go goeth, make maketh, give giveth, know knoweth, see seeth, "
    "hear heareth, love loveth, hate hateth, dwell dwelleth, believe believeth, keep keepeth, walk walketh, do doeth, "
    "eat eateth, bring bringeth, fear feareth, sit sitteth, stand standeth",
    "past": "come came, go went, see saw, know knew, give gave, take took, make made, speak spake, fall fell, "
    "rise rose, send sent, bring brought, build built, find found, dwell dwelt, hear heard, begin began, cry cried, "
    "keep kept, call called",
    "ordinals": "two second, three third, four fourth, five fifth, six sixth, seven seventh, eight eighth, nine ninth, "
    "ten tenth",
    "pronouns": "i my, thou thy, he his, she her, we our, ye your, they their",
}
RECIPE = "gin/recipes/objectives/king_james.gin"
VECTORS = "gin/runs/word_vectors.gin"
MODEL_DIM, MODEL_STEPS = 64, 300
METHODS = {"word2vec": SkipGram, "glove": Glove}


def main() -> None:
    """Train and score each method with each seed, and write one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--min_count", type=int, default=5, help="of words (5)")
    parser.add_argument("--model_seeds", type=int, nargs="*", default=[0, 1], help="of GPT-2; none skips it")
    parser.add_argument("--questions", metavar="FILE", help="write the analogies, and do nothing else")
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.questions:
        write_text(arguments.questions, questions())
        return

    with tempfile.TemporaryDirectory() as name:
        result = measure(Path(name), arguments)
    if arguments.output:
        write_json(arguments.output, result)


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all figures; files that are needed on the way go to ``folder``."""
    write_text(folder / "questions.txt", questions())
    analogies = read_analogies(folder / "questions.txt")
    text = read_text(folder, arguments.min_count)
    result: dict[str, Any] = {
        **about(),
        "text": TEXT,
        "words_of_text": len(text.rows),
        "min_count": arguments.min_count,
        "vectors": len(text.words),
        "questions": len(analogies),
        "runs": {},
    }
    runs = [(method, seed) for method in (*arguments.methods, "random") for seed in arguments.seeds]
    for method, seed in runs:
        start = time.perf_counter()
        run: dict[str, Any] = {"method": method, "seed": seed}
        if method == "random":
            table = np.random.default_rng(seed).normal(size=(len(text.words), SkipGram().dim))
            vectors = WordVectors(text.words, table.astype(np.float32))
        else:
            settings = METHODS[method](seed=seed)
            vectors, losses = settings.train(text, progress=True)
            run |= {"epochs": settings.epochs, "dim": settings.dim, "window": settings.window}
            run |= {"loss": [round(losses[0], 4), round(losses[-1], 4)]}
            run["minutes"] = round((time.perf_counter() - start) / 60, 2)
        scores = score_analogies(vectors, analogies)
        assert scores.num_answered == len(analogies), "all words of the analogies are in the text"
        run["accuracy"] = round(scores.accuracy, 2)
        run["sections"] = {name: round(each["accuracy"], 2) for name, each in scores.sections.items()}
        result["runs"][f"{method}, seed {seed}"] = run
        print(run, flush=True)
    if arguments.model_seeds:
        result["gpt2"] = train_gpt2(folder, text, arguments.model_seeds)
    return result


def train_gpt2(folder: Path, text: WordText, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the held-out losses of a tiny GPT-2 from three kinds of word embeddings."""
    vectors, _ = SkipGram(dim=MODEL_DIM).train(text, progress=True)
    order = np.random.default_rng(0).permutation(len(vectors.words))
    write_vectors(folder / "word2vec.txt", vectors)
    write_vectors(folder / "shuffled.txt", WordVectors(vectors.words, vectors.table[order]))
    results: dict[str, Any] = {"steps": MODEL_STEPS, "runs": {}}
    for kind, seed in itertools.product(("fresh", "shuffled", "word2vec"), seeds):
        macros = [
            f"MODEL_DIR='{folder}/{kind}_{seed}'",
            f"VOCABULARY='{folder}/words.json'",
            f"TRAIN_STEPS={MODEL_STEPS}",
            f"SEED={seed}",
        ]
        files = [RECIPE]
        if kind != "fresh":
            files.append(VECTORS)
            macros.append(f"WORD_VECTORS='{folder}/{kind}.txt'")
        last = train(load(files, ["OBJECTIVE_NAME='causal_lm'", *macros], roots=[Experiment]).value).last[
            "validation/king_james"
        ]
        results["runs"][f"{kind}, seed {seed}"] = {
            "embeddings": kind,
            "seed": seed,
            "cross_entropy": round(last["cross_entropy"], 3),
            "unigram_entropy": round(last["unigram_entropy"], 3),
        }
        print(results["runs"][f"{kind}, seed {seed}"], flush=True)
    return results


def questions() -> str:
    """Return the analogies in the form of questions-words.txt."""
    lines = []
    for section, listed in SECTIONS.items():
        lines.append(f": {section}")
        pairs = listed.split(", ")
        lines += [f"{first} {second}" for first, second in itertools.permutations(pairs, 2)]
    return "\n".join(lines) + "\n"


def read_text(folder: Path, min_count: int) -> WordText:
    """Return the text as words of a lower-case vocabulary of its own, which is written to ``folder``."""
    path, file = folder / "words.json", find_file(TEXT)
    VocabularyTraining(kind="words", inputs=file, output=path, size=50_000, lower_case=True).run()
    return read_word_text(file, open_tokenizer(path, 0), min_count=min_count)


if __name__ == "__main__":
    main()
