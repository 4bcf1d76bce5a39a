import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.references.packing import check_converted, packed_rows, shifted_rows
from benchmarks.references.reference import compare_all
from t5x_like.text.batches.batch_layout import BatchLayout
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.row_maker import pack_rows
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths


def test_packing_and_padding_are_seqios(golden):
    assert compare_all(packed_rows(golden / "packing" / "packing.json")) == 16


def pair(inputs, targets):
    return Example(inputs=np.array(inputs), targets=np.array(targets))


NAMES = (
    *("EncDec_pack", "EncDec_nopack", "LM_pack", "LM_nopack"),
    *("PrefixLM_pack_loss_targets", "PrefixLM_nopack_loss_targets", "PrefixLM_pack_loss_all"),
)


@pytest.mark.parametrize("converter", NAMES)
def test_batches_are_those_of_seqios_feature_converter(golden, converter):
    cases = json.loads((golden / "packing" / "feature_converters.json").read_text())
    (case,) = [case for case in cases if case["converter"] == converter]
    check_converted(case)


def test_no_converter_of_seqios_is_left_out(golden):
    cases = json.loads((golden / "packing" / "feature_converters.json").read_text())
    assert sorted(case["converter"] for case in cases) == sorted(NAMES)


def in_one_stream(mixture, **changes):
    settings = {"mixture": mixture, "batch_size": 4, "inputs_length": 32, "targets_length": 64}
    return LoaderConfig(**settings, layout="decoder", **changes)


@pytest.mark.parametrize("prefix_attention", ["bidirectional", "causal"])
def test_inputs_are_learned_where_that_is_asked_for(make_text_task, prefix_attention):
    settings = in_one_stream(make_text_task(), prefix_attention=prefix_attention)
    targets, everything = (
        next(build_loader(dataclasses.replace(settings, loss_on_targets_only=only))) for only in (True, False)
    )
    is_token = everything.decoder_segment_ids > 0
    np.testing.assert_array_equal(everything.loss_weights, is_token)
    assert 0 < targets.loss_weights.sum() < is_token.sum() / 2
    same = everything._replace(loss_weights=targets.loss_weights)
    for name, mine, reference in zip(same._fields, same, targets, strict=True):
        np.testing.assert_array_equal(mine, reference, err_msg=name)


def test_learning_all_is_refused_where_it_means_nothing(make_text_task, make_talks):
    settings = in_one_stream(make_text_task(), loss_on_targets_only=False)
    with pytest.raises(ValueError, match=r"which needs a decoder's joint stream .*; set layout='decoder'"):
        dataclasses.replace(settings, layout=None)
    with pytest.raises(ValueError, match="loss_on_targets_only needs True or False, got 'inputs'"):
        dataclasses.replace(settings, loss_on_targets_only="inputs")  # pyright: ignore[reportArgumentType]
    talks = make_talks()
    with pytest.raises(ValueError, match=f"task '{talks}' defines its own loss weights"):
        build_loader(dataclasses.replace(settings, mixture=talks))


def test_a_run_on_targets_only_cannot_continue_on_all_tokens(make_text_task):
    settings = in_one_stream(make_text_task())
    state = build_loader(settings).state()
    assert "loss_on_targets_only" not in state["data"]  # absent by default
    with pytest.raises(ValueError, match="loss_on_targets_only: None before, False now"):
        build_loader(dataclasses.replace(settings, loss_on_targets_only=False)).restore(state)


def test_shifted_targets_are_seqios(golden):
    assert compare_all(shifted_rows(golden / "packing" / "autoregressive_inputs.json")) > 1


lengths = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), max_size=30)


def by_trying(pairs, limits):
    """Pack by the definition of first fit."""
    rows = []
    for index in range(len(pairs)):
        for row in rows:
            together = np.minimum([pairs[each] for each in (*row, index)], limits).sum(0)
            if (together <= limits).all():
                row.append(index)
                break
        else:
            rows.append([index])
    return rows


@given(lengths)
def test_each_example_goes_to_the_first_row_that_it_fits_into(pairs):
    sizes = np.array(pairs, np.int64).reshape(-1, 2)
    assert pack_rows(sizes, (10, 6)) == by_trying(sizes, np.array([10, 6]))
    in_order = pack_rows(sizes, (10, 6), open_rows=1)
    assert [number for row in in_order for number in row] == list(range(len(pairs)))
    assert len(in_order) >= len(pack_rows(sizes, (10, 6)))


def test_each_target_knows_its_task():
    rows = [[pair([5], [7, 1])._replace(task=2), pair([5], [1])], []]
    batch = BatchLayout(ExampleSpec(layout="encoder_decoder"), Lengths(3, 5)).batch(rows)
    assert batch.task_ids.tolist() == [[2, 2, 0, 0, 0], [0] * 5]
    assert batch.loss_weights.tolist() == [[1, 1, 1, 0, 0], [0] * 5]
    assert {array.dtype for array in batch if array is not None} == {np.dtype(np.int32), np.dtype(np.float32)}
