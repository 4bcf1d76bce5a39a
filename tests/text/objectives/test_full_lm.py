from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.references.objective_examples import check_task
from t5x_like.text.objectives.causal_lm import FullLM
from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.objective import Lengths
from tests.text.objectives.t5_objectives import IDS, read


@pytest.mark.parametrize("cached", ["with", "no"])
def test_whole_task_is_t5s(golden, cached):
    content, name = read(golden, "exact_task_level.json"), f"full_lm/{cached}_cache_placeholder_at_index_2"
    check_task(content, name, content["tasks"][name])


def test_training_cuts_as_t5_does(golden):
    reference = read(golden, "exact_task_level.json")
    expected = reference["tasks"]["full_lm/no_cache_placeholder_at_index_2"]["out"]
    records = [{"tokens": np.array(tokens)} for tokens in reference["docs"]]
    window = lay_window(records, chunks=np.zeros(len(records), np.uint64), eos=IDS.eos)
    examples = examples_of(window, Lengths(2, 512))
    assert [example.targets.tolist() for example in examples] == [example["targets"] for example in expected]


def examples_of(window, lengths):
    cuts = FullLM().cut(window, lengths, np.zeros(2, np.uint64))
    texts = texts_of(window, cuts, np.arange(len(cuts.starts)))
    return FullLM().make(texts, np.zeros((len(texts), 2), np.uint64), lengths, IDS)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20), st.integers(2, 20))
def test_every_document_is_there_and_ended(document_lengths, row):
    records = [{"tokens": np.arange(3, 3 + length)} for length in document_lengths]
    window = lay_window(records, chunks=np.zeros(len(records), np.uint64), eos=IDS.eos)
    examples = examples_of(window, Lengths(2, row))
    joined = [token for example in examples for token in example.targets.tolist()]
    assert joined == [token for record in records for token in [*record["tokens"].tolist(), 1]]
    assert all(len(example.targets) == row for example in examples[:-1])


def test_rows_of_one_token_and_vocabularies_without_an_end_are_refused():
    with pytest.raises(ValueError, match="use at least 2"):
        FullLM().check(Lengths(2, 1), IDS)
    with pytest.raises(ValueError, match="no end of sequence"):
        FullLM().check(Lengths(2, 512), replace(IDS, eos=None))
