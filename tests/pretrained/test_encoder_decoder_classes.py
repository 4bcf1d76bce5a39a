"""Classes of whole sequences by encoder-decoders, from a directory in transformers' form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.batch import Batch
from t5x_like.model.zoo.bart import BartConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

T5 = T5Config(
    vocab_size=16,
    model_dim=8,
    mlp_dim=12,
    num_heads=2,
    head_dim=4,
    num_encoder_layers=1,
    num_decoder_layers=1,
    task="sequence_classification",
    num_labels=3,
)
BART = BartConfig(
    vocab_size=16,
    model_dim=8,
    encoder_mlp_dim=12,
    decoder_mlp_dim=12,
    num_encoder_heads=2,
    num_decoder_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    task="sequence_classification",
    num_labels=3,
)
SPECIAL = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
IDS = np.array([[5, 6, 1, 7, 8, 1], [9, 4, 1, 0, 0, 0]])


@pytest.fixture(scope="module", params=[T5, BART], ids=["T5", "BART"])
def pretrained(request, tmp_path_factory) -> Pretrained:
    """Written and read again."""
    directory = tmp_path_factory.mktemp("classifier") / "model"
    model = Pretrained(Checkpoint.in_memory(request.param.build(jax.random.key(0)), request.param, SPECIAL))
    t5x_like.export_hugging_face(model, directory)
    return t5x_like.from_pretrained(directory)


def test_the_decoder_reads_the_input_and_its_last_end_is_scored(pretrained: Pretrained) -> None:
    answer = pretrained(IDS, attention_mask=(IDS > 0).astype(int), labels=[2, 0])
    batch = Batch(
        encoder_input_tokens=IDS,
        encoder_segment_ids=(IDS > 0).astype(np.int32),
        decoder_input_tokens=np.array([[0, 5, 6, 1, 7, 8], [0, 9, 4, 1, 0, 0]]),
    )
    states = np.asarray(pretrained.model(jax.tree.map(jnp.asarray, batch)).decoder_output)
    np.testing.assert_allclose(answer.decoder_last_hidden_state, states, rtol=1e-5, atol=1e-5)
    hidden = states[[0, 1], [5, 2]]
    head = pretrained.model.heads.scores["sequence_classification"]
    np.testing.assert_allclose(answer.logits, head(jnp.asarray(hidden)), rtol=1e-5, atol=1e-5)
    log_probs = np.asarray(jax.nn.log_softmax(answer.logits))
    np.testing.assert_allclose(answer.loss, -(log_probs[0, 2] + log_probs[1, 0]) / 2, rtol=1e-5)


def test_a_row_without_an_end_is_refused(pretrained: Pretrained) -> None:
    with pytest.raises(ValueError, match="row 1 of input_ids has no end of sequence, id 1"):
        pretrained([[5, 1], [5, 6]])
