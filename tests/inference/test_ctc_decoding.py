"""Joint decoding with CTC against sums over all alignments and all texts."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.audio.recording import Recording
from t5x_like.batch import WAVEFORM_LENGTHS, WAVEFORMS
from t5x_like.inference.beam_search import PowerLengthPenalty
from t5x_like.inference.ctc_decoding import (
    CtcPrefixes,
    JointCtc,
    JointCtcDecoder,
    best_alignment,
    frame_log_probs,
)
from t5x_like.inference.generator import GenerationConfig, Generator, continue_prompts
from t5x_like.model import parameters
from t5x_like.model.families.family import can_decode
from t5x_like.model.families.speech_encoder_decoder import (
    CTC,
    SpeechEncoderDecoder,
    speech_batch,
    waveform_batch,
)
from t5x_like.model.layers.spec_augment import SpecAugmentConfig
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.partitioning.mesh import MeshConfig

START, END, BLANK = 2, 2, 4
LABELS = (0, 1, 3)
SAMPLES = (66, 45)  # of which there are 5 and 3 frames
LIMIT = 3
TINY = SpeechT5Config(
    vocab_size=5,
    model_dim=8,
    encoder_mlp_dim=8,
    decoder_mlp_dim=8,
    num_encoder_heads=2,
    num_decoder_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    conv_channels=(6, 6),
    conv_kernel_sizes=(10, 4),
    conv_strides=(5, 2),
    position_kernel_size=4,
    position_groups=2,
    augment=SpecAugmentConfig(enabled=False),
    has_ctc_head=True,
    pad_token_id=BLANK,  # texts have no padding: its positions are counted in another way by the decoder's steps
    tie_word_embeddings=False,
)


@functools.cache
def model(has_ctc_head: bool = True) -> SpeechEncoderDecoder:
    config = TINY if has_ctc_head else SpeechT5Config(**{**vars(TINY), "has_ctc_head": False})
    built = config.parts.build(jax.random.key(3))
    lm_head = built.heads.lm_head
    assert lm_head is not None
    assert lm_head.projection is not None
    kernels = [lm_head.projection.kernel]
    if has_ctc_head:
        kernels.append(built.heads.scores[CTC].projection.kernel)
    for kernel in kernels:
        kernel[...] *= 3.0  # so that texts differ in likelihood
    return built


@functools.cache
def speech() -> tuple[np.ndarray, np.ndarray]:
    mask = (np.arange(max(SAMPLES)) < np.array(SAMPLES)[:, None]).astype(np.int32)
    return (np.random.default_rng(0).normal(size=mask.shape) * mask).astype(np.float32), mask


@functools.cache
def frames() -> list[np.ndarray]:
    """Log-probabilities of the real frames of each row."""
    encoded = model().encode(waveform_batch(*map(jnp.asarray, speech())))
    counts = np.asarray(encoded.segment_ids).sum(axis=1)
    assert counts.tolist() == [5, 3]
    return [
        np.asarray(row)[:count] for row, count in zip(frame_log_probs(model(), encoded), counts, strict=True)
    ]


def alignments(log_probs: np.ndarray) -> Iterator[tuple[tuple[int, ...], float]]:
    """All texts of a row with the log-probability of one of their alignments."""
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        text = tuple(each for each, _ in itertools.groupby(path) if each != BLANK)
        yield text, sum(frame[each] for frame, each in zip(log_probs, path, strict=True))


@functools.cache
def ctc_log_prob(row: int, text: tuple[int, ...], *, whole: bool) -> float:
    """Log-probability of a text, or of all texts that begin with it."""
    chosen = [score for other, score in _alignments(row) if (other if whole else other[: len(text)]) == text]
    return float(np.logaddexp.reduce(chosen)) if chosen else -np.inf


@functools.cache
def _alignments(row: int) -> list[tuple[tuple[int, ...], float]]:
    return list(alignments(frames()[row]))


@functools.cache
def decoder_log_probs(read: tuple[int, ...]) -> np.ndarray:
    """Log-probabilities of the next token of both rows."""
    waveforms, mask = speech()
    tokens = np.array([[START, *read, *[0] * (LIMIT - len(read))]] * 2)
    return np.asarray(_logits()(waveforms, mask.sum(axis=1), tokens))[:, len(read)]


@functools.cache
def _logits() -> Callable[..., jax.Array]:
    @jax.jit
    def logits(waveforms: jax.Array, lengths: jax.Array, tokens: jax.Array) -> jax.Array:
        streams = {WAVEFORMS: waveforms, WAVEFORM_LENGTHS: lengths}
        computed = model()(speech_batch(streams, decoder_input_tokens=tokens)).logits
        assert isinstance(computed, jax.Array)
        return jax.nn.log_softmax(computed[..., : TINY.vocab_size])

    return logits


def every_text(row: int, weight: float) -> list[tuple[tuple[int, ...], float]]:
    """All texts that end or reach the limit, with their scores, best first."""
    texts = [
        text
        for length in range(LIMIT + 1)
        for labels in itertools.product(LABELS, repeat=length)
        for text in ([labels] if length == LIMIT else [(*labels, END)])
    ]
    scored = {}
    for text in texts:
        ends = text[-1] == END
        of_decoder = sum(decoder_log_probs(text[:place])[row, each] for place, each in enumerate(text))
        of_ctc = ctc_log_prob(row, text[:-1] if ends else text, whole=ends)
        scored[text] = float((1 - weight) * of_decoder + weight * of_ctc)
    return sorted(scored.items(), key=lambda item: -item[1])


def search(
    weight: float | None, num_beams: int, *, num_last_inputs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    decoder = model()
    if weight is not None:
        decoder = JointCtcDecoder(decoder, JointCtc(weight=weight, end_ids=(END,)))

    def run(waveforms: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        settings: dict[str, Any] = {"max_new_tokens": LIMIT, "eos_token_id": (END,), "pad_token_id": 1}
        if num_beams > 1:
            settings |= {
                "num_beams": num_beams,
                "length_penalty": PowerLengthPenalty(0.0),
                "num_return_sequences": num_beams,
            }
        return continue_prompts(
            decoder, waveforms, mask, None, start_id=START, settings=settings, num_last_inputs=num_last_inputs
        )

    tokens, scores = jax.jit(run)(*speech())
    return np.asarray(tokens), np.asarray(scores)


def until_end(tokens: np.ndarray) -> tuple[int, ...]:
    ids = tokens.tolist()
    return tuple(ids[: ids.index(END) + 1] if END in ids else ids)


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_enough_beams_find_the_best_of_all_texts_with_their_scores(weight: float) -> None:
    tokens, scores = search(weight, 32)
    for row in range(2):
        best = every_text(row, weight)[:8]
        assert best[-1][1] > -1e3
        assert [until_end(each) for each in tokens[row][:8]] == [text for text, _ in best]
        np.testing.assert_allclose(scores[row][:8], [score for _, score in best], atol=1e-4)


def test_both_parts_matter() -> None:
    best = [every_text(0, weight)[0][0] for weight in (0.0, 0.3, 1.0)]
    assert len(set(best)) > 1


def test_probabilities_of_prefixes_sum_over_all_alignments() -> None:
    random = np.random.default_rng(1)
    log_probs = np.asarray(jax.nn.log_softmax(random.normal(size=(5, 5)) * 2)).astype(np.float32)
    paths = list(alignments(log_probs))

    def wanted(text: tuple[int, ...], *, whole: bool) -> float:
        scores = [score for other, score in paths if (other if whole else other[: len(text)]) == text]
        return float(np.logaddexp.reduce(scores))

    ends = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.asarray(log_probs)[:, BLANK])])
    empty = CtcPrefixes(
        forward=jnp.stack([jnp.full(6, -1e10), ends], axis=-1)[None],
        log_prob=jnp.zeros(1),
        last=jnp.array([-1]),
    )
    for text in [(0,), (0, 0), (0, 3, 3), (1, 0, 1)]:
        prefix = empty
        for label in text:
            prefix = prefix.extend(jnp.asarray(log_probs)[None], jnp.array([label]), blank_id=BLANK)
        assert float(prefix.log_prob[0]) == pytest.approx(wanted(text, whole=False), abs=1e-4)
        assert float(prefix.whole[0]) == pytest.approx(wanted(text, whole=True), abs=1e-4)
        following = prefix.next_log_probs(jnp.asarray(log_probs)[None], blank_id=BLANK, end_ids=(END,))[0]
        for label in LABELS:
            longer = (*text, label)
            if any(other[: len(longer)] == longer for other, _ in paths):
                score = float(following[label] + prefix.log_prob[0])
                assert score == pytest.approx(wanted(longer, whole=False), abs=1e-4)
        ends_here = float(following[END] + prefix.log_prob[0])
        assert ends_here == pytest.approx(wanted(text, whole=True), abs=1e-4)
        assert float(following[BLANK]) < -1e9


def test_a_text_needs_as_many_frames_as_labels_and_blanks_between_repeats() -> None:
    log_probs = jnp.log(jnp.full((1, 2, 5), 0.2))
    blanks = jnp.log(0.2) * jnp.arange(3)
    prefix = CtcPrefixes(
        forward=jnp.stack([jnp.full(3, -1e10), blanks], axis=-1)[None],
        log_prob=jnp.zeros(1),
        last=jnp.array([-1]),
    ).extend(log_probs, jnp.array([0]), blank_id=BLANK)
    following = prefix.next_log_probs(log_probs, blank_id=BLANK, end_ids=(END,))[0]
    assert float(following[0]) < -1e9
    assert float(following[1]) > -10
    full = prefix.extend(log_probs, jnp.array([1]), blank_id=BLANK)
    after = full.next_log_probs(log_probs, blank_id=BLANK, end_ids=(END,))[0]
    assert float(jnp.max(after.at[END].set(-1e10))) < -1e9
    assert float(after[END]) == pytest.approx(0.0, abs=1e-5)


def test_greedy_decoding_takes_the_best_joint_score_at_each_step() -> None:
    weight = 0.4
    tokens, _ = search(weight, 1)
    for row in range(2):
        text: tuple[int, ...] = ()
        while len(text) < LIMIT and text[-1:] != (END,):
            before = ctc_log_prob(row, text, whole=False)
            of_ctc = {each: ctc_log_prob(row, (*text, each), whole=False) for each in LABELS}
            of_ctc[END] = ctc_log_prob(row, text, whole=True)
            scores = {
                each: (1 - weight) * decoder_log_probs(text)[row, each] + weight * (score - before)
                for each, score in of_ctc.items()
            }
            text = (*text, max(scores, key=lambda each: scores[each]))
        assert until_end(tokens[row]) == text


def test_without_weight_it_is_the_decoder_alone() -> None:
    plain, wanted = search(None, 3)
    joint, scores = search(0.0, 3)
    np.testing.assert_array_equal(plain, joint)
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-5)


class Samples(Recording):
    """A recording in memory."""

    def __init__(self, samples: np.ndarray) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._samples.astype(dtype or np.float32)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_generator_counts_ctc_and_gives_each_recording_its_text(num_beams: int) -> None:
    waveforms, mask = speech()
    graphdef, params = parameters.split(model())
    mesh = MeshConfig(data=1).build(jax.local_devices()[:1])
    generator = Generator(graphdef, mesh, is_decoder=False, start_id=START)
    prompts = [Samples(row[: real.sum()]) for row, real in zip(waveforms, mask, strict=True)]
    texts = {}
    for weight in (0.0, 0.9):
        config = GenerationConfig(max_new_tokens=LIMIT, num_beams=num_beams, ctc_weight=weight)
        written = generator(params, prompts, config, end_ids=(END,), batch_size=2, limit=waveforms.shape[1])
        texts[weight] = dict(written)
    if num_beams == 1:
        tokens, _ = search(0.9, 1)
        wanted = {row: [each for each in until_end(tokens[row]) if each != END] for row in range(2)}
        assert texts[0.9] == wanted
    assert texts[0.9] != texts[0.0]


def test_sampling_counts_no_ctc() -> None:
    with pytest.raises(ValueError, match=r"sampling .* reads no CTC; leave ctc_weight out"):
        GenerationConfig(temperature=1.0, ctc_weight=0.3)
    joint = GenerationConfig(ctc_weight=0.3)
    assert not joint.is_greedy
    assert joint.without_effect({"temperature": 1.0})["ctc_weight"] == 0.0


def test_inputs_that_end_late_continue_alone() -> None:
    together = search(0.3, 3)
    apart = search(0.3, 3, num_last_inputs=1)
    np.testing.assert_array_equal(together[0], apart[0])
    np.testing.assert_allclose(together[1], apart[1], rtol=1e-5, atol=1e-5)


def test_it_is_a_model_that_generates_and_needs_a_head() -> None:
    assert can_decode(JointCtcDecoder(model()))
    with pytest.raises(ValueError, match=r"no head for CTC, .* train one with SpeechRecognition"):
        JointCtcDecoder(model(False))
    with pytest.raises(ValueError, match=r"the weight of CTC is 1\.5; give a share"):
        JointCtc(weight=1.5)


def test_the_best_alignment_loses_repeats_and_blanks() -> None:
    paths = jnp.array([[0, 0, 4, 0, 1, 1], [4, 3, 3, 4, 1, 0]])
    log_probs = jnp.log(jax.nn.one_hot(paths, 5) * 0.9 + 0.02)
    labels, counts = best_alignment(log_probs, jnp.array([6, 4]), blank_id=BLANK)
    assert counts.tolist() == [3, 1]
    assert labels.tolist() == [[0, 0, 1, 4, 4, 4], [3, 4, 4, 4, 4, 4]]
