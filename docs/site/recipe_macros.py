"""The macros that a pretraining recipe needs and those that users change most, at the end of its header.

    python -m docs.site.recipe_macros

writes them into the headers of all recipes of papers, from the values that gin reads. A recipe that includes another
one shows the values that it has itself. A test compares the headers with ``block``.
"""

import re
import textwrap
from pathlib import Path

from t5x_like.gin_config.configuration import read, required_macros

RECIPES = Path(__file__).resolve().parents[2] / "gin" / "recipes"
PATTERNS = ("*/pretrain*.gin", "transformer/wmt*.gin", "distillation/distilbert.gin")
REQUIRED, OVERRIDDEN = "Required to be set", "Commonly overridden"
COMMON = (
    "BATCH_SIZE",
    "NUM_MICROBATCHES",
    "INPUTS_LENGTH",
    "TARGETS_LENGTH",
    "MEMORY_LENGTH",
    "TRAIN_STEPS",
    "WARMUP_STEPS",
    "LEARNING_RATE",
    "DROPOUT_RATE",
    "NOISE_DENSITY",
    "MEAN_NOISE_SPAN_LENGTH",
    "BUDGET",
    "EVALUATE_EVERY_STEPS",
    "SAVE_EVERY_STEPS",
    "REMAT",
    "CACHE",
    "SEED",
)
_WIDTH = 110
_BLOCK = re.compile(rf"^# (?:{REQUIRED}|{OVERRIDDEN}): .*\n(?:# .*\n)*", re.M)


def full_size() -> list[Path]:
    """Return the recipes of papers' pretraining, whose headers have the block."""
    files = {file for pattern in PATTERNS for file in RECIPES.glob(pattern)}
    return sorted(file for file in files if file.parent.name != "quickstart")


def block(file: Path) -> str:
    """Return the lines of a recipe's header that name its macros.

    Args:
      file: The recipe.
    """
    bindings = read([str(file)]).bindings
    values = {statement.name: statement.value for statement, _ in bindings if not statement.parameter}
    given = [f"{name} = {values[name]!r}" for name in COMMON if name in values and _is_plain(values[name])]
    sentences = [
        f"{REQUIRED}: {', '.join(required_macros([str(file)]))}.",
        f"{OVERRIDDEN}: {', '.join(given)}.",
    ]
    lines = [
        line.replace("\0", " ")
        for sentence in sentences
        for line in textwrap.wrap(sentence.replace(" = ", "\0=\0"), _WIDTH - 2, break_on_hyphens=False)
    ]
    return "".join(f"# {line}\n" for line in lines)


def with_block(text: str, lines: str) -> str:
    """Return a recipe's text with ``lines`` at the end of its header, in place of those that it has."""
    header, first, rest = text.partition("from __gin__")
    return _BLOCK.sub("", header) + lines + first + rest


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | str | None)


def main() -> None:
    """Write the blocks."""
    for file in full_size():
        text = file.read_text(encoding="utf-8")
        file.write_text(with_block(text, block(file)), encoding="utf-8")


if __name__ == "__main__":
    main()
