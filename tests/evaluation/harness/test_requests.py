"""What the harness asks for is what the model itself says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.batch import Batch
from t5x_like.evaluation.harness.requests import RequestRunner, rolling_windows, truncate_at_stop
from t5x_like.inference.generator import GenerationConfig
from t5x_like.inference.scorer import LikelihoodRequest
from t5x_like.model import parameters
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.run_weights import was_trained_here

REQUESTS = [
    LikelihoodRequest((5, 6, 7), (8, 9)),
    LikelihoodRequest((11,), (12,)),
    LikelihoodRequest((5, 6, 7), (8, 9)),
    LikelihoodRequest(tuple(range(20, 29)), tuple(range(40, 46))),
    *(LikelihoodRequest((30 + index,), (31,)) for index in range(7)),
]


@functools.cache
def runner_of(directory: str, max_length: int = 32) -> RequestRunner:
    """Compiled once for all tests."""
    return RequestRunner(
        open_checkpoint(directory, mesh=MeshConfig().build()), batch_size=8, max_length=max_length
    )


def by_hand(runner: RequestRunner, request: LikelihoodRequest) -> tuple[float, bool]:
    """One row, nothing padded, straight from the model's logits."""
    model = parameters.merge(runner.checkpoint.graphdef, runner.checkpoint.params)
    continuation = jnp.array([request.target])
    run = jax.jit(lambda batch: model(batch).logits)  # compiled at once, not operation by operation
    if runner.checkpoint.kind == "decoder":
        ids = jnp.array([[*request.prompt, *request.target]])
        logits = run(Batch(decoder_input_tokens=ids[:, :-1]))[:, len(request.prompt) - 1 :]
    else:
        shifted = jnp.array([[runner.checkpoint.special_ids.decoder_start, *request.target[:-1]]])
        batch = Batch(encoder_input_tokens=jnp.array([request.prompt]), decoder_input_tokens=shifted)
        logits = run(batch)
    log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits), continuation[..., None], axis=-1)
    return float(log_probs.sum()), bool((logits.argmax(-1) == continuation).all())


@pytest.mark.parametrize("which", ["decoder", pytest.param("encoder_decoder", marks=pytest.mark.slow)])
def test_likelihoods_are_the_models_own_in_the_order_of_the_requests(which: str, request) -> None:
    runner = runner_of(request.getfixturevalue(which))
    heard = {}
    likelihoods = runner.score(REQUESTS, heard.__setitem__)
    for request, likelihood in list(zip(REQUESTS, likelihoods, strict=True))[:6]:
        expected, greedy = by_hand(runner, request)
        np.testing.assert_allclose(likelihood.log_likelihood, expected, rtol=1e-4)
        assert likelihood.is_greedy == greedy
    assert [heard[index] for index in range(len(REQUESTS))] == likelihoods


@pytest.mark.parametrize("which", ["decoder", pytest.param("encoder_decoder", marks=pytest.mark.slow)])
def test_what_the_model_writes_itself_is_greedy_and_nothing_else_is(which: str, request) -> None:
    runner = runner_of(request.getfixturevalue(which))
    model = parameters.merge(runner.checkpoint.graphdef, runner.checkpoint.params)
    run = jax.jit(lambda batch: model(batch).logits)
    context, written = (5, 6, 7), []
    for _ in range(2):  # the next token is the likeliest of all
        if which == "decoder":
            logits = run(Batch(decoder_input_tokens=jnp.array([[*context, *written]])))
        else:
            start = jnp.array([[0, *written]])
            logits = run(Batch(encoder_input_tokens=jnp.array([context]), decoder_input_tokens=start))
        written.append(int(logits[0, -1].argmax()))
    other = [*written[:-1], (written[-1] + 1) % 4000]
    own, changed = runner.score(
        [LikelihoodRequest(context, tuple(written)), LikelihoodRequest(context, tuple(other))]
    )
    assert own.is_greedy
    assert not changed.is_greedy
    decode = runner.checkpoint.tokenizer.decode
    ends = [place for place, token_id in enumerate(written) if token_id in runner.checkpoint.end_ids]
    expected = decode(written[: ends[0]] if ends else written)
    assert runner.generate([context], GenerationConfig(max_new_tokens=2)) == [expected]


def test_a_context_that_is_too_long_loses_its_beginning(decoder: str) -> None:
    runner = runner_of(decoder)
    long = tuple(range(100, 150))
    (likelihoods,) = runner.score([LikelihoodRequest(long, (7, 8, 9))])
    expected, _ = by_hand(
        runner, LikelihoodRequest(long[-30:], (7, 8, 9))
    )  # 30 and all of the three but the last make 32
    np.testing.assert_allclose(likelihoods.log_likelihood, expected, rtol=1e-4)


def test_a_prompt_that_is_too_long_loses_its_beginning(decoder: str) -> None:
    runner = runner_of(decoder)
    generation = GenerationConfig(max_new_tokens=8)
    long = list(range(100, 150))
    assert runner.generate([long], generation) == runner.generate([long[-24:]], generation)
    with pytest.raises(ValueError, match="32 new tokens leave no room for a prompt among the 32"):
        runner.generate([long], GenerationConfig(max_new_tokens=32))


def test_continuations_that_can_t_be_scored_are_refused(decoder: str) -> None:
    runner = runner_of(decoder)
    with pytest.raises(ValueError, match="a continuation has 33 tokens, the model reads 32"):
        runner.score([LikelihoodRequest((5,), tuple(range(33)))])
    with pytest.raises(ValueError, match="no token of its own"):
        runner.score([LikelihoodRequest((5,), ())])


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_ids_that_the_model_lacks_are_refused(decoder: str, wrong: int) -> None:
    runner = runner_of(decoder)
    for request in (LikelihoodRequest((5, wrong), (8,)), LikelihoodRequest((5,), (wrong,))):
        with pytest.raises(ValueError, match=f"holds {wrong}; the model has the ids 0 …"):
            runner.score([request])
    with pytest.raises(ValueError, match=f"a prompt holds {wrong}"):
        runner.generate([(5, wrong)], GenerationConfig(max_new_tokens=2))


def test_what_is_written_ends_before_the_first_stop(decoder: str) -> None:
    runner = runner_of(decoder)
    generation = GenerationConfig(max_new_tokens=12)
    (whole,) = runner.generate([(5, 6, 7)], generation)
    stop = whole[len(whole) // 2 :][:2]
    (cut,) = runner.generate([(5, 6, 7)], generation, stops=[stop, "never written"])
    assert cut == whole[: whole.index(stop)]
    assert truncate_at_stop("a b c", ["c", "b", ""]) == "a "


def test_a_decoder_that_was_trained_here_reads_what_it_was_trained_after(decoder: str, tmp_path) -> None:
    assert runner_of(decoder).checkpoint.prompt_encoder.prefix_ids == ()  # GPT-2 begins with nothing
    assert not was_trained_here(decoder)
    for name in ("model.json", "config.json"):  # what training writes
        assert not was_trained_here(str(tmp_path))
        (tmp_path / name).write_text("{}")
    assert was_trained_here(str(tmp_path))


@given(st.integers(1, 60), st.integers(1, 12))
def test_rolling_windows_ask_for_every_token_once_with_as_much_before_it_as_fits(
    size: int, max_length: int
) -> None:
    ids = list(range(1000, 1000 + size))
    windows = rolling_windows(ids, prefix=7, max_length=max_length)
    assert [token for window in windows for token in window.target] == ids
    assert windows[0].prompt == (7,)
    for window in windows:
        assert len(window.prompt) + len(window.target) <= max_length + 1
    for window in windows[1:]:  # as long as the model reads, and unbroken
        both = [*window.prompt, *window.target]
        assert len(both) == max_length + 1
        assert both == list(range(both[0], both[0] + len(both)))
