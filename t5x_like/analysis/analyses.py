"""Analyses by name, and the call that runs one."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from t5x_like.analysis.analysis import Analysis, AnalysisResult, Row
from t5x_like.analysis.page import write_result
from t5x_like.io.files import PathLike
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

# Module and class of each; a module is imported when its analysis is asked for.
ANALYSES: Mapping[str, str] = {
    "anisotropy": "t5x_like.analysis.anisotropy.Anisotropy",
    "attention_maps": "t5x_like.analysis.attention_maps.AttentionMaps",
    "feed_forward_memories": "t5x_like.analysis.feed_forward_memories.FeedForwardMemories",
    "knowledge_neurons": "t5x_like.analysis.knowledge_neurons.KnowledgeNeurons",
    "moefication": "t5x_like.analysis.moefication.MoEfication",
    "probes": "t5x_like.analysis.probes.Probes",
    "structural_probe": "t5x_like.analysis.structural_probe.StructuralProbe",
}


def analyze(
    model: Pretrained,
    rows: Sequence[Row] | Sequence[str],
    what: str,
    *,
    output_dir: PathLike | None = None,
    source: str = "texts",
    **options: Any,
) -> AnalysisResult:
    """Look inside a model.

    >>> model = t5x_like.from_pretrained("path/to/bert")
    >>> t5x_like.analyze(model, ["a text", "and another one"], "anisotropy").headlines

    Args:
      model: Model with its tokenizer.
      rows: Texts, or rows of a table by the names of its columns.
      what: Name of the analysis, or a class of yours as ``package.module.Class``.
      output_dir: Directory for ``analysis.html`` and ``analysis.json``; ``None`` to write none.
      source: Name of the texts on the page.
      **options: Options of the analysis, which are the fields of its class.

    Raises:
      ValueError: There is no such analysis or option, or the rows or the model don't have what it needs.
    """
    analysis = analysis_class(what)(**options)
    table = [row if isinstance(row, Mapping) else {"text": row} for row in rows]
    result = analysis.run(model, table)
    if output_dir is not None:
        directory = model.checkpoint.directory
        write_result(
            output_dir,
            result,
            title=f"{what} of {directory.rstrip('/').rpartition('/')[2]}",
            introduction=f"{len(table):,} rows of {source}.",
            options={
                "model": directory,
                "texts": source,
                "analysis": what,
                "options": {each.name: getattr(analysis, each.name) for each in fields(analysis)},
            },
        )
    return result


def analysis_class(name: str) -> type[Analysis]:
    """Return the class of an analysis.

    Args:
      name: One of ``ANALYSES``, or a class of yours as ``package.module.Class``.

    Raises:
      ValueError: There is no such analysis.
    """
    module, _, class_name = ANALYSES.get(name, name).rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), class_name, None) if module else None
    except ModuleNotFoundError as error:
        if not (error.name and module.startswith(error.name)):
            raise  # the module is there, and imports what is not
        kind = None
    if not (isinstance(kind, type) and issubclass(kind, Analysis)):
        raise ValueError(
            f"there is no analysis {name!r}; there are {', '.join(ANALYSES)}, and classes of yours as "
            "package.module.Class, which derive from t5x_like.Analysis"
        )
    return kind
