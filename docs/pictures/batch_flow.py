"""The way of one batch: from text to changed weights, with the file of each part."""

import itertools
from typing import NamedTuple

from matplotlib.figure import Figure

from docs.pictures.style import Palette, add_arrow, add_box, new_figure


class Part(NamedTuple):
    """One box of the picture: its name, what it does, its file below ``t5x_like/``, and its place on the grid."""

    title: str
    words: str
    file: str
    column: int
    row: int
    accent: int


PARTS = (
    Part("Task", "files, wording", "text/tasks/pretraining.py", 0, 2, 0),
    Part("Tokenizer, cache", "text to ids", "text/cache/reader.py", 1, 2, 0),
    Part("Objective", "ids to examples", "text/objectives/span_corruption.py", 2, 2, 0),
    Part("Packing", "examples to rows", "text/batches/row_maker.py", 3, 2, 0),
    Part("Batch", "numpy arrays", "batch.py", 3, 1, 3),
    Part("Mesh", "rows onto devices", "partitioning/shard.py", 2, 1, 5),
    Part("Model", "ids to logits", "model/families/encoder_decoder.py", 1, 1, 1),
    Part("Loss", "logits to one number", "training/losses/total.py", 0, 1, 2),
    Part("Gradient, step", "one pure function", "training/step.py", 0, 0, 2),
    Part("Optimizer", "gradients to updates", "optimizers/adafactor.py", 1, 0, 1),
    Part("State", "weights, data position", "training/state.py", 2, 0, 2),
    Part("Hooks", "logs, scores, checkpoints", "training/loop.py", 3, 0, 2),
)
_WIDTH, _HEIGHT, _ACROSS, _DOWN = 1.95, 0.82, 0.32, 0.42


def draw(palette: Palette) -> Figure:
    """Draw three rows, read like an S: data, computation, state."""
    left, top = 0.1, 0.1
    figure, axes = new_figure(4 * _WIDTH + 3 * _ACROSS + 2 * left, 3 * _HEIGHT + 2 * _DOWN + 2 * top)
    corners = [
        (left + part.column * (_WIDTH + _ACROSS), top + part.row * (_HEIGHT + _DOWN)) for part in PARTS
    ]
    for part, (x, y) in zip(PARTS, corners, strict=True):
        add_box(axes, x, y, _WIDTH, _HEIGHT, face=palette.paper, edge=palette.accents[part.accent])
        middle = x + _WIDTH / 2
        axes.text(middle, y + 0.62, part.title, ha="center", va="center", weight="bold", fontsize=10.5)
        axes.text(middle, y + 0.4, part.words, ha="center", va="center", fontsize=9)
        axes.text(middle, y + 0.17, part.file, ha="center", va="center", color=palette.faint, fontsize=6.6)
    placed = list(zip(PARTS, corners, strict=True))
    for (here, start), (there, end) in itertools.pairwise(placed):
        if here.row != there.row:
            middle = start[0] + _WIDTH / 2
            add_arrow(axes, (middle, start[1]), (middle, end[1] + _HEIGHT), palette.faint)
        elif there.column > here.column:
            add_arrow(
                axes,
                (start[0] + _WIDTH, start[1] + _HEIGHT / 2),
                (end[0], end[1] + _HEIGHT / 2),
                palette.faint,
            )
        else:
            add_arrow(
                axes,
                (start[0], start[1] + _HEIGHT / 2),
                (end[0] + _WIDTH, end[1] + _HEIGHT / 2),
                palette.faint,
            )
    state, model = corners[10], corners[6]
    add_arrow(axes, (state[0] + 0.3, state[1] + _HEIGHT), (model[0] + _WIDTH - 0.3, model[1]), palette.faint)
    axes.text(state[0] + 0.12, state[1] + _HEIGHT + 0.2, "next step", color=palette.faint, fontsize=8)
    return figure
