"""DeBERTa v2 and v3: every trait matters, and no field of a config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder import Encoder, EncoderConfig
from t5x_like.model.layers.disentangled_attention import DistanceTerms
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.zoo.deberta_v2 import DEBERTA_V2, DebertaV2Config
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden
from tests.references import FIXTURES

SIZE: dict[str, Any] = {"vocab_size": 8, "model_dim": 16, "mlp_dim": 24, "num_heads": 2, "num_layers": 2}
FIELDS: dict[str, Any] = {
    "model_type": "deberta-v2",
    "vocab_size": 8,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
}


@pytest.fixture(scope="module")
def words() -> GoldenModel:
    return read_golden(FIXTURES / "models/deberta_v2_mlm", DEBERTA_V2, lambda config: config.encoder)


@pytest.fixture(scope="module")
def classes() -> GoldenModel:
    return read_golden(FIXTURES / "models/deberta_v2_seqcls", DEBERTA_V2, lambda config: config.encoder)


def difference(model: GoldenModel, family: EncoderConfig) -> float:
    """The largest error of any recorded score at a real token."""
    shapes = jax.eval_shape(lambda key: Encoder(family, key=key), jax.random.key(0))
    recorded = model.recorded
    batch = Batch(
        encoder_input_tokens=recorded["in_input_ids"],
        encoder_segment_ids=recorded["in_attention_mask"],
        token_types=recorded.get("in_token_type_ids"),
    )
    predictions = parameters.merge(parameters.split(shapes)[0], model.params)(
        jax.tree.map(jnp.asarray, batch)
    )
    wanted = recorded["out_logits"]
    if predictions.logits is None:
        assert predictions.heads is not None
        return float(np.abs(predictions.heads["sequence_classification"] - wanted).max())
    scores = np.asarray(predictions.logits)[..., : family.embeddings.vocab_size]
    return float(np.abs(scores - wanted)[recorded["in_attention_mask"] == 1].max())


def with_blocks(family: EncoderConfig, change: Callable[[Any], Any]) -> EncoderConfig:
    blocks = tuple(map(change, family.stack.blocks))
    return dataclasses.replace(family, stack=dataclasses.replace(family.stack, blocks=blocks))


def with_attention(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    return with_blocks(
        family,
        lambda block: dataclasses.replace(block, attention=dataclasses.replace(block.attention, **changes)),
    )


def with_distances(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    distances: Any = dataclasses.replace(family.stack.relative_positions, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return dataclasses.replace(family, stack=dataclasses.replace(family.stack, relative_positions=distances))


def with_convolution(family: EncoderConfig, **changes: Any) -> EncoderConfig:
    def change(block: Any) -> Any:
        convolution = block.convolution
        changed = convolution and dataclasses.replace(convolution, **changes)
        return dataclasses.replace(block, convolution=changed)

    return with_blocks(family, change)


def test_unchanged_traits_give_the_recorded_scores(words: GoldenModel, classes: GoldenModel) -> None:
    assert difference(words, words.family) < 5e-5
    assert difference(classes, classes.family) < 5e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, positions=DistanceTerms(terms=("c2p",))),
        lambda family: with_attention(family, positions=DistanceTerms(terms=("p2c",))),
        lambda family: with_attention(family, attention_scale=0.5),
        lambda family: with_distances(family, max_distance=8),
        lambda family: with_distances(family, norm=LayerNormConfig(epsilon=0.1)),
        lambda family: with_convolution(family, activation="tanh"),
        lambda family: dataclasses.replace(
            family, embeddings=dataclasses.replace(family.embeddings, norm=LayerNormConfig(epsilon=0.1))
        ),
    ],
    ids=[
        *("no keys to distances", "no queries to distances", "another scale", "nearer buckets"),
        *("epsilon of distances", "tanh", "epsilon of words"),
    ],
)
def test_every_trait_matters(words: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert difference(words, change(words.family)) > 5e-4


def test_distances_are_clipped(classes: GoldenModel) -> None:
    # Each way, the table has as many rows; the outermost ones get other distances.
    changed = with_distances(classes.family, max_distance=9, num_buckets=5)
    assert difference(classes, changed) > 5e-4


def test_defaults_of_transformers_have_no_distances() -> None:
    config = DEBERTA_V2.from_hugging_face(FIELDS)
    assert config == DebertaV2Config(
        **SIZE,
        task="base",
        dropout_rate=0.1,
        position_biased_input=True,
        relative_attention=False,
        pos_att_type=(),
        share_att_key=True,
    )


@pytest.mark.parametrize(
    ("names", "terms"),
    [
        ("p2c|c2p", ("c2p", "p2c")),
        ("C2P", ("c2p",)),
        (["p2c"], ("p2c",)),
        ("none", ()),
        ([], ()),
        (["p2c", "c2p"], ("c2p", "p2c")),
    ],
)
def test_terms_are_read_in_both_forms(names: object, terms: tuple[str, ...]) -> None:
    assert DEBERTA_V2.from_hugging_face(FIELDS | {"pos_att_type": names}).pos_att_type == terms


CHANGES: list[dict[str, Any]] = [
    {},
    {"share_att_key": False, "pos_att_type": ("p2c",), "position_buckets": None},
    {"share_att_key": False, "norm_rel_ebd": "none", "max_relative_positions": 7, "position_buckets": 4},
    {"pos_att_type": (), "position_biased_input": True, "num_token_types": 2},
    {"relative_attention": False, "position_biased_input": True},
    {"conv_kernel_size": 3, "conv_groups": 2, "conv_activation": "gelu", "num_layers": 1},
    {"embed_dim": 8, "task": "token_classification", "num_labels": 5},
    {"tie_word_embeddings": False, "embed_dim": 8},
    {"task": "multiple_choice", "pooler_activation": "tanh", "pooler_dropout_rate": 0.25},
    {"task": "question_answering"},
]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: " ".join(changes) or "none")
def test_an_export_says_all_and_names_all_weights(changes: dict[str, Any]) -> None:
    options: dict[str, Any] = {**SIZE, "classifier_dropout_rate": 0.5, **changes}
    config = DebertaV2Config(**options)
    assert DEBERTA_V2.from_hugging_face(DEBERTA_V2.to_hugging_face(config)) == config
    named = {path for row in DEBERTA_V2.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


def test_the_newer_head_of_words_is_tied() -> None:
    fields = FIELDS | {"architectures": ["DebertaV2ForMaskedLM"], "tie_word_embeddings": False}
    assert not DEBERTA_V2.from_hugging_face(fields).tie_word_embeddings
    assert DEBERTA_V2.from_hugging_face(fields | {"legacy": False}).tie_word_embeddings


def test_a_head_of_words_is_read_under_both_names(words: GoldenModel) -> None:
    config = DEBERTA_V2.from_hugging_face(fields_of(FIXTURES / "models/deberta_v2_mlm"))
    rows = [row for row in DEBERTA_V2.hugging_face_weights(config) if row.paths[0].startswith("heads/")]
    newer = {name for row in rows for name in row.copies if name.startswith("lm_predictions")}
    names = ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias", "bias")
    assert newer == {f"lm_predictions.lm_head.{name}" for name in names}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pos_att_type": ["p2p"]}, "pos_att_type has 'p2p'; c2p and p2c are supported"),
        ({"pooler_hidden_size": 8}, "pooler_hidden_size is 8; only 16 is supported"),
        ({"attention_head_size": 4}, "attention_head_size is 4; only 8 is supported"),
        ({"conv_kernel_size": 2}, "a convolution over 2 tokens has no middle"),
        ({"conv_kernel_size": 3, "conv_groups": 3}, "model_dim=16 doesn't divide among num_groups=3"),
        ({"relative_attention": True, "position_buckets": 1}, "num_buckets=1 with max_distance=512"),
        ({"num_attention_heads": 3}, "model_dim=16 doesn't divide among num_heads=3"),
        ({"architectures": ["DebertaV2ForCausalLM"]}, "no head for DebertaV2ForCausalLM"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DEBERTA_V2.from_hugging_face(FIELDS | wrong).build(jax.random.key(0))


@pytest.mark.parametrize(
    "unused",
    [
        {"relative_attention": False, "position_buckets": 4},
        {"pos_att_type": (), "share_att_key": False},
        {"conv_activation": "gelu"},
    ],
)
def test_an_option_of_what_the_model_lacks_is_refused(unused: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has no effect"):
        DebertaV2Config(**SIZE | unused)


def test_a_convolution_cant_read_token_by_token() -> None:
    config = DebertaV2Config(**SIZE, conv_kernel_size=3)
    model = config.build(jax.random.key(0))
    with pytest.raises(ValueError, match="needs whole texts"):
        model.start_cache(jnp.array([[1, 2]]), max_new_tokens=2, mask_id=3)
