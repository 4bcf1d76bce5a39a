"""Patterns select weights by path, and layers of stacked weights by number."""

import numpy as np
import pytest

from t5x_like.ancestors.zoo.awd_lstm import AWDLSTMConfig
from t5x_like.model import parameters
from t5x_like.model.zoo.albert import AlbertConfig
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.xlnet import XLNetConfig
from t5x_like.optimizers.parameter_groups import LayerDecay, rate_factors
from t5x_like.training.unfreezing import GradualUnfreezing
from t5x_like.weight_patterns import combine, invert, layer_numbers, present_path, select, within

SIZES = {"vocab_size": 16, "model_dim": 16, "mlp_dim": 32, "num_heads": 2}
BERT = BertConfig(**SIZES, num_layers=3, max_position_embeddings=16, task="sequence_classification")
ROWS = {
    "encoder/layers/0/up/kernel": 1,  # a layer before the pattern
    "encoder/layers/1/up/kernel": 2,
    "encoder/layers/2/up/kernel": 2,
    "stack/layers/up/kernel": 3,  # without slots
    "heads/bias": 0,
}


def chosen(*patterns: str, rows=ROWS) -> dict:
    return {path: result for path, result in select(patterns, rows, option="trainable").items() if result}


def shapes_of(config):
    return parameters.abstract(config)[1]


def test_recurrent_layers_which_are_not_stacked_are_layers():
    config = AWDLSTMConfig(vocab_size=16, model_dim=8, hidden_dim=12, num_layers=3)
    shapes = shapes_of(config)
    kernels = [f"rnn/layers/{layer}/forward/input/kernel" for layer in range(3)]
    rows = parameters.num_rows(shapes)
    assert [layer_numbers(rows)[path] for path in kernels] == [(0,), (1,), (2,)]
    assert [path for path in kernels if chosen("rnn/layers[-2:]/*", rows=rows).get(path)] == kernels[1:]
    factors = parameters.flatten(rate_factors(shapes, LayerDecay(factor=0.5, last_layer_power=1), ()))
    assert [factors[path].item() for path in kernels] == [0.125, 0.25, 0.5]
    assert factors["embedding/tokens/table"].item() == 0.0625
    everything = dict.fromkeys(parameters.flatten(shapes), True)
    thawed = GradualUnfreezing(every_steps=1).stages(shapes, everything, total_steps=9)
    groups = [{path.split("/forward")[0] for path, rows in stage.group.items() if rows} for stage in thawed]
    assert groups[1:] == [{f"rnn/layers/{layer}"} for layer in (2, 1, 0)] + [{"embedding/tokens/table"}]


def test_slots_take_turns_after_the_leading_layers():
    assert layer_numbers(ROWS) == {
        "encoder/layers/0/up/kernel": (0,),
        "encoder/layers/1/up/kernel": (1, 3),
        "encoder/layers/2/up/kernel": (2, 4),
        "stack/layers/up/kernel": (0, 1, 2),
    }


def test_numbers_count_the_layers_of_the_whole_stack():
    assert chosen("encoder/layers[-2:]/*") == {
        "encoder/layers/1/up/kernel": (False, True),
        "encoder/layers/2/up/kernel": (False, True),
    }
    assert chosen("*/layers[0]/*") == {
        "encoder/layers/0/up/kernel": True,
        "stack/layers/up/kernel": (True, False, False),
    }
    assert chosen("stack/layers[-9:1]/up/*", "heads/*") == {
        "stack/layers/up/kernel": (True, False, False),
        "heads/bias": True,
    }
    assert chosen("encoder/layers[:]/*") == chosen("encoder/layers/*") == chosen("encoder/*")


@pytest.mark.parametrize(
    ("config", "stack"),
    [
        (BERT, "encoder/layers"),
        (ModernBertConfig(**SIZES, num_layers=6, task="sequence_classification"), "encoder/layers"),
        (XLNetConfig(**SIZES, head_dim=8, num_layers=3), "stack/layers"),
        (AlbertConfig(**SIZES, num_layers=3), "encoder/layers"),
    ],
)
def test_every_stack_has_each_of_its_layers_once(config, stack):
    rows = parameters.num_rows(shapes_of(config))
    numbers = layer_numbers(rows)
    kernels = [numbers[path] for path in numbers if path.endswith("attention/query/kernel")]
    total = 1 if isinstance(config, AlbertConfig) else config.num_layers
    assert sorted(np.concatenate(kernels).tolist()) == list(range(total))
    last = chosen(f"{stack}[-1]/*", rows=rows)
    assert sum(np.sum(result) for path, result in last.items() if path.endswith("query/kernel")) == 1


def test_published_choices_can_be_written():
    rows = parameters.num_rows(shapes_of(BERT))
    biases = chosen("*/bias", "heads/*", rows=rows)
    assert {path for path in biases if not path.startswith("heads/")} == {
        path for path in rows if path.endswith("/bias") and not path.startswith("heads/")
    }
    norms = chosen("*_residual/*", "*norm/*", rows=rows)
    assert {path.rpartition("/")[0].rpartition("/")[2] for path in norms} == {"final", "norm"}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            "head/*",
            r"'head/\*' matches no weight .* the nearest are heads/\*, .* begin with encoder/layers, .*heads/",
        ),
        ("encoder/layers/*/kernels", "the nearest are .*encoder/layers/0/up/kernel"),
        ("encoder/layers[5]/*", "layers are counted from 0, and encoder/layers has 5, stack/layers has 3"),
        ("encoder/layers[1]/1/up/*", r"have no slot; the nearest are encoder/layers/up/\*"),
    ],
)
def test_a_pattern_that_matches_nothing_names_the_nearest_paths(pattern, message):
    with pytest.raises(ValueError, match=message):
        chosen(pattern)


def test_selections_are_joined_and_inverted():
    last = select(("stack/layers[-1]/*", "heads/*"), ROWS, option="trainable")
    upper = select(("stack/layers[-2:]/*",), ROWS, option="trainable")
    assert combine(last, upper)["stack/layers/up/kernel"] == (False, False, True)
    assert combine(last, upper, keep="any")["stack/layers/up/kernel"] == (False, True, True)
    assert combine(last, invert(last), keep="any") == dict.fromkeys(ROWS, True)
    assert within(last, upper) == {"stack/layers/up/kernel": (False, True)}


@pytest.mark.parametrize("patterns", [("*/layers[-2:]/*",), ("*/layers[1]/*", "heads/*"), ("*",)])
def test_parts_are_joined_to_the_whole(patterns):
    draw = np.random.default_rng(0)
    params = parameters.unflatten(
        {path: draw.normal(size=(rows or 1, 2)).astype(np.float32) for path, rows in ROWS.items()}
    )
    selection = parameters.select(params, patterns)
    selected, others = parameters.partition(params, selection)
    result = parameters.flatten(parameters.combine(selected, others, selection))
    for path, leaf in parameters.flatten(params).items():
        np.testing.assert_array_equal(result[path], leaf)
    sizes = [
        sum(leaf.size for leaf in parameters.flatten(part).values()) for part in (selected, others, params)
    ]
    assert sizes[0] + sizes[1] == sizes[2]


def test_patterns_with_an_output_layers_earlier_name_select_it():
    rows = dict.fromkeys(("heads/lm_head/bias", "heads/pooler/bias", "decoder/words/bias"), 0)
    for pattern in ("heads/words/*", "heads/lm_head/*", "heads/words/bias"):
        assert chosen(pattern, rows=rows) == {"heads/lm_head/bias": True}
    assert present_path("params/heads/words/bias") == "params/heads/lm_head/bias"
    assert present_path("generator_heads/words/bias") == "generator_heads/lm_head/bias"
    assert present_path("my_heads/words/bias") == "my_heads/words/bias"
