"""Streams have the text of the whole answer, in pieces that come while the model writes."""

import asyncio
import json
import threading
import time

import pytest
from starlette.testclient import TestClient

import t5x_like
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.serving.application import build_application
from t5x_like.serving.model_worker import ModelWorker, Partial
from t5x_like.serving.request_fields import RequestError
from t5x_like.serving.served_model import ServedModel
from tests.pretrained.test_pretrained_model import write as write_model
from tests.serving.chat_directories import CHATML, of_bytes, write
from tests.serving.conftest import LIMITS

PATHS = {
    "/v1/completions": {"prompt": "Once"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}]},
}
SAMPLES = {"max_tokens": 12, "temperature": 1.5, "seed": 3, "n": 2}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat") / "talker"
    write_model(
        GPT2Config(
            vocab_size=264, model_dim=32, mlp_dim=64, num_heads=2, num_layers=1, max_position_embeddings=96
        ),
        folder,
    )
    return t5x_like.from_pretrained(write(folder, of_bytes(), CHATML))


@pytest.fixture(scope="module")
def client(pretrained):
    with TestClient(build_application(ServedModel(pretrained, "talker", LIMITS))) as client:
        yield client


def streamed(client, path, **fields):
    """The events of a stream but for the last one, which is [DONE]."""
    answer = client.post(path, json={**PATHS[path], "stream": True, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, last, rest = answer.text.split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def texts_of(choices, index):
    own = [each for each in choices if each["index"] == index]
    return [each["text"] if "text" in each else each["delta"].get("content", "") for each in own]


def whole_text(choice):
    return choice["text"] if "text" in choice else choice["message"]["content"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("changes", [{}, {"stop": ["e", "a"]}, {"n": 1, "temperature": 0}])
def test_the_pieces_are_the_text_of_the_whole_answer(client, path, changes):
    fields = SAMPLES | changes
    whole = client.post(path, json={**PATHS[path], **fields}).json()
    chunks = streamed(client, path, **fields)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    for choice in whole["choices"]:
        index = choice["index"]
        texts = texts_of(choices, index)
        assert "".join(texts) == whole_text(choice)
        assert [each["finish_reason"] for each in choices if each["index"] == index] == [
            *[None] * (len(texts) - 1),
            choice["finish_reason"],
        ]
        if not changes:
            assert len([text for text in texts if text]) > 1
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {"usage"} & set().union(*chunks) == set()


@pytest.mark.parametrize(("name", "echo"), [("gpt2", True), ("gpt2", False), ("t5", False)])
def test_pieces_keep_the_spaces_between_words(request, name, echo):
    client = request.getfixturevalue(name)
    fields = {"prompt": ["In the", "God"], "max_tokens": 20, "temperature": 1.2, "seed": 2, "echo": echo}
    whole = client.post("/v1/completions", json=fields).json()
    choices = [chunk["choices"][0] for chunk in streamed(client, "/v1/completions", **fields)]
    for index in range(2):
        texts = texts_of(choices, index)
        assert len(texts) > 2
        assert "".join(texts) == whole["choices"][index]["text"]


def test_chunks_have_openais_form(client):
    chunks = streamed(
        client, "/v1/chat/completions", **SAMPLES | {"n": 1}, stream_options={"include_usage": True}
    )
    *texts, last = chunks
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert texts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert texts[-1]["choices"][0]["delta"] == {}
    assert {chunk["usage"] for chunk in texts} == {None}
    assert last["choices"] == []
    whole = client.post(
        "/v1/chat/completions", json={**PATHS["/v1/chat/completions"], **SAMPLES, "n": 1}
    ).json()
    assert last["usage"] == whole["usage"]
    chunks = streamed(client, "/v1/completions", **SAMPLES, logprobs=1)
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    whole = client.post("/v1/completions", json={"prompt": "Once", **SAMPLES, "logprobs": 1}).json()
    ends = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["finish_reason"]]
    assert [end["logprobs"] for end in ends] == [choice["logprobs"] for choice in whole["choices"]]


def test_an_error_before_the_first_piece_has_its_own_status(client):
    answer = client.post("/v1/completions", json={"prompt": [10**6], "stream": True})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert "has token id 1000000" in answer.json()["error"]["message"]
    for fields, message in (
        ({"stream_options": {"include_usage": True}}, "stream_options is for stream: true; leave it out"),
        (
            {"stream": True, "stream_options": {"x": True}},
            "give an object with true or false for include_usage",
        ),
    ):
        answer = client.post("/v1/completions", json={"prompt": "a", **fields})
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RequestError("no more", status=503), "server_error", "no more"),
        (ZeroDivisionError(), "server_error", "the server failed: ZeroDivisionError; see its log"),
    ],
    ids=str,
)
def test_an_error_after_the_first_piece_is_the_last_event(pretrained, error, kind, message):
    model = ServedModel(pretrained, "talker", LIMITS)

    def complete(arrivals):
        arrivals()
        yield 0, Partial(0, "On")
        if not isinstance(error, RequestError):
            raise error
        yield 0, error

    model.complete = complete
    with TestClient(build_application(model)) as client:
        answer = client.post("/v1/completions", json={"prompt": "a", "stream": True})
        assert client.get("/health").json()["requests"] == 0
    assert answer.status_code == 200
    first, last, rest = answer.text.split("\n\n")
    assert json.loads(first.removeprefix("data: "))["choices"][0]["text"] == "On"
    body = json.loads(last.removeprefix("data: "))["error"]
    assert (body["type"], body["message"], rest) == (kind, message, "")


def test_partial_results_come_in_order_and_before_the_others_are_done():
    worker = ModelWorker(waiting=2, seconds=30)
    is_read = threading.Event()

    def compute(arrivals):
        arrivals()
        for index in range(100):
            yield 0, Partial(0, str(index))
        assert is_read.wait(30)  # the stream is read while this computes
        yield 0, "done"

    async def read():
        outcomes = []
        async for outcome in worker.stream(compute, {}):
            outcomes.append(outcome)
            if len(outcomes) == 100:
                is_read.set()
        return outcomes

    outcomes = asyncio.run(read())
    assert outcomes == [*(Partial(0, str(index)) for index in range(100)), "done"]
    assert asyncio.run(worker.run(compute, {})) == "done"
    worker.close()


def test_a_failure_ends_a_stream_that_began_and_no_other_request():
    worker = ModelWorker(waiting=4, seconds=30)
    begun, allowed, sizes = threading.Event(), threading.Event(), []

    def compute(arrivals):
        requests = arrivals()
        sizes.append(len(requests))
        begun.set()
        assert allowed.wait(30)
        for index, request in enumerate(requests):
            if request.fields["name"] == "streams":
                yield index, Partial(0, "a")
        if len(requests) > 1:
            raise ZeroDivisionError
        for index, request in enumerate(requests):
            yield index, request.fields["name"]

    async def ask():
        names = ("first", "streams", "waits")
        tasks = [asyncio.create_task(worker.run(compute, {"name": names[0]}))]
        await asyncio.to_thread(begun.wait, 30)
        tasks += [asyncio.create_task(worker.run(compute, {"name": name})) for name in names[1:]]
        while worker.num_requests < 3:
            await asyncio.sleep(0.01)
        allowed.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, streams, waits = asyncio.run(ask())
    assert (first, waits) == ("first", "waits")
    assert isinstance(streams, ZeroDivisionError)
    assert sizes == [1, 2, 1]
    worker.close()


class Endless(ServedModel):
    """A model that writes until nobody waits for it."""

    def __init__(self, *arguments, says):
        super().__init__(*arguments)
        self.says, self.begun, self.cancelled = says, threading.Event(), threading.Event()

    def complete(self, arrivals):
        requests = arrivals()
        self.begun.set()
        while not requests[0].is_cancelled():
            if self.says:
                yield 0, Partial(0, "a")
            time.sleep(0.01)
        self.cancelled.set()
        yield 0, RequestError("nobody waits", status=503)


@pytest.mark.parametrize(("says", "stream"), [(True, True), (False, True), (True, False)])
def test_a_client_that_leaves_cancels_its_request(pretrained, says, stream):
    model = Endless(pretrained, "talker", LIMITS, says=says)
    application, sent = build_application(model), []

    async def leave():
        messages = iter(
            [{"type": "http.request", "body": json.dumps({"prompt": "a", "stream": stream}).encode()}]
        )

        async def receive():
            if (message := next(messages, None)) is not None:
                return message
            while not (any(each.get("body") for each in sent) if says and stream else model.begun.is_set()):
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/completions",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }
        await application(scope, receive, send)
        assert await asyncio.to_thread(model.cancelled.wait, 10)

    asyncio.run(leave())
    assert bool(b"".join(each.get("body", b"") for each in sent).count(b'"text":"a"')) == (says and stream)
