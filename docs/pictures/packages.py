"""The packages in the order in which they may import each other, from the contracts in pyproject.toml."""

import tomllib
from pathlib import Path

from matplotlib.figure import Figure

from docs.pictures.style import Palette, add_arrow, add_box, new_figure

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "ancestors": "recurrent models, word vectors: from before the Transformer",
    "cli": "the command t5x-like",
    "sweep": "grids of runs",
    "projects": "a user's table to a recipe",
    "gin_config": "gin files to typed values",
    "planning": "steps compiled in advance",
    "analysis": "looking inside models",
    "training": "step, losses, loop, hooks",
    "reports": "curves and pages",
    "serving": "a model over HTTP",
    "retrieval": "search by vectors",
    "evaluation": "one engine for scores and answers",
    "pretrained": "weights in and out: Hugging Face, GGUF, T5X",
    "checkpoints": "saving and resuming runs",
    "inference": "sampling, beam search, scoring",
    "text": "raw data to token ids",
    "corpora": "a crawl to clean text",
    "model": "token ids to logits",
    "optimizers": "Adafactor, AdamW, Lion",
    "audio": "recordings to features",
    "partitioning": "the device mesh and its rules",
    "batch": "the contract of text and model",
    "io": "files, buckets, workers",
    "config_class": "configurations that refuse wrong types",
    "configuration_names": "what files may name",
    "deprecated_names": "earlier public names",
    "credentials": "no passwords",
    "index_checks": "ids and labels in range",
    "message_sentences": "sentences of messages",
    "nested_values": "values inside of others",
    "shapes": "dimension letters",
    "value_types": "values against annotations",
}
_ACCENTS = {
    **dict.fromkeys(("text", "corpora", "audio"), 0),
    **dict.fromkeys(("model", "optimizers"), 1),
    **dict.fromkeys(("training", "evaluation"), 2),
    "batch": 3,
}


def layers() -> list[list[str]]:
    """Return the packages of each layer, the highest first, as import-linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    contract = next(each for each in contracts if each.get("containers") == ["t5x_like"])
    return [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]


def draw(palette: Palette) -> Figure:
    """Draw a row for each layer."""
    rows = layers()
    height, width, gap, left = 0.5, 8.4, 0.13, 0.45
    top = len(rows) * (height + gap) + 0.35
    figure, axes = new_figure(width + left + 0.15, top + 0.1)
    axes.text(
        left,
        top - 0.17,
        "t5x_like: a package imports packages below it only",
        color=palette.faint,
        fontsize=9.5,
    )
    for number, names in enumerate(rows):
        bottom = top - 0.35 - (number + 1) * (height + gap) + gap
        box_width = (width - gap * (len(names) - 1)) / len(names)
        for place, name in enumerate(names):
            box_left = left + place * (box_width + gap)
            accent = palette.accents[_ACCENTS[name]] if name in _ACCENTS else palette.line
            add_box(axes, box_left, bottom, box_width, height, face=palette.paper, edge=accent)
            middle = box_left + box_width / 2
            axes.text(middle, bottom + 0.32, name, ha="center", va="center", weight="bold", fontsize=10.5)
            axes.text(
                middle, bottom + 0.14, WORDS[name], ha="center", va="center", color=palette.faint, fontsize=8
            )
    add_arrow(axes, (0.2, top - 0.4), (0.2, 0.15), palette.faint)
    return figure
