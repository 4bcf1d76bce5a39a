"""Packed and padded rows, batches of feature converters, and rates of mixtures, as in seqio and t5."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.references.reference import (
    DifferenceError,
    Reference,
    check_close,
    check_equal,
    check_scores,
    read_json,
)
from t5x_like.text import registry
from t5x_like.text.batches.batch_layout import BatchLayout, lay_out, shift_right
from t5x_like.text.batches.example_sources import DecoderSource, to_decoder_example
from t5x_like.text.batches.row_maker import pack_rows
from t5x_like.text.objectives.objective import Example, ExampleSpec, Layout, Lengths, lengths_of
from t5x_like.text.tasks.mixtures import Proportional


def pack_as_seqio(lengths: Sequence[Sequence[int]], limits: Sequence[int]) -> list[list[int]]:
    """Pack as seqio does, which packs groups of ``max(limits)`` examples separately, in order."""
    rows: list[list[int]] = []
    for start in range(0, len(lengths), max(limits)):
        group = np.array(lengths[start : start + max(limits)], np.int64)
        packed = pack_rows(group, limits, open_rows=1)
        rows += [[start + number for number in row] for row in packed]
    return rows


def packed_rows(file: Path) -> Iterator[Reference]:
    """Yield examples that seqio packed, and those that it padded."""
    for case in read_json(file):
        yield Reference("packing", f"{file} {case['name']} packed", lambda case=case: check_packed(case))
        if "padded" in case:
            yield Reference("packing", f"{file} {case['name']} padded", lambda case=case: check_padded(case))


def check_packed(case: dict[str, Any]) -> None:
    """Compare tokens, segments and positions of packed rows."""
    limits = case["feature_lengths"]
    # seqio keeps as many tokens from the start as are not 0.
    examples = [{key: one[key][: np.count_nonzero(one[key])] for key in limits} for one in case["in"]]
    rows = pack_as_seqio([[len(one[key]) for key in limits] for one in examples], list(limits.values()))
    for key, length in limits.items():
        stream = lay_out([[np.array(examples[number][key]) for number in row] for row in rows], length)
        parts = {"": stream.tokens, "_segment_ids": stream.segment_ids, "_positions": stream.positions}
        for suffix, part in parts.items():
            check_equal(part.tolist(), [row[key + suffix] for row in case["packed"]], f"{key}{suffix}")


def check_padded(case: dict[str, Any]) -> None:
    """Compare padded rows."""
    for key, length in case["feature_lengths"].items():
        rows = [[np.array(example[key])] for example in case["in"]]
        check_equal(lay_out(rows, length).tokens.tolist(), [row[key] for row in case["padded"]], key)


def _pair(example: dict[str, list[int]]) -> Example:
    return Example(inputs=np.array(example["inputs"]), targets=np.array(example["targets"]))


# seqio's converters, and what makes the same batches here: how examples are made, and the layout.
_CONVERTERS: dict[str, tuple[Callable[[Any], Example], Layout]] = {
    "EncDec": (_pair, "encoder_decoder"),
    "LM": (lambda example: Example(targets=np.array(example["targets"])), "decoder"),
    "PrefixLM": (lambda example: to_decoder_example(_pair(example)), "decoder"),
    "PrefixLM_pack_loss_all": (
        lambda example: to_decoder_example(_pair(example), loss_on_targets_only=False),
        "decoder",
    ),
}


def converted_rows(file: Path) -> Iterator[Reference]:
    """Yield batches of seqio's feature converters."""
    for case in read_json(file):
        yield Reference("packing", f"{file} {case['converter']}", lambda case=case: check_converted(case))


def check_converted(case: dict[str, Any]) -> None:
    """Compare all features of a batch."""
    converter = case["converter"]
    converter_of_layout = _CONVERTERS.get(converter) or _CONVERTERS.get(converter.partition("_")[0])
    if converter_of_layout is None:
        raise DifferenceError(f"we have no layout for the converter {converter!r}")
    make, layout = converter_of_layout
    recorded = case["task_feature_lengths"]
    limits = Lengths(recorded.get("inputs", 0), recorded["targets"])
    if layout == "decoder":
        limits = Lengths(0, sum(limits))
    examples = [make(one) for one in case["in"]]
    is_packed = "_pack" in converter
    sizes = lengths_of(examples).tolist()
    rows = pack_as_seqio(sizes, limits) if is_packed else [[index] for index in range(len(examples))]
    fields = DecoderSource.SPEC.fields if converter.startswith("PrefixLM") else ()
    batch = BatchLayout(ExampleSpec(layout, fields), limits, is_packed).batch(
        [[examples[number] for number in row] for row in rows]
    )
    by_name = {
        "encoder_input_tokens": batch.encoder_input_tokens,
        "decoder_target_tokens": batch.target_tokens,
        "decoder_input_tokens": batch.decoder_input_tokens,
        "decoder_loss_weights": batch.loss_weights,
        "encoder_segment_ids": batch.encoder_segment_ids,
        "decoder_segment_ids": batch.decoder_segment_ids,
        "encoder_positions": batch.encoder_positions,
        "decoder_positions": batch.decoder_positions,
        "decoder_causal_attention": batch.prefix,
    }
    for key in case["out"][0]:
        array = by_name[key]
        check_equal(None if array is None else array.tolist(), [row[key] for row in case["out"]], key)


def shifted_rows(file: Path) -> Iterator[Reference]:
    """Yield a decoder's inputs for its targets."""
    for number, case in enumerate(read_json(file), start=1):
        yield Reference("packing", f"{file} case {number}", lambda case=case: check_shifted(case))


def check_shifted(case: dict[str, Any]) -> None:
    """Compare targets that are shifted inside each segment."""
    segments = case["sequence_id"]
    shifted = shift_right(np.array(case["targets"]), None if segments is None else np.array(segments))
    check_equal(shifted.tolist(), case["out"], "inputs")


def rates(file: Path) -> Iterator[Reference]:
    """Yield rates of tasks by their sizes."""
    content = read_json(file)
    for number, config in enumerate(content["configs"], start=1):
        yield Reference(
            "packing",
            f"{file} configuration {number}",
            lambda config=config: check_rates(config, content["sizes"]),
        )


def check_rates(config: dict[str, Any], sizes: dict[str, int]) -> None:
    """Compare rates of one setting, and their shares."""
    rule = Proportional(**{key: config[key] for key in ("maximum", "temperature", "scale")})
    own = {name: rule.rate(size) for name, size in sizes.items()}
    check_equal(sorted(own), sorted(config["rates"]), "tasks")
    total = sum(own.values())
    for name, rate in own.items():
        check_close(rate, config["rates"][name], f"rate of {name}", atol=0.0, rtol=1e-12)
        check_close(rate / total, config["normalized"][name], f"share of {name}", atol=1e-12, rtol=1e-9)


def mixtures(file: Path) -> Iterator[Reference]:
    """Yield rates of t5's own mixtures."""
    for name, content in read_json(file).items():
        yield Reference(
            "packing", f"{file} {name}", lambda name=name, content=content: check_mixture(name, content)
        )


def check_mixture(name: str, content: dict[str, Any]) -> None:
    """Compare the rates of a mixture of the catalogue."""
    tasks = registry.resolve(name)
    own = dict(zip(tasks.names, tasks.rates(), strict=True))
    check_scores(own, content["rates"], f"rates of {name}")
