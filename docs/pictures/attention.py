"""Attention of each objective, measured: a square is filled where the column's token changes the row's output."""

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from docs.pictures.style import Palette
from t5x_like.batch import Batch
from t5x_like.model.families.family import Predictions
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.glm_orig import GLMOrigConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.mistral import MistralConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.xlnet import XLNetConfig
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.blank_infilling import BlankInfilling
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.objective import Layout
from t5x_like.text.objectives.permutation_lm import PermutationLM
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.objectives.unilm import UniLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

TEXT = "abcdefghijklmnopqrstuvwxyz"
_VOCAB_SIZE = 384
_SMALL: dict[str, Any] = {"vocab_size": _VOCAB_SIZE, "model_dim": 16, "mlp_dim": 32, "num_heads": 2}
T5 = T5Config(**_SMALL, head_dim=8, num_encoder_layers=1, num_decoder_layers=1)
BERT = BertConfig(**_SMALL, num_layers=1, task="masked_lm", max_position_embeddings=64)
GPT2 = GPT2Config(**_SMALL, num_layers=1, max_position_embeddings=64)
GLM = GLMOrigConfig(**_SMALL, num_layers=1, max_position_embeddings=64)
XLNET = XLNetConfig(**_SMALL, head_dim=8, num_layers=1)
MISTRAL = MistralConfig(**_SMALL, num_kv_heads=1, num_layers=1, sliding_window=4)


class Panel(NamedTuple):
    """One matrix of the picture.

    Attributes:
      title: the objective.
      words: the model that reads it.
      model: a config of one layer, so that an output changes only with what it attends to.
      objective: what makes the example.
      inputs_length: of the loader.
      targets_length: of the loader.
      seed: of the loader, for an example that shows much.
      layout: of the loader.
      pack: of the loader.
      documents: the text that the loader reads.
    """

    title: str
    words: str
    model: Any
    objective: Any
    inputs_length: int
    targets_length: int
    seed: int = 0
    layout: Layout | None = None
    pack: bool = False
    documents: tuple[str, ...] = (TEXT * 3,)


PANELS = (
    Panel(
        "span corruption", "T5", T5, SpanCorruption(noise_density=0.3, mean_noise_span_length=2.0), 10, 8, 1
    ),
    Panel("prefix language model", "a decoder", GPT2, PrefixLM(), 9, 11, layout="decoder"),
    Panel("causal language model", "GPT, LLaMA", GPT2, CausalLM(), 2, 12),
    Panel("masked tokens", "BERT", BERT, MaskedLM(), 12, 2),
    Panel("blank infilling", "GLM", GLM, BlankInfilling(noise_density=0.4, mean_length=1.5), 2, 15, 1),
    Panel("source and target", "UniLM", BERT, UniLM(predicts_next=False), 12, 2, 4),
    Panel("permutation", "XLNet", XLNET, PermutationLM(partial=2, max_span=2), 12, 2, 1),
    Panel(
        "documents packed apart",
        "a decoder",
        GPT2,
        CausalLM(isolate_documents=True),
        2,
        12,
        pack=True,
        documents=("abc", "def", "ghi"),
    ),
    Panel("sliding window of 4", "Mistral", MISTRAL, CausalLM(), 2, 12),
)


class Attention(NamedTuple):
    """Which tokens change which outputs.

    Attributes:
      tokens: the model's input, a sign for each token; an encoder's before a decoder's.
      num_encoder: how many of them the encoder reads.
      is_target: bool [L], outputs that are learned.
      sees: bool [L, L], True where the token of the column changes the output of the row.
    """

    tokens: list[str]
    num_encoder: int
    is_target: np.ndarray
    sees: np.ndarray


def measure(panel: Panel) -> Attention:
    """Change one input token after the other, and compare the outputs of a model of one layer with fresh weights."""
    with tempfile.TemporaryDirectory() as folder:
        batch, signs = _example(panel, Path(folder))
    streams = [
        (name, np.flatnonzero(segments[0]))
        for name, segments in (
            ("encoder_input_tokens", batch.encoder_segment_ids),
            ("decoder_input_tokens", batch.decoder_segment_ids),
        )
        if segments is not None
    ]
    columns = [(name, int(place)) for name, places in streams for place in places]
    rows = batch.map(lambda _, stream: np.repeat(stream, len(columns) + 1, axis=0))
    for number, (name, place) in enumerate(columns):
        tokens = getattr(rows, name)
        tokens[number, place] = 3 + (tokens[number, place] + 100) % 200
    predictions = _predict(panel.model)(rows)
    outputs = {
        "encoder_input_tokens": predictions.encoder_output,
        "decoder_input_tokens": predictions.decoder_output,
    }
    changes = []
    for name, places in streams:
        output = np.asarray(outputs[name])[:, places]
        changes.append(np.abs(output[:-1] - output[-1]).max(axis=-1))  # [columns, rows]
    sees = np.concatenate(changes, axis=1).T > _LEAST_CHANGE
    target_stream = streams[-1]
    learned = np.asarray(batch.loss_weights)[0, target_stream[1]] > 0
    is_target = np.concatenate([np.zeros(len(columns) - len(learned), bool), learned])
    tokens = [signs(int(getattr(batch, name)[0, place])) for name, place in columns]
    num_encoder = len(streams[0][1]) if streams[0][0] == "encoder_input_tokens" else 0
    return Attention(tokens, num_encoder, is_target, sees)


_LEAST_CHANGE = 1e-6
_SPECIAL = {"eos": ".", "mask": "_", "cls": "C", "sep": "S", "bos": "^", "pad": "^"}
_SENTINELS = "XYZWVU"


def _example(panel: Panel, folder: Path) -> tuple[Batch, Callable[[int], str]]:
    """Return a row of the objective as the loader makes it, and the sign of each token id."""
    file = folder / "text.txt"
    file.write_text("\n".join(panel.documents) + "\n")
    task = PretrainingTask(
        name=f"picture of {panel.title}",
        vocabulary="bytes",
        files={"train": str(file)},
        objective=panel.objective,
    )
    registry.register([task])
    config = LoaderConfig(
        mixture=task.name,
        batch_size=1,
        inputs_length=panel.inputs_length,
        targets_length=panel.targets_length,
        seed=panel.seed,
        pack=panel.pack,
        layout=panel.layout,
    )
    ids = ids_of(open_tokenizer("bytes"))
    named = {getattr(ids, role): sign for role, sign in _SPECIAL.items()}
    named |= {ids.first_sentinel - number: sign for number, sign in enumerate(_SENTINELS)}
    return next(build_loader(config)), lambda token: named.get(token) or chr(token - 3)


def _predict(config: Any) -> Callable[[Batch], Predictions]:
    model = jax.jit(config.build)(jax.random.key(0))
    return jax.jit(lambda batch: model(batch))


@functools.cache
def measured() -> tuple[Attention, ...]:
    """Return what all panels show; computed once for both palettes."""
    return tuple(measure(panel) for panel in PANELS)


def draw(palette: Palette) -> Figure:
    """Draw three rows of three matrices."""
    figure = Figure(figsize=(9.0, 9.7))
    grid = figure.subplots(3, 3, gridspec_kw={"hspace": 0.38, "wspace": 0.16})
    figure.subplots_adjust(left=0.045, right=0.985, top=0.93, bottom=0.03)
    for axes, panel, attention in zip(grid.flat, PANELS, measured(), strict=True):
        _draw_matrix(axes, panel, attention, palette)
    return figure


def _draw_matrix(axes: Axes, panel: Panel, attention: Attention, palette: Palette) -> None:
    length = len(attention.tokens)
    color, blank = to_rgba(palette.accents[0]), to_rgba(palette.line, 0.25)
    learned, own = to_rgba(palette.accents[1]), attention.is_target[:, None]
    image = np.where(attention.sees[..., None], np.where(own[..., None], learned, color), blank)
    axes.imshow(image, interpolation="nearest", extent=(0, length, length, 0))
    for edge in range(length + 1):
        axes.axhline(edge, color=palette.ink, alpha=0.15, linewidth=0.5)
        axes.axvline(edge, color=palette.ink, alpha=0.15, linewidth=0.5)
    if 0 < attention.num_encoder < length:
        axes.axhline(attention.num_encoder, color=palette.ink, linewidth=1.4)
        axes.axvline(attention.num_encoder, color=palette.ink, linewidth=1.4)
    middles = np.arange(length) + 0.5
    axes.set_xticks(middles, attention.tokens, color=palette.ink, fontsize=8)
    axes.set_yticks(middles, attention.tokens, color=palette.ink, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_color(palette.line)
    axes.set_title(f"{panel.title}\n{panel.words}", fontsize=10, color=palette.ink, pad=7)
