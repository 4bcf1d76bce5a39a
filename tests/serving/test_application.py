"""The server answers every request with JSON, good or bad, and lives on."""

import base64
import json
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import t5x_like
from t5x_like.serving.application import build_application
from t5x_like.serving.request_fields import Limits, chat_fields, completion_fields
from t5x_like.serving.served_model import ServedModel


def refused(client, path="/v1/completions", **fields):
    """The status and message of a refused request."""
    answer = client.post(path, json=fields)
    return answer.status_code, answer.json()["error"]["message"]


def test_embeddings_are_the_models_own(bert, models):
    texts = ["in the beginning", "the"]
    answer = bert.post("/v1/embeddings", json={"input": texts}).json()
    own = t5x_like.from_pretrained(models / "bert").embed(texts)
    np.testing.assert_allclose([each["embedding"] for each in answer["data"]], own, rtol=1e-5, atol=1e-5)
    assert answer["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
    ids = t5x_like.from_pretrained(models / "bert").encode("the")["input_ids"][0].tolist()
    coded = bert.post("/v1/embeddings", json={"input": ids, "encoding_format": "base64"}).json()["data"][0]
    np.testing.assert_allclose(
        np.frombuffer(base64.b64decode(coded["embedding"]), "<f4"), own[1], rtol=1e-5, atol=1e-5
    )


def test_embeddings_have_as_many_dimensions_as_asked_for(bert, models):
    answer = bert.post("/v1/embeddings", json={"input": "in the", "dimensions": 4}).json()
    own = t5x_like.from_pretrained(models / "bert").embed("in the", dimensions=4)
    np.testing.assert_allclose(answer["data"][0]["embedding"], own, rtol=1e-5, atol=1e-5)
    refused = bert.post("/v1/embeddings", json={"input": "in the", "dimensions": 4096})
    assert refused.status_code == 400
    assert "dimensions is 4096" in refused.json()["error"]["message"]


def test_an_encoder_decoder_embeds_by_its_encoder(t5, models):
    (result,) = t5.post("/v1/embeddings", json={"input": "In the beginning"}).json()["data"]
    own = t5x_like.from_pretrained(models / "t5").embed("In the beginning")
    np.testing.assert_allclose(result["embedding"], own, rtol=1e-5, atol=1e-5)


def test_the_model_and_the_api_are_described(gpt2, bert):
    (model,) = gpt2.get("/v1/models").json()["data"]
    assert (model["id"], model["task"], model["endpoints"]) == (
        "gpt2",
        "causal_lm",
        ["completions", "embeddings"],
    )
    assert bert.get("/v1/models").json()["data"][0]["endpoints"] == ["embeddings"]
    assert gpt2.get("/health").json() == {"status": "ok", "model": "gpt2", "requests": 0}
    document = gpt2.get("/openapi.json").json()
    schema = document["paths"]["/v1/completions"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert set(schema["properties"]) == set(completion_fields(Limits()))
    assert schema["properties"]["max_tokens"]["maximum"] == 40
    page = gpt2.get("/docs").text
    for path in document["paths"]:
        assert path in page
    for name in schema["properties"]:
        assert f"<code>{name}</code>" in page


def test_pages_need_nothing_from_elsewhere(gpt2):
    for path in ("/", "/docs"):
        page = gpt2.get(path)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "//" not in page.text.replace("<!doctype", "")
        assert "font: 16px" in page.text  # its style is in it
    assert "/v1/completions" in gpt2.get("/").text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give a prompt"),
        ({"prompt": None}, "give a prompt"),
        ({"prompt": []}, "prompt is []; give a text, a list of token ids, or a list of 1 to 4 of either"),
        ({"prompt": ["a"] * 5}, "a list of 1 to 4 of either"),
        ({"prompt": ["a", [1]]}, "a list of 1 to 4 of either"),
        ({"prompt": [True]}, "a list of 1 to 4 of either"),
        ({"prompt": [-1]}, "a list of 1 to 4 of either"),
        ({"prompt": "\ud800"}, "in valid Unicode"),
        ({"prompt": [10**9]}, "prompt has token id 1000000000, the model has 4224"),
        ({"prompt": [1] * 61}, "prompt has 61 tokens; give at most 60"),
        ({"prompt": [1] * 60, "max_tokens": 6}, "together they have at most 64 positions"),
        ({"prompt": "a", "max_tokens": 41}, "max_tokens is 41; give an integer from 0 to 40"),
        ({"prompt": "a", "max_tokens": 1.5}, "max_tokens is 1.5"),
        ({"prompt": "a", "max_tokens": True}, "max_tokens is true"),
        ({"prompt": "a", "temperature": -1}, "temperature is -1; give a number from 0 to 2"),
        ({"prompt": "a", "temperature": "hot"}, 'temperature is "hot"'),
        ({"prompt": "a", "top_p": 2}, "top_p is 2; give a number from 0 to 1"),
        ({"prompt": "a", "n": 4}, "n is 4; give an integer from 1 to 3"),
        ({"prompt": "a", "stop": ["a"] * 5}, "give a text, or at most 4 of them"),
        ({"prompt": "a", "echo": 1}, "echo is 1; give true or false"),
        ({"prompt": "a", "seed": 2**64}, "seed is"),
        ({"prompt": "a", "stream": 1}, "stream is 1; give true or false"),
        ({"prompt": "a", "suffix": "b"}, 'suffix is "b"; give "", as suffix is not supported'),
        ({"prompt": "a", "best_of": 3}, "best_of is 3; give 1"),
        ({"prompt": "a", "max_token": 3}, "there is no field \"max_token\"; did you mean 'max_tokens'?"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(gpt2, fields, message):
    answer = gpt2.post(
        "/v1/completions", content=json.dumps(fields), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_neutral_values_of_what_is_not_supported_are_taken(gpt2):
    neutral = {
        "stream": False,
        "best_of": 1,
        "presence_penalty": 0,
        "logit_bias": {},
        "suffix": None,
        "user": "me",
    }
    assert gpt2.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, **neutral}).status_code == 200


def test_a_model_says_what_it_cannot_do(t5, bert):
    assert refused(bert, prompt="a")[0] == 400
    assert "writes no text" in refused(bert, prompt="a")[1]
    assert refused(t5, prompt="a", echo=True) == (400, "echo is not for this kind of model, encoder_decoder")
    assert "needs a prompt with text" in refused(t5, prompt="")[1]
    assert refused(bert, "/v1/embeddings", input=[1] * 17)[1] == "input has 17 tokens; give at most 16"
    assert refused(bert, "/v1/embeddings")[1] == "give an input"


def test_another_model_path_or_method_does_not_exist(gpt2):
    assert refused(gpt2, model="gpt3", prompt="a") == (404, "there is no model 'gpt3' here, only 'gpt2'")
    assert refused(gpt2, "/v1/responses")[0] == 404
    answer = gpt2.get("/v1/completions")
    assert answer.status_code == 405
    assert "GET /v1/completions: Method Not Allowed; see /docs" in answer.json()["error"]["message"]


def test_a_large_body_and_another_type_are_refused(gpt2):
    assert refused(gpt2, prompt="a" * 20_000)[0] == 413
    answer = gpt2.post("/v1/completions", content=b'{"prompt": "a"}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b'{"prompt": NaN}',
        b"[" * 9_000,
        b'{"prompt": "a", "n": ' + b"1" * 9_000 + b"}",
    ],
)
def test_a_broken_body_is_refused(gpt2, body):
    answer = gpt2.post("/v1/completions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = [*completion_fields(Limits()), *chat_fields(Limits()), "input", "x"]
FIELDS = st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5)


@settings(max_examples=60)
@given(
    path=st.sampled_from(["/v1/completions", "/v1/chat/completions", "/v1/embeddings"]),
    body=JSON | FIELDS | st.binary(max_size=20),
)
def test_any_body_gets_an_answer(gpt2, path, body):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = gpt2.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 404)
    if answer.status_code != 200:
        assert answer.json()["error"]["message"]
    assert gpt2.get("/health").status_code == 200


class Slow(ServedModel):
    """A model that computes until it is allowed to end."""

    def __init__(self, pretrained, **limits):
        super().__init__(pretrained, "slow", Limits(**limits))
        self.begun, self.allowed, self.cancelled = threading.Event(), threading.Event(), False

    def complete(self, arrivals):
        requests = arrivals()
        self.begun.set()
        self.allowed.wait(30)
        self.cancelled = requests[0].is_cancelled()
        for index, _ in enumerate(requests):
            yield index, ([], 0)


def test_too_many_requests_are_refused_and_the_others_answered(models):
    model = Slow(t5x_like.from_pretrained(models / "bert"), waiting=1)
    statuses = []
    with TestClient(build_application(model)) as client:

        def ask():
            statuses.append(client.post("/v1/completions", json={"prompt": "a"}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert model.begun.wait(30)
        end = time.monotonic() + 30
        while client.get("/health").json()["requests"] < 2:
            assert time.monotonic() < end
        answer = client.post("/v1/completions", json={"prompt": "a"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (429, "rate_limit_error")
        assert answer.headers["retry-after"] == "1"
        model.allowed.set()
        for thread in threads:
            thread.join()
    assert statuses == [200, 200]


def test_a_slow_request_ends_and_the_server_continues(models):
    model = Slow(t5x_like.from_pretrained(models / "bert"), seconds=0.2)
    with TestClient(build_application(model)) as client:
        status, message = refused(client, prompt="a")
        assert (status, message) == (
            503,
            "the request took more than 0.2 s; ask for fewer tokens, or try again later",
        )
        model.allowed.set()
        end = time.monotonic() + 30
        while client.get("/health").json()["requests"]:
            assert time.monotonic() < end
        assert model.cancelled
        assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 200


def test_a_failure_of_the_model_is_logged_and_not_shown(models, caplog):
    model = Slow(t5x_like.from_pretrained(models / "bert"))
    model.complete = lambda _: 1 / 0
    with TestClient(build_application(model)) as client:
        status, message = refused(client, prompt="a")
    assert (status, message) == (500, "the server failed: ZeroDivisionError; see its log")
    assert "a request to /v1/completions failed" in caplog.text


def test_a_host_of_another_name_is_refused(models):
    model = Slow(t5x_like.from_pretrained(models / "bert"))
    with TestClient(build_application(model, hosts=("localhost",)), base_url="http://evil.example") as client:
        assert client.get("/v1/models").status_code == 400
    with TestClient(
        build_application(model, hosts=("localhost",)), base_url="http://localhost:8000"
    ) as client:
        assert client.get("/v1/models").status_code == 200


def test_requests_that_wait_are_computed_together_and_do_not_fail_each_other(models):
    model = Slow(t5x_like.from_pretrained(models / "bert"))
    sizes, wait = [], model.complete

    def complete(arrivals):
        requests = arrivals()
        sizes.append(len(requests))
        for index, answer in wait(lambda: requests):
            assert requests[index].fields["prompt"] != ["bad"]
            yield index, answer

    model.complete = complete
    statuses = {}
    with TestClient(build_application(model), raise_server_exceptions=False) as client:

        def ask(prompt):
            statuses[prompt] = client.post("/v1/completions", json={"prompt": prompt}).status_code

        threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in ("a", "b", "bad", "c")]
        threads[0].start()
        assert model.begun.wait(30)
        for thread in threads[1:]:
            thread.start()
        end = time.monotonic() + 30
        while client.get("/health").json()["requests"] < 4:
            assert time.monotonic() < end
        model.allowed.set()
        for thread in threads:
            thread.join()
    # Together, then those alone that had no answer yet.
    assert sizes[:2] == [1, 3]
    assert set(sizes[2:]) == {1}
    assert statuses == {"a": 200, "b": 200, "bad": 500, "c": 200}
