"""Generated ids of models, greedy or by beams."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import t5x_like
from benchmarks.references.reference import Reference, check_close, check_equal, read_json


def has_generation(folder: Any) -> bool:
    """Return whether ids are recorded in either of two forms."""
    has_settings = bool(folder.meta.get("generation")) and "gen_prompt_ids" in folder.io
    return has_settings or "gen_ids" in folder.io


def check_generation(folder: Any) -> None:
    """Compare generated ids, and the scores of beams."""
    if "gen_prompt_ids" in folder.io and folder.meta.get("generation"):
        _check_runs(folder)
    else:
        _check_greedy(folder)


def _check_greedy(folder: Any) -> None:
    """Compare greedy continuations of the first inputs, without an end token."""
    wanted = folder.io["gen_ids"]
    ids, mask = (folder.inputs[name][: len(wanted)] for name in ("input_ids", "attention_mask"))
    num_before = 1 if "decoder_input_ids" in folder.inputs else ids.shape[1]
    got = folder.pretrained.generate(ids, mask, max_new_tokens=wanted.shape[1] - num_before, eos_token_id=[])
    check_equal(np.asarray(got).tolist(), wanted.tolist(), "greedy ids")


def _check_runs(folder: Any) -> None:
    """Compare continuations of prompts by several settings, each up to its first end of sequence."""
    newer = (folder.meta.get("recheck_with_5.23.0") or {}).get("v5_result") or {}
    prompts = folder.io["gen_prompt_ids"]
    mask = (prompts != -1).astype(np.int32)
    for run, settings in folder.meta["generation"].items():
        options = {name: value for name, value in settings.items() if name != "pad_token_id"}
        answers = folder.pretrained.generate(prompts * mask, mask, **options, return_dict_in_generate=True)
        rows_of_prompt = options.get("num_return_sequences", 1)
        got = [
            _written(row, mask[index // rows_of_prompt], options["eos_token_id"], folder)
            for index, row in enumerate(answers.sequences)
        ]
        wanted = [row[row != -1].tolist() for row in folder.io[f"gen_{run}"]]
        scores = folder.io.get(f"gen_{run}_scores")
        if got != wanted and f"gen_{run}" in newer:  # versions of transformers end beams differently
            wanted = [[token for token in row if token != -1] for row in newer[f"gen_{run}"]]
            scores = newer[f"gen_{run}_scores"]
        check_equal(got, wanted, f"ids of {run}")
        if scores is not None:
            check_close(answers.sequences_scores, scores, f"scores of {run}", atol=0.0, rtol=2e-5)


def _written(row: np.ndarray, mask: np.ndarray, eos: int, folder: Any) -> list[int]:
    """Return the prompt or start token and what was written, up to the first end of sequence after it."""
    is_decoder = "decoder_input_ids" not in folder.inputs
    num_before = len(mask) if is_decoder else 1
    before, new = row[:num_before], row[num_before:].tolist()
    before = before[mask == 1].tolist() if is_decoder else before.tolist()
    return before + (new[: new.index(eos) + 1] if eos in new else new)


def calls(file: Path) -> Iterator[Reference]:
    """Yield a reference for each recorded call of ``generate``; the models lie in the folder ``models`` nearby."""
    models: dict[str, Any] = {}
    for record in read_json(file):

        def compare(record: dict[str, Any] = record) -> None:
            name = record["model"]
            if name not in models:
                models[name] = t5x_like.from_pretrained(file.parent.parent / "models" / name)
            check_call(models[name], record)

        yield Reference("generation", f"{file} {record['model']} {record['settings']}", compare)


def check_call(pretrained: Any, record: dict[str, Any]) -> None:
    """Compare the sequences of a call with settings, and the scores of beams.

    Args:
      pretrained: The model.
      record: Prompts, settings, sequences and scores of ``make_generation.py``.

    Raises:
      DifferenceError: They are others.
    """
    answers = pretrained.generate(record["prompts"], return_dict_in_generate=True, **record["settings"])
    check_equal(np.asarray(answers.sequences).tolist(), record["sequences"], "ids")
    if record["scores"] is not None:
        check_close(answers.sequences_scores, record["scores"], "scores", atol=0.0, rtol=2e-5)
