"""Completions and scores are those of the model, in the form that OpenAI's clients and the harness read."""

from typing import Any

import jax
import numpy as np
import pytest

import t5x_like
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.serving import served_model
from t5x_like.serving.model_worker import ModelRequest
from t5x_like.serving.request_fields import Limits, RequestError, completion_fields, read_fields
from t5x_like.serving.served_model import ServedModel
from tests.model.zoo.tiny_models import TINY

VERSE = "In the beginning God created the heaven"
GREEDY = {"temperature": 0, "max_tokens": 5}


def complete(client, **fields):
    answer = client.post("/v1/completions", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def decoder(models):
    return t5x_like.from_pretrained(models / "gpt2")


def log_probs_of(decoder, ids):
    """The model's own log-probabilities of ids after the first, and its log-probabilities of all tokens."""
    logits = decoder(input_ids=[ids]).logits[0].astype(np.float64)
    every = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return every[np.arange(len(ids) - 1), ids[1:]], every


def test_greedy_texts_are_the_models_own(gpt2, decoder):
    answer = complete(gpt2, prompt=VERSE, **GREEDY)
    assert answer["object"] == "text_completion"
    assert answer["model"] == "gpt2"
    (choice,) = answer["choices"]
    assert choice["index"] == 0
    assert choice["text"].strip() == decoder.generate(VERSE, max_new_tokens=5).strip()
    assert choice["finish_reason"] == "length"
    num_prompt = decoder.encode(VERSE)["input_ids"].shape[1]
    assert answer["usage"] == {
        "prompt_tokens": num_prompt,
        "completion_tokens": 5,
        "total_tokens": num_prompt + 5,
    }


def test_an_encoder_decoder_writes_and_scores_what_it_wrote(t5, models):
    (choice,) = complete(t5, prompt=VERSE, logprobs=2, **GREEDY)["choices"]
    own = t5x_like.from_pretrained(models / "t5")
    assert choice["text"] == own.generate(VERSE, max_new_tokens=5)
    result = choice["logprobs"]
    assert len(result["tokens"]) == len(result["token_logprobs"]) == 5
    for chosen, top in zip(result["token_logprobs"], result["top_logprobs"], strict=True):
        assert chosen == max(top.values())
        assert len(top) == 2


def test_prompts_are_texts_or_tokens_alone_or_in_lists(gpt2, decoder):
    ids = decoder.encode(VERSE)["input_ids"][0].tolist()
    of_text = complete(gpt2, prompt=VERSE, **GREEDY)["choices"][0]["text"]
    for prompt in (ids, [ids], [VERSE]):
        assert [each["text"] for each in complete(gpt2, prompt=prompt, **GREEDY)["choices"]] == [of_text]
    both = complete(gpt2, prompt=["In", VERSE], n=2, **GREEDY)["choices"]
    assert [each["index"] for each in both] == [0, 1, 2, 3]
    assert both[2]["text"] == both[3]["text"] == of_text
    assert complete(gpt2, prompt="", **GREEDY)["choices"][0]["finish_reason"] == "length"


def test_samples_repeat_with_their_seed(gpt2):
    settings = {"prompt": VERSE, "n": 3, "max_tokens": 8, "temperature": 1.5, "top_p": 0.95, "top_k": 500}
    texts = [each["text"] for each in complete(gpt2, seed=7, **settings)["choices"]]
    assert texts == [each["text"] for each in complete(gpt2, seed=7, **settings)["choices"]]
    assert len(set(texts)) == 3
    assert texts != [each["text"] for each in complete(gpt2, seed=2**62, **settings)["choices"]]
    of_best = complete(gpt2, prompt=VERSE, top_k=1, max_tokens=5)["choices"][0]["text"]
    assert of_best == complete(gpt2, prompt=VERSE, **GREEDY)["choices"][0]["text"]


def test_a_text_ends_before_a_stop(gpt2):
    settings = {"prompt": VERSE, "temperature": 1.5, "seed": 3, "max_tokens": 8, "logprobs": 0}
    whole = complete(gpt2, **settings)["choices"][0]
    stop = whole["text"][-9:-6]
    (cut,) = complete(gpt2, stop=["@@", stop], **settings)["choices"]
    assert cut["text"] == whole["text"][: whole["text"].index(stop)]
    assert cut["finish_reason"] == "stop"
    number = len(cut["logprobs"]["tokens"])
    assert 0 < number < 8
    assert cut["logprobs"]["token_logprobs"] == whole["logprobs"]["token_logprobs"][:number]
    assert all(offset < len(cut["text"]) for offset in cut["logprobs"]["text_offset"])


def own_fields(**changes):
    """The fields of a request with their defaults."""
    return read_fields(changes, completion_fields(Limits()))


def completed(served, *requests):
    """What the model answers to requests together; the first error is raised."""
    answers = answered(served, [ModelRequest(own_fields(**fields)) for fields in requests])
    for answer in answers:
        if isinstance(answer, RequestError):
            raise answer
    return [completions for completions, _ in answers]


def answered(served, requests):
    """The answers to requests, in their order."""
    arrivals = iter([requests])
    answers: dict[int, Any] = dict(served.complete(lambda: next(arrivals, [])))
    return [answers[index] for index in range(len(requests))]


def test_a_text_ends_at_the_models_end(gpt2, decoder):
    settings = {"prompt": VERSE, "temperature": 1.5, "seed": 3, "logprobs": 1}
    tokens = complete(gpt2, max_tokens=2, **settings)["choices"][0]["logprobs"]["tokens"]
    served = ServedModel(decoder, "gpt2", Limits())
    served._end_ids = tuple(n for n in range(4100) if decoder.vocabulary.piece(n) == tokens[1])
    served._writer._end_ids = served._end_ids
    ((result,),) = completed(served, {"max_tokens": 9, **settings})
    assert (result.finish_reason, result.num_tokens) == ("stop", 2)
    assert result.logprobs["tokens"] == tokens  # the end of text has a log-probability, too
    assert result.text.strip() == tokens[0].strip("▁")  # and no text


def test_echo_and_logprobs_score_a_text(gpt2, decoder):
    ids = decoder.encode(VERSE)["input_ids"][0].tolist()
    chosen, every = log_probs_of(decoder, ids)
    (choice,) = complete(gpt2, prompt=ids, echo=True, max_tokens=0, logprobs=3)["choices"]
    assert choice["text"] == VERSE
    result = choice["logprobs"]
    assert result["token_logprobs"][0] is result["top_logprobs"][0] is None
    np.testing.assert_allclose(result["token_logprobs"][1:], chosen, rtol=1e-4)
    best = np.sort(every, axis=-1)[:-1, -3:]
    np.testing.assert_allclose(
        [sorted(top.values())[-3:] for top in result["top_logprobs"][1:]], best, rtol=1e-4
    )
    assert result["tokens"] == [decoder.vocabulary.piece(token_id) for token_id in ids]
    assert [VERSE[offset:][:2] for offset in result["text_offset"][:3]] == ["In", " t", " b"]


def harness_result(choice, num_context):
    """What lm-evaluation-harness' local-completions makes of a choice: log-likelihood, and whether it is greedy."""
    chosen = choice["logprobs"]["token_logprobs"][num_context:-1]
    top = choice["logprobs"]["top_logprobs"][num_context:-1]
    return sum(chosen), all(token == max(best.values()) for token, best in zip(chosen, top, strict=True))


def test_the_harness_reads_likelihoods(gpt2, decoder):
    ids = decoder.encode(VERSE)["input_ids"][0].tolist()
    greedy = decoder.generate([ids], max_new_tokens=3)[0].tolist()
    requests = [(ids, 4), (greedy, len(ids)), (ids[:2], 1)]
    answer = complete(
        gpt2,
        model="gpt2",
        prompt=[request for request, _ in requests],
        temperature=0,
        max_tokens=1,
        logprobs=1,
        seed=1234,
        echo=True,
    )
    for (request, num_context), choice in zip(requests, answer["choices"], strict=True):
        chosen, _ = log_probs_of(decoder, request)
        log_likelihood, is_greedy = harness_result(choice, num_context)
        np.testing.assert_allclose(log_likelihood, chosen[num_context - 1 :].sum(), rtol=1e-4)
        assert is_greedy == (request is greedy)


def test_a_texts_special_ids_are_read_and_not_shown(decoder, monkeypatch):
    """As of runs trained here, whose texts begin with an id that they are shifted in by."""
    served = ServedModel(decoder, "gpt2", Limits())
    ids = decoder.encode(VERSE)["input_ids"][0].tolist()
    entries: list[Any] = served._scorer.score([0, *ids], [], best=1, all_tokens=True)
    monkeypatch.setattr(served, "_ids", lambda *_, **__: ([0, *ids], 1))
    ((result,),) = completed(served, {"prompt": VERSE, "max_tokens": 0, "echo": True, "logprobs": 1})
    assert result.text == VERSE
    assert result.logprobs["token_logprobs"] == [entry.chosen for entry in entries[1:]]


def test_a_model_that_needs_more_than_prompts_says_so():
    config = TINY["glm_orig"]
    decoder = Pretrained(Checkpoint.in_memory(config.build(jax.random.key(0)), config))
    with pytest.raises(RequestError, match="positions inside of blanks"):
        completed(ServedModel(decoder, "glm", Limits()), {"prompt": [5, 6, 7], "max_tokens": 2})
    with pytest.raises(RequestError, match="glm has no tokenizer; give prompt as token ids"):
        completed(ServedModel(decoder, "glm", Limits()), {"prompt": "a"})


def test_settings_share_their_programs(decoder):
    served = ServedModel(decoder, "gpt2", Limits())
    completed(served, {"prompt": VERSE, "temperature": 1.5})
    programs = set(served._writer.programs)
    for changes in ({"temperature": 1.25, "top_p": 0.9, "max_tokens": 3}, {"temperature": 0}, {"top_k": 7}):
        completed(served, {"prompt": VERSE, **changes})
    assert served._writer.programs == programs


def test_many_settings_do_not_keep_their_programs(decoder, monkeypatch):
    served = ServedModel(decoder, "gpt2", Limits())
    cleared = []
    monkeypatch.setattr(served_model.jax, "clear_caches", lambda: cleared.append(True))
    for index in range(400):
        served._count_program("score", index)
    assert len(cleared) == 3


PROMPTS = (
    "In the beginning God",
    "And",
    VERSE,
    "Now the earth was without form, and void; and darkness was upon",
    "",
)


@pytest.mark.parametrize("name", ["gpt2", "t5"])
@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 1.2, "top_k": 40, "n": 2}])
def test_requests_together_have_the_answers_that_they_have_alone(models, name, settings):
    served = ServedModel(t5x_like.from_pretrained(models / name), name, Limits())
    requests = [
        {"prompt": prompt, "seed": seed, "max_tokens": 6 + seed, **settings}
        for seed, prompt in enumerate(PROMPTS)
        if prompt or name == "gpt2"
    ]
    alone = [completed(served, fields)[0] for fields in requests]
    assert completed(served, *requests) == alone


def test_a_wrong_request_is_answered_alone(decoder):
    served = ServedModel(decoder, "gpt2", Limits())
    fields = [own_fields(prompt=VERSE, **GREEDY), own_fields(prompt=[10**6], **GREEDY)]
    right, wrong = answered(served, [ModelRequest(each) for each in fields])
    assert len(right[0]) == 1
    assert "has token id 1000000" in wrong.message
    late = answered(served, [ModelRequest(fields[0], lambda: True), ModelRequest(fields[0])])
    assert late[0].status == 503
    assert late[1] == right


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_request_joins_others_that_are_written_and_may_end_before_them(models, name):
    served = ServedModel(t5x_like.from_pretrained(models / name), name, Limits())
    fields = [own_fields(prompt=VERSE, **(GREEDY | {"max_tokens": number})) for number in (40, 3)]
    alone = [answered(served, [ModelRequest(each)])[0] for each in fields]
    arrivals = iter([[ModelRequest(fields[0])], [ModelRequest(fields[1])]])
    answers = [*served.complete(lambda: next(arrivals, []))]
    assert answers == [(1, alone[1]), (0, alone[0])]


@pytest.mark.parametrize("changes", [{"n": 2}, {"temperature": 1.2, "n": 2, "seed": 5}, {"echo": True}])
def test_parts_of_a_text_are_shown_while_it_is_written(decoder, changes):
    served = ServedModel(decoder, "gpt2", Limits())
    settings = {"prompt": VERSE, **GREEDY, "max_tokens": 40, **changes}
    whole = completed(served, settings)[0]
    stop = whole[0].text[30:33]
    for stops in (None, [stop]):
        request = ModelRequest(own_fields(**settings, stop=stops) | {"stream": True})
        arrivals = iter([[request]])
        *parts, (_, (final, _)) = served.complete(lambda: next(arrivals, []))  # noqa: B023
        assert final == completed(served, {**settings, "stop": stops})[0]
        assert [index for index, _ in parts] == [0] * len(parts)
        for choice, completion in enumerate(final):
            shown = "".join(part.text for _, part in parts if part.choice == choice)
            assert shown or stops
            assert completion.text.startswith(shown)


def test_a_text_is_not_written_further_than_its_stop(decoder, monkeypatch):
    served = ServedModel(decoder, "gpt2", Limits())
    settings = {"prompt": VERSE, **GREEDY, "max_tokens": 50}
    whole = completed(served, settings)[0][0]
    steps = []
    advance = served._writer.advance
    monkeypatch.setattr(served._writer, "advance", lambda **options: steps.append(1) or advance(**options))
    (cut,) = completed(served, {**settings, "stop": whole.text[5:8]})[0]
    assert len(steps) <= 2
    assert cut.text == whole.text[: whole.text.index(whole.text[5:8])]
    assert cut.num_tokens < 8
