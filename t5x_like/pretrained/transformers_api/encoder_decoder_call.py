"""Calls of encoder-decoders: T5's classes and their like."""

from typing import Any

import numpy as np
from jaxtyping import PyTree

from t5x_like.batch import Batch
from t5x_like.index_checks import IGNORED, check_token_ids
from t5x_like.model.layers.stack import StackOutput
from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import SEQUENCE_TASKS
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.call_arguments import check_rows, mask_rows, shift_right, token_rows
from t5x_like.pretrained.transformers_api.head_outputs import choices_as_rows, choices_of, scores_of
from t5x_like.pretrained.transformers_api.label_arguments import read_labels

ARGUMENTS: tuple[str, ...] = (
    "input_ids",
    "attention_mask",
    "decoder_input_ids",
    "decoder_attention_mask",
    "encoder_outputs",
    "labels",
    "start_positions",
    "end_positions",
)


def read(arguments: dict[str, PyTree], context: Context) -> dict[str, PyTree]:
    """Return the checked arguments as numpy arrays by name.

    With ``labels`` alone, the decoder reads them shifted right.
    Under heads on tokens the decoder reads the input again, as in training.

    ``encoder_outputs`` are hidden states [B, M, D], or an earlier answer that has them; then ``input_ids`` are not
    needed.
    """
    if context.config.task in SEQUENCE_TASKS:
        return _read_to_classify(arguments, context)
    vocab_size = context.config.vocab_size
    inputs: dict[str, Any] = {}
    encoded = arguments.get("encoder_outputs")
    if encoded is not None:
        inputs["encoded"] = read_encoded(encoded)
        like = np.zeros(inputs["encoded"].shape[:2], np.int32)
    else:
        like = inputs["input_ids"] = token_rows(arguments["input_ids"], "input_ids", vocab_size)
    if arguments.get("attention_mask") is not None:
        inputs["segment_ids"] = mask_rows(arguments["attention_mask"], "attention_mask", like)
    classifies_tokens = context.config.task in ("question_answering", "token_classification")
    labels = None if classifies_tokens else arguments.get("labels")
    targets = None if labels is None else token_rows(labels, "labels", vocab_size, is_label=True)
    if arguments.get("decoder_input_ids") is not None:
        outputs = token_rows(arguments["decoder_input_ids"], "decoder_input_ids", vocab_size)
    elif targets is not None or (classifies_tokens and "input_ids" in inputs):
        outputs = _shifted(like if targets is None else targets, context)
    else:
        raise ValueError("give decoder_input_ids, or labels to make them from")
    check_rows(like, outputs, targets)
    inputs["decoder_input_ids"] = outputs
    mask = mask_rows(arguments.get("decoder_attention_mask"), "decoder_attention_mask", outputs)
    if mask is not None:
        inputs["decoder_segment_ids"] = mask
    if targets is not None:
        return (
            inputs
            | {"labels": targets}
            | read_labels({**arguments, "labels": None}, context.config, outputs.shape)
        )
    return inputs | read_labels(arguments, context.config, outputs.shape)


def _read_to_classify(arguments: dict[str, PyTree], context: Context) -> dict[str, object]:
    """Read for classification: the decoder reads the input again; its state at the last end of sequence is scored.

    A decoder with ``rereads_all`` needs no end: its state after the last token is scored.
    """
    special = context.special_ids
    arguments, num_choices = choices_as_rows(arguments, context.config)
    ids = token_rows(arguments["input_ids"], "input_ids", context.config.vocab_size)
    shifted = _shifted(ids, context)
    if traits_of(context.config).rereads_all:
        is_read = (shifted != special.fill) | (np.arange(ids.shape[1]) == 0)
        own = {"decoder_segment_ids": is_read.astype(np.int32)}
    else:
        is_end = np.isin(ids, special.end_ids)
        without = np.flatnonzero(~is_end.any(axis=1))
        if without.size:
            raise ValueError(
                f"row {without[0]} of input_ids has no end of sequence, id {special.eos}; the class is read there"
            )
        last = ids.shape[1] - 1 - is_end[:, ::-1].argmax(axis=1)
        own = {"up_to_end": (np.arange(ids.shape[1])[None] <= last[:, None]).astype(np.int32)}
    inputs = {
        "input_ids": ids,
        "decoder_input_ids": shifted,
        **own,
        "segment_ids": mask_rows(arguments.get("attention_mask"), "attention_mask", ids),
        **read_labels(arguments, context.config, ids.shape, num_choices=choices_of(num_choices)),
        **num_choices,
    }
    return {name: value for name, value in inputs.items() if value is not None}


def _shifted(labels: np.ndarray, context: Context) -> np.ndarray:
    special, vocab_size = context.special_ids, context.config.vocab_size
    traits = traits_of(context.config)
    own = traits.decoder_start_token_id
    start = special.decoder_start if own is None else own
    check_token_ids(start, "decoder_start_token_id of config.json", vocab_size)
    if (labels == IGNORED).any():
        check_token_ids(special.fill, "pad_token_id of config.json", vocab_size)
    if not traits.wraps_labels:
        return shift_right(labels, start=start, pad=special.fill)
    num_real = np.sum((labels != IGNORED) & (labels != special.fill), axis=1, keepdims=True)
    last = np.take_along_axis(labels, np.maximum(num_real - 1, 0), axis=1)
    return shift_right(labels, start=last, pad=special.fill)


def read_encoded(encoded: object) -> np.ndarray:
    """Return hidden states of an encoder, given as such or as an earlier answer.

    Raises:
      ValueError: They have another shape.
    """
    states = encoded
    if isinstance(encoded, dict):
        states = encoded.get("encoder_last_hidden_state", encoded.get("last_hidden_state"))
    elif isinstance(encoded, tuple):
        states = encoded[0]
    states = np.asarray(states, np.float32)
    if states.ndim != 3 or not states.size:
        raise ValueError(
            f"encoder_outputs has shape {states.shape}; give hidden states, [batch, length, width]"
        )
    return states


def compute(model: Any, config: CommonConfig, inputs: dict[str, PyTree]) -> dict[str, PyTree]:
    """Return outputs under transformers' names."""
    batch = Batch(
        encoder_input_tokens=inputs.get("input_ids"),
        encoder_segment_ids=inputs.get("segment_ids"),
        decoder_input_tokens=inputs["decoder_input_ids"],
        decoder_segment_ids=inputs.get("decoder_segment_ids"),
    )
    if "encoded" in inputs:
        states = inputs["encoded"].astype(config.compute_dtype)
        encoded = StackOutput(states, None, routing=None)
        predictions = model.decode(batch, encoded)
    else:
        predictions = model(batch)
    outputs = {
        "encoder_last_hidden_state": predictions.encoder_output,
        "decoder_last_hidden_state": predictions.decoder_output,
    }
    if predictions.logits is None and not predictions.heads:
        return outputs | {"last_hidden_state": predictions.decoder_output}
    heads = predictions.heads
    if "up_to_end" in inputs:  # what follows is passed over by the head alone: the decoder has no mask
        words = model.embedding.tokens
        heads = model.heads(predictions.decoder_output, words, inputs["up_to_end"])[2]
    return outputs | scores_of(config, predictions.logits, heads, inputs)
