"""What classifiers read is dropped from where each model's authors do, in training alone."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo import albert, bert, distilbert, electra, ernie, modernbert, roberta, spanbert, xlnet
from t5x_like.model.zoo.model_tasks import classifier_dropout_of

SIZES: dict[str, Any] = {"vocab_size": 16, "model_dim": 8, "mlp_dim": 16, "num_heads": 2, "num_layers": 1}
MODELS: dict[str, Any] = {
    "bert": bert.BertConfig(**SIZES),
    "spanbert": spanbert.SpanBertConfig(**SIZES),
    "ernie": ernie.ErnieConfig(**SIZES),
    "albert": albert.AlbertConfig(**SIZES, embed_dim=4),
    "roberta": roberta.RobertaConfig(**SIZES),
    "electra": electra.ElectraConfig(**SIZES, embed_dim=8),
    "distilbert": distilbert.DistilBertConfig(**SIZES),
    "modernbert": modernbert.ModernBertConfig(**SIZES),
    "xlnet": xlnet.XLNetConfig(**SIZES, head_dim=4),
}
BATCH = Batch(
    encoder_input_tokens=jnp.arange(3, 11)[None].repeat(2, 0),
    encoder_segment_ids=jnp.ones((2, 8), jnp.int32),
    token_types=jnp.zeros((2, 8), jnp.int32),
)
TASKS = ("sequence_classification", "multiple_choice", "token_classification", "question_answering")


def count_draws(program) -> int:
    inner = [getattr(value, "jaxpr", value) for line in program.eqns for value in line.params.values()]
    here = sum(line.primitive.name == "random_bits" for line in program.eqns)
    return here + sum(count_draws(part) for part in inner if hasattr(part, "eqns"))


def scores_of(config, key=None):
    (scores,) = config.build(jax.random.key(0))(BATCH, dropout_key=key).heads.values()
    return np.asarray(scores)


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("bert", (1, 1, 1, 0)),
        ("spanbert", (1, 1, 1, 0)),
        ("ernie", (1, 1, 1, 0)),
        ("albert", (1, 1, 1, 0)),
        ("roberta", (2, 1, 1, 0)),  # before the classifier's dense layer and after it
        ("electra", (2, 1, 1, 0)),
        ("distilbert", (1, 1, 0, 0)),  # classes of tokens and answers have rates of their own
        ("modernbert", (1, 1, 1, 1)),
        ("xlnet", (1, 1, 0, 0)),
    ],
)
def test_heads_drop_out_where_their_authors_have_it(name, draws):
    for task, number in zip(TASKS, draws, strict=True):
        config = replace(MODELS[name], task=task, classifier_dropout_rate=0.5)
        graphdef, shapes, _ = parameters.abstract(config)

        def heads(params, key, graphdef=graphdef):
            return parameters.merge(graphdef, params)(BATCH, dropout_key=key).heads

        program = jax.make_jaxpr(heads)(shapes, jax.random.key(1))
        assert count_draws(program.jaxpr) == number, task


def test_without_a_key_nothing_is_dropped_and_with_one_something_is():
    plain, dropped = (
        replace(MODELS["roberta"], task="sequence_classification", classifier_dropout_rate=rate)
        for rate in (0.0, 0.5)
    )
    np.testing.assert_array_equal(scores_of(dropped), scores_of(plain))
    assert not np.array_equal(scores_of(dropped, jax.random.key(1)), scores_of(plain))


def test_the_rate_is_the_stacks_where_none_is_given():
    config = replace(MODELS["bert"], dropout_rate=0.3)
    assert classifier_dropout_of(config) == 0.3
    assert classifier_dropout_of(replace(config, classifier_dropout_rate=0.0)) == 0.0
    heads = replace(config, task="token_classification").encoder.heads
    assert heads.scores[0].dropout_rate == 0.3


SMALL = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
FILES: dict[str, Any] = {
    "bert": (bert.BERT, {**SMALL, "architectures": ["BertForSequenceClassification"]}),
    "roberta": (roberta.ROBERTA, {**SMALL, "architectures": ["RobertaForSequenceClassification"]}),
    "albert": (albert.ALBERT, {**SMALL, "architectures": ["AlbertForSequenceClassification"]}),
    "electra": (electra.ELECTRA, {**SMALL, "architectures": ["ElectraForMultipleChoice"]}),
    "xlnet": (
        xlnet.XLNET,
        {"d_model": 8, "d_inner": 16, "n_head": 2, "n_layer": 1}
        | {"architectures": ["XLNetForSequenceClassification"]},
    ),
    "distilbert": (
        distilbert.DISTILBERT,
        {"dim": 8, "hidden_dim": 16, "n_heads": 2, "n_layers": 1}
        | {"architectures": ["DistilBertForSequenceClassification"]},
    ),
}


@pytest.mark.parametrize(
    ("name", "fields", "rate"),
    [
        ("bert", {}, 0.1),
        ("bert", {"hidden_dropout_prob": 0.2}, 0.2),
        ("bert", {"classifier_dropout": None}, 0.1),
        ("bert", {"classifier_dropout": 0, "hidden_dropout_prob": 0.2}, 0.0),
        ("roberta", {"classifier_dropout": 0.25}, 0.25),
        ("albert", {}, 0.1),
        ("albert", {"classifier_dropout_prob": 0.3, "hidden_dropout_prob": 0.0}, 0.3),
        ("electra", {"summary_last_dropout": 0.4}, 0.4),
        ("electra", {"classifier_dropout": 0.4}, 0.1),  # says nothing of choices
        ("xlnet", {"summary_last_dropout": 0.3}, 0.3),
        ("distilbert", {}, 0.2),
        ("distilbert", {"seq_classif_dropout": 0.3}, 0.3),
    ],
)
def test_a_config_json_says_how_much_and_is_written_so(name, fields, rate):
    zoo, rates = FILES[name]
    config = zoo.from_hugging_face({"vocab_size": 16, "model_type": name, **rates, **fields})
    assert classifier_dropout_of(config) == rate
    assert classifier_dropout_of(zoo.from_hugging_face(zoo.to_hugging_face(config))) == rate
