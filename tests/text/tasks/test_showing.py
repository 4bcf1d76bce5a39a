"""Display of pretraining examples of any objective."""

import pytest

from t5x_like.text import registry
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.objectives.sentence_pairs import SentencePairs
from t5x_like.text.seqio_bridge import task_examples
from t5x_like.text.tasks.pretraining import PretrainingTask

LINE = "In the beginning was the word. And the word was there. It was good."


@pytest.fixture
def shown(tmp_path):
    def show(objective, *, inputs_length=48, targets_length=48):
        (tmp_path / "corpus.txt").write_text(f"{LINE}\n" * 5)
        name = f"shown_{type(objective).__name__}"
        files = {"train": str(tmp_path / "corpus.txt")}
        registry.register([PretrainingTask(name=name, vocabulary="bytes", files=files, objective=objective)])
        lengths = {"inputs_length": inputs_length, "targets_length": targets_length}
        return task_examples.show(registry.resolve(name), 1, **lengths)[0]

    return show


def test_an_encoders_targets_are_shown_whole_whatever_the_decoders_limit(shown):
    example = shown(MaskedLM(), inputs_length=48, targets_length=8)
    assert len(example.target_ids) == len(example.input_ids) == 48
    assert LINE[:40] in example.targets
    predicted = [
        piece
        for piece, weight in zip(example.target_pieces, example.extra_features["weights"], strict=True)
        if weight
    ]
    assert 0 < len(predicted) < 12


def test_text_continues_after_an_end_of_sequence(shown):
    example = shown(CausalLM(), targets_length=100)
    assert example.inputs.startswith(f"</s>{LINE}</s>In the")
    assert example.targets.startswith(f"{LINE}</s>In the")


def test_whether_tokens_were_replaced_is_not_read_as_text(shown):
    example = shown(ReplacedTokenDetection())
    assert set(example.target_pieces) == {"0", "1"}
    assert example.targets == ""


def test_segments_and_labels_are_shown_too(shown):
    example = shown(SentencePairs())
    assert set(example.extra_features["token_types"]) == {0.0, 1.0}
    assert example.extra_features["label"] in ([0.0], [1.0])
