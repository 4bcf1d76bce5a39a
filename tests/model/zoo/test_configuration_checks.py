"""Configurations refuse wrong types and sizes that don't fit together, when they are built."""

import dataclasses
import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from t5x_like.config_class import config_class
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.t5 import T5Config
from tests.model.zoo.tiny_models import TINY
from tests.references import ROOT

SIZES = {"vocab_size": 61, "model_dim": 64, "mlp_dim": 48, "num_heads": 4, "num_layers": 2}

# Whose heads share the width of the model, in the reference implementation too.
SHARING_HEADS = [
    *(
        "albert",
        "bert",
        "distilbert",
        "electra_discriminator",
        "ernie_2_0",
        "roberta",
        "spanbert",
        "modernbert",
    ),
    *("gpt", "gpt2", "gpt_neo", "gpt_neox", "glm_orig", "llama", "mistral", "olmo2", "qwen2"),
]


def test_gpt2_refuses_a_width_that_its_heads_do_not_divide():
    with pytest.raises(ValueError, match="model_dim=64 doesn't divide among num_heads=7; give a multiple"):
        GPT2Config(**SIZES | {"num_heads": 7})


@pytest.mark.parametrize("name", SHARING_HEADS)
def test_heads_divide_the_width_where_the_reference_needs_it(name):
    sizes = {"model_dim": 64, "num_heads": 7} | ({"num_kv_heads": 7} if name in ("llama", "mistral") else {})
    with pytest.raises(ValueError, match="model_dim=64 doesn't divide among num_heads=7"):
        dataclasses.replace(TINY[name], **sizes)


@pytest.mark.parametrize("name", ["t5_1_0", "gpt3", "gemma", "transfo_xl", "xlnet"])
def test_heads_with_a_width_of_their_own_need_not_divide(name):
    assert dataclasses.replace(TINY[name], num_heads=7).num_heads == 7


WRONG = [
    ({"num_heads": "4"}, "BertConfig.num_heads needs an int, got '4' (text); drop the quotes"),
    ({"num_layers": 2.0}, "BertConfig.num_layers needs an int, got 2.0 (a float); write 2"),
    ({"num_layers": True}, "BertConfig.num_layers needs an int, got True (a bool)"),
    ({"dropout_rate": None}, "BertConfig.dropout_rate needs a float, got None"),
    (
        {"classifier_dropout_rate": "0"},
        "BertConfig.classifier_dropout_rate needs a float or None, got '0' (text)",
    ),
    (
        {"compute_dtype": "float16"},
        "BertConfig.compute_dtype needs 'float32' or 'bfloat16', got 'float16' (text)",
    ),
    ({"activation": "geluu"}, "BertConfig.activation needs 'relu', 'gelu', 'gelu_tanh'"),
    ({"task": "classification"}, "BertConfig.task needs 'base', 'encoding', 'masked_lm'"),
]

PROGRAM = """
import json, sys
from t5x_like.model.zoo.bert import BertConfig
for values in json.loads(sys.argv[1]):
    try:
        BertConfig(**values)
        print("accepted")
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize("name", [name for name in TINY if name != "transfo_xl"])  # which has adaptive tables
def test_every_configuration_describes_its_embeddings(name):
    """``generate`` and exports read the longest position and the table's rows there."""
    assert TINY[name].embeddings.vocab_size == TINY[name].vocab_size


def test_wrong_types_are_refused_in_words():
    """In a process of its own: in this one beartype checks the arguments first."""
    cases = json.dumps([SIZES | wrong for wrong, _ in WRONG] + [SIZES | {"dropout_rate": 0}])
    command = [sys.executable, "-c", PROGRAM, cases]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    *refused, accepted = ran.stdout.splitlines()
    assert [line[: len(message)] for line, (_, message) in zip(refused, WRONG, strict=True)] == [
        message for _, message in WRONG
    ]
    assert accepted == "accepted"  # a whole number for a float


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0; give a positive number"),
        ({"vocab_size": -1}, "vocab_size is -1; give a positive number"),
        ({"dropout_rate": 1.0}, "dropout_rate is 1.0; give a probability below 1"),
        ({"classifier_dropout_rate": -0.1}, "classifier_dropout_rate is -0.1; give a probability below 1"),
        ({"task": "causal_lm"}, "this encoder has no head for the task 'causal_lm'"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        BertConfig(**SIZES | wrong)


def test_sizes_of_layers_are_checked_too():
    with pytest.raises(ValueError, match="num_heads=4 can't share num_kv_heads=3"):
        LlamaConfig(**SIZES, num_kv_heads=3)
    with pytest.raises(ValueError, match="rotated_dim is 7; rotations need a positive even number"):
        LlamaConfig(**SIZES, head_dim=7)
    with pytest.raises(ValueError, match="num_buckets=2"):
        T5Config(
            **{name: size for name, size in SIZES.items() if name != "num_layers"},
            head_dim=16,
            num_encoder_layers=1,
            num_decoder_layers=1,
            num_relative_buckets=2,
        )


def test_fields_are_checked_item_by_item():
    @config_class
    class Shape:
        size: int = 1
        sizes: tuple[int, ...] = ()
        pair: tuple[int, str] | None = None

    assert Shape(size=np.int64(2), sizes=[1, 2], pair=(1, "a")).sizes == (1, 2)
    wrong: list[Any] = [{"size": True}, {"sizes": (1, "2")}, {"pair": (1, 2)}, {"pair": (1,)}]
    for values in wrong:
        with pytest.raises(ValueError, match=rf"Shape\.{next(iter(values))} .*needs "):
            Shape(**values)
