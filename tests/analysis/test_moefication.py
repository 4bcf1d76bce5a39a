"""Experts of feed-forward layers: splits of equal sizes, routers, and the loss with some of them."""

import numpy as np
import pytest

from t5x_like.analysis.analysis import rows_of
from t5x_like.analysis.expert_routing import RoutedExperts, routed_loss
from t5x_like.analysis.expert_splits import balanced_clusters, coactivation_clusters, random_clusters
from t5x_like.analysis.language_model_rows import language_model_rows
from t5x_like.analysis.moefication import MoEfication
from tests.analysis.tiny_language_models import TEXTS, bert, gpt2


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"), activation="relu")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return gpt2(tmp_path_factory.mktemp("gpt2"))


def test_clusters_have_equal_sizes_and_what_lies_together():
    rng = np.random.default_rng(0)
    kinds = np.repeat([0, 1, 2], 4)
    points = 10.0 * np.eye(3)[kinds] + rng.normal(size=(12, 3))
    clusters = balanced_clusters(points, 3, rng)
    assert np.bincount(clusters).tolist() == [4, 4, 4]
    uneven = balanced_clusters(np.concatenate([np.zeros((5, 1)), np.ones((1, 1))]), 2, rng)
    assert np.bincount(uneven).tolist() == [3, 3]


def test_neurons_that_are_active_together_are_one_expert():
    kinds = np.array([0, 1, 0, 1, 1, 0])
    counts = np.where(kinds[:, None] == kinds, 20, 1)
    clusters = coactivation_clusters(counts, 2, np.random.default_rng(0))
    assert len({(kind, int(cluster)) for kind, cluster in zip(kinds, clusters, strict=True)}) == 2


def test_random_experts_have_equal_sizes():
    assert np.bincount(random_clusters(12, 4, np.random.default_rng(0))).tolist() == [3, 3, 3, 3]


def test_neurons_that_make_no_equal_experts_are_refused():
    with pytest.raises(ValueError, match="10 neurons can't be split into 3 experts"):
        balanced_clusters(np.zeros((10, 2)), 3, np.random.default_rng(0))


def rows(model):
    return language_model_rows(
        model, TEXTS, batch_size=3, max_length=None, mask_rate=0.3, rng=np.random.default_rng(0)
    )


def test_a_decoders_loss_is_that_of_its_own_call(decoder):
    batches = rows(decoder)
    experts = _experts()
    losses = [decoder(input_ids=ids, labels=ids).loss for ids in _ids(decoder)]
    counts = [ids.shape[1] - 1 for ids in _ids(decoder)]
    assert sum(batch.weights.sum() for batch in batches) == sum(counts)
    expected = np.average(losses, weights=counts)
    assert routed_loss(decoder, batches, experts, "oracle", 4) == pytest.approx(expected, rel=1e-5)


def test_an_encoders_loss_is_that_of_its_masks(encoder):
    (first, second) = rows(encoder)
    assert np.all((first.inputs["input_ids"] == 4) == (first.weights > 0))
    total = 0.0
    for batch in (first, second):
        labels = np.where(batch.weights > 0, batch.targets, -100)
        mask = batch.inputs["segment_ids"]
        loss = encoder(input_ids=batch.inputs["input_ids"], attention_mask=mask, labels=labels).loss
        total += float(loss) * batch.weights.sum()
    count = first.weights.sum() + second.weights.sum()
    loss = routed_loss(encoder, [first, second], _experts(), "centers", 4)
    assert loss == pytest.approx(total / count, rel=1e-5)


def test_the_oracle_of_single_neurons_leaves_out_the_smallest(encoder):
    # With experts of one neuron and ReLU, experts that are left out were 0 as long as as many are kept as are active.
    experts = RoutedExperts(
        np.tile(np.arange(16, dtype=np.int32), (2, 1)),
        np.zeros((2, 16, 12), np.float32),
        np.zeros((2, 13, 16), np.float32),
    )
    name, batches = "encoder/feed_forward/activations", rows(encoder)
    whole = routed_loss(encoder, batches, experts, "oracle", 16)
    active = max(int((encoder.activations(text, [name])[name] > 0).sum(axis=-1).max()) for text in TEXTS)
    assert active < 16
    assert routed_loss(encoder, batches, experts, "oracle", 15) == pytest.approx(whole, rel=1e-5)
    assert abs(routed_loss(encoder, batches, experts, "oracle", 1) - whole) > 1e-3


def test_losses_of_all_splits_and_routers_reach_that_of_the_whole_model(encoder):
    result = MoEfication(expert_size=4, shares=(0.5, 1.0), max_length=8).run(encoder, rows_of(TEXTS))
    settings = result.values["settings"]
    assert len(settings) == 3 * 3 * 2
    assert {each["experts"] for each in settings} == {2, 4}
    whole = [each["relative_loss"] for each in settings if each["share"] == 1.0]
    np.testing.assert_allclose(whole, 1.0, rtol=1e-5)
    assert len({round(each["loss"], 6) for each in settings if each["share"] == 0.5}) > 4
    assert result.values["nonlinearity"] == "relu"
    assert "The paper's models" not in result.tables[0].caption


def test_other_nonlinearities_are_named(decoder):
    options = {"splits": ("random",), "routers": ("learned",), "shares": (0.5,)}
    result = MoEfication(expert_size=8, **options).run(decoder, rows_of(TEXTS))
    assert "its nonlinearity is gelu" in result.tables[0].caption
    assert "The paper's models have ReLU" in result.tables[0].caption


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expert_size": 5}, "expert_size is 5, and layers have 16 neurons; give a divisor"),
        ({"expert_size": 0}, "expert_size is 0"),
        ({"shares": (0.0,)}, r"shares is \(0.0,\)"),
        ({"fitted_share": 1.0}, "fitted_share is 1.0"),
        ({"mask_rate": 0.0}, "mask_rate is 0.0"),
    ],
)
def test_options_that_do_not_fit_are_refused(encoder, options, message):
    with pytest.raises(ValueError, match=message):
        MoEfication(**options).run(encoder, rows_of(TEXTS))


def test_one_text_is_too_few(encoder):
    with pytest.raises(ValueError, match="fitted on some texts and measured on others"):
        MoEfication(expert_size=4).run(encoder, rows_of(TEXTS[:1]))


def _experts():
    count = 4
    of_neurons = np.arange(16, dtype=np.int32) % count
    return RoutedExperts(
        np.stack([of_neurons] * 2),
        np.zeros((2, count, 12), np.float32),
        np.zeros((2, 13, count), np.float32),
    )


def _ids(model):
    return [model.encode(text)["input_ids"] for text in TEXTS]
