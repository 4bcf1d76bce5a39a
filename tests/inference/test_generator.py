"""What is written is what the model would have been trained to write; likelihoods are the model's own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.inference import scorer
from t5x_like.inference.generator import GenerationConfig, Generator
from t5x_like.inference.scorer import LikelihoodRequest, Scorer, scoring_batch
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text.batches.batch_layout import SHIFTED_IN, BatchLayout
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths
from tests.slow_cases import slow_except

GPT2 = GPT2Config(
    vocab_size=50, model_dim=16, num_heads=2, mlp_dim=32, num_layers=1, max_position_embeddings=16
)
T5 = T5Config(
    vocab_size=50,
    model_dim=16,
    mlp_dim=32,
    num_heads=2,
    head_dim=8,
    num_encoder_layers=1,
    num_decoder_layers=1,
)
CONFIGS = {"decoder": GPT2, "encoder_decoder": T5}
PROMPT = np.array([5, 6, 7], np.int32)


def built(which):
    model = CONFIGS[which].build(jax.random.key(0))
    return model, *parameters.split(model)


def generator(graphdef, which):
    """A function that returns the texts in the order of the prompts."""
    generate = Generator(graphdef, MeshConfig().build(), is_decoder=which == "decoder")
    return lambda *args, **settings: [ids for _, ids in sorted(generate(*args, **settings))]


def test_a_decoder_of_ours_reads_before_a_prompt_what_it_was_trained_after() -> None:
    model, graphdef, params = built("decoder")
    rows = [[Example(targets=np.append(PROMPT, [8]))]]
    trained = BatchLayout(ExampleSpec("decoder"), Lengths(4, 4)).batch(rows)
    expected = int(jnp.argmax(model(jax.tree.map(jnp.asarray, trained)).logits[0, 3]))
    written = generator(graphdef, "decoder")(
        params,
        [[SHIFTED_IN, *PROMPT.tolist()]],
        GenerationConfig(max_new_tokens=1),
        end_ids=(),
        batch_size=8,
        limit=8,
    )
    assert written == [[expected]]


@pytest.mark.parametrize("which", slow_except(CONFIGS, ("encoder_decoder",)))
def test_a_prompt_is_continued_alike_whatever_is_beside_it_and_until_an_end(which: str) -> None:
    _, graphdef, params = built(which)
    generate = generator(graphdef, which)
    settings = {"batch_size": 8, "limit": 8}
    config = GenerationConfig(max_new_tokens=4)
    (alone,) = generate(params, [PROMPT], config, end_ids=(), **settings)
    together = generate(params, [[9, 10, 11, 12, 13], PROMPT, [4]], config, end_ids=(), **settings)
    assert together[1] == alone
    assert [len(row) for row in together] == [4, 4, 4]
    end = alone[-1]
    (ended,) = generate(params, [PROMPT], config, end_ids=(49, end), **settings)
    assert ended == alone[: alone.index(end)]


@pytest.mark.parametrize("which", CONFIGS)
@pytest.mark.parametrize("num_beams", slow_except([1, 2], [2]))
def test_what_is_written_greedily_is_scored_as_greedy(which: str, num_beams: int) -> None:
    _, graphdef, params = built(which)
    config = GenerationConfig(max_new_tokens=3, num_beams=num_beams)
    settings = {"batch_size": 8, "limit": 8}
    (written,) = generator(graphdef, which)(params, [PROMPT], config, end_ids=(), **settings)
    requests = [LikelihoodRequest(PROMPT, written), LikelihoodRequest(PROMPT, [*written[:-1], 1])]
    batch = scoring_batch(requests, is_decoder=which == "decoder", start_id=0, **settings)
    result = Scorer(graphdef, MeshConfig().build(), vocab_size=50)(params, batch)
    if num_beams == 1:
        assert result.is_greedy.tolist()[:2] == [True, False]
    assert result.log_likelihoods[0] > result.log_likelihoods[1]


@pytest.mark.parametrize("which", CONFIGS)
def test_a_likelihood_is_the_sum_over_the_targets_alone_of_the_real_vocabulary(which: str) -> None:
    model, graphdef, params = built(which)
    target = [8, 9]
    batch = scoring_batch(
        [LikelihoodRequest(PROMPT, target)],
        is_decoder=which == "decoder",
        start_id=0,
        batch_size=8,
        limit=16,
    )
    result = Scorer(graphdef, MeshConfig().build(), vocab_size=20)(params, batch)
    logits = np.asarray(model(jax.tree.map(jnp.asarray, batch)).logits, np.float64)[0, :, :20]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    first = 2 if which == "decoder" else 0  # after the prompt's last token, or the start
    expected = log_probs[first, 8] + log_probs[first + 1, 9]
    np.testing.assert_allclose(result.log_likelihoods[0], expected, rtol=1e-5)


@pytest.mark.parametrize("which", CONFIGS)
def test_likelihoods_are_the_same_however_many_logits_are_computed_at_once(which: str, monkeypatch) -> None:
    _, graphdef, params = built(which)
    batch = scoring_batch(
        [LikelihoodRequest(PROMPT, [8, 9, 3]), LikelihoodRequest(PROMPT, [7] * 8)],
        is_decoder=which == "decoder",
        start_id=0,
        batch_size=8,
        limit=16,
    )
    whole = Scorer(graphdef, MeshConfig().build(), vocab_size=50)(params, batch)
    monkeypatch.setattr(
        scorer, "_LOGITS_AT_ONCE", 3 * 8 * 50
    )  # three positions of each row, which divide no length
    in_chunks = Scorer(graphdef, MeshConfig().build(), vocab_size=50)(params, batch)
    np.testing.assert_allclose(in_chunks.log_likelihoods, whole.log_likelihoods, rtol=1e-6)
    assert in_chunks.is_greedy.tolist() == whole.is_greedy.tolist()


def test_memory_of_scores_does_not_grow_with_the_length(monkeypatch) -> None:
    requests = [LikelihoodRequest(PROMPT, [7] * 13)] * 8
    batch = scoring_batch(requests, is_decoder=True, start_id=0, batch_size=8, limit=16)
    wide = dataclasses.replace(GPT2, vocab_size=5000)
    graphdef, shapes, _ = parameters.abstract(wide)

    def bytes_at_once(num_logits: int) -> int:
        monkeypatch.setattr(scorer, "_LOGITS_AT_ONCE", num_logits)
        score = Scorer(graphdef, MeshConfig().build(jax.devices()[:1]), vocab_size=5000)._score
        return score.lower(shapes, batch).compile().memory_analysis().temp_size_in_bytes

    assert bytes_at_once(2**26) > 5 * bytes_at_once(8 * 5000)


@pytest.mark.parametrize("settings", [{"top_k": 0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_a_truncation_that_keeps_nothing_or_more_than_all_is_refused(settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        GenerationConfig(temperature=1.0, **settings)
