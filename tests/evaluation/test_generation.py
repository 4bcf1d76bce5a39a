"""What is written is what the model would have been trained to write."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.evaluation.generation import Generation, decode
from t5x_like.evaluation.likelihood import make_scorer
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text.batches.features import SHIFTED_IN, make_batch
from t5x_like.text.objectives.objective import Example, Lengths

CONFIG = GPT2Config(
    vocab_size=50, model_dim=16, num_heads=2, mlp_dim=32, num_layers=1, max_position_embeddings=16
)
PROMPT = np.array([5, 6, 7], np.int32)


def test_a_decoder_of_ours_reads_before_a_prompt_what_it_was_trained_after() -> None:
    model = CONFIG.build(jax.random.key(0))
    rows = [[Example(targets=np.append(PROMPT, [8]))]]
    trained = make_batch(rows, lengths=Lengths(4, 4), layout="decoder")
    expected = int(jnp.argmax(model(jax.tree.map(jnp.asarray, trained)).logits[0, 3]))
    asked = Batch(
        encoder_input_tokens=jnp.asarray(PROMPT[None]), encoder_segment_ids=jnp.ones((1, 3), jnp.int32)
    )
    written = decode(model, asked, Generation(max_new_tokens=1), eos_token_id=1, prompts_follow=SHIFTED_IN)
    assert written.tolist() == [[expected]]


def test_a_decoder_is_not_asked_how_likely_answers_are_without_their_questions() -> None:
    graphdef, params = parameters.split(CONFIG.build(jax.random.key(0)))
    batch = make_batch([[Example(targets=PROMPT)]], lengths=Lengths(4, 4), layout="decoder")
    with pytest.raises(ValueError, match="by encoder-decoders only, not by a Decoder; use method='generate'"):
        make_scorer(graphdef, MeshConfig().build())(params, jax.tree.map(jnp.asarray, batch))
