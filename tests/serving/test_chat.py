"""Chats are answered by the model's own template, as transformers writes it or as the run learned it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from starlette.testclient import TestClient

import t5x_like
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.run_weights import trained_chat
from t5x_like.serving.application import build_application
from t5x_like.serving.chat_prompts import TemplatePrompts, chat_prompts_of
from t5x_like.serving.request_fields import Limits, RequestError
from t5x_like.serving.served_model import ServedModel
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.chat import ChatTask, Conversation
from t5x_like.text.tasks.chat_templates import CHATML as TRAINED_CHATML
from t5x_like.text.tasks.chat_templates import ChatTemplate
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.pretrained.test_pretrained_model import write as write_model
from tests.references import FIXTURES
from tests.serving.chat_directories import CHATML, LLAMA_2, PHI_3, SPECIAL, of_bytes, of_words, write
from tests.serving.conftest import LIMITS
from tests.training.experiments import experiment_of

SIZES = {"model_dim": 32, "mlp_dim": 64, "num_heads": 2, "num_layers": 1}
HI = [{"role": "user", "content": "Hi"}]


def messages(*pairs):
    return [{"role": role, "content": content} for role, content in pairs]


def prompts_of(folder):
    tokenizer = open_tokenizer(folder, 0)
    return TemplatePrompts(tokenizer.chat_template, tokenizer)


# Ids are those of apply_chat_template(…, add_generation_prompt=True) in transformers 5.24 for the same files.
TALKS = {
    "chatml": (
        messages(("system", "é"), ("user", "Hi")),
        [260, 82, 88, 82, 83, 68, 76, 198, 127, 102, 261, 198, 260, 84, 82, 68, 81, 198, 39, 72, 261, 198, 260, 64, 82,
         82, 72, 82, 83, 64, 77, 83, 198],
    ),
    "llama_2": (
        messages(("user", " the the\n"), ("assistant", "Hm"), ("user", "ok the")),
        [1, 62, 44, 49, 54, 55, 64, 99, 99, 3, 62, 18, 44, 49, 54, 55, 64, 3, 43, 80, 3, 2, 1, 62, 44, 49, 54, 55, 64,
         3, 82, 78, 99, 3, 62, 18, 44, 49, 54, 55, 64],
    ),
    "phi_3": (
        messages(("system", "<é>"), ("user", " the "), ("assistant", "a\n the"), ("user", "b the")),
        [3, 94, 5, 85, 82, 79, 72, 5, 29, 3, 5, 86, 92, 86, 87, 72, 80, 5, 15, 3, 5, 70, 82, 81, 87, 72, 81, 87, 5, 29,
         3, 5, 31, 0, 33, 5, 96, 101, 87, 75, 72, 100, 102, 68, 98, 99, 100, 101, 69, 99, 100, 102],
    ),
    "smollm": (
        messages(("user", "we'll  go\n")),
        [1, 99, 105, 302, 391, 198, 73, 279, 359, 253, 384, 92, 96, 86, 336, 330, 57, 347, 99, 363, 403, 304, 332, 277,
         334, 93, 308, 60, 61, 28, 252, 317, 254, 277, 411, 407, 101, 87, 87, 274, 426, 81, 319, 2, 198, 1, 376, 259,
         198, 103, 85, 23, 92, 92, 216, 310, 95, 198, 2, 198, 1, 520, 363, 403, 198],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """Directories of tokenizers with templates, and a GGUF file that has one."""
    folder = tmp_path_factory.mktemp("templates")
    return {
        "chatml": write(folder / "chatml", of_bytes(), CHATML),
        "llama_2": write(folder / "llama_2", of_words(), LLAMA_2),
        "phi_3": write(folder / "phi_3", of_words(rstrip=True), PHI_3, in_own_file=True),
        "smollm": FIXTURES / "gguf/smollm.gguf",
    }


@pytest.mark.parametrize("name", TALKS)
def test_prompts_are_those_of_transformers(templates, name):
    talk, ids = TALKS[name]
    assert prompts_of(templates[name]).ids(talk) == ids


def test_answers_end_where_the_template_ends_them(templates):
    ends = {}
    for name, path in templates.items():
        tokenizer = open_tokenizer(path, 0)
        ends[name] = [tokenizer.piece(each) for each in prompts_of(path).end_ids]
    assert ends == {
        "chatml": ["<|endoftext|>", "<|im_end|>"],
        "llama_2": ["</s>"],
        "phi_3": ["</s>", "<|end|>"],
        "smollm": ["<|im_end|>"],
    }


@pytest.mark.parametrize("name", ["chatml", "phi_3"])
def test_special_pieces_in_messages_stay_text(templates, name):
    tokenizer, prompts = open_tokenizer(templates[name], 0), prompts_of(templates[name])
    plain, odd = (prompts.ids(messages(("user", f"a{each}b"))) for each in ("", "".join(SPECIAL) + "</s>"))
    special = [token_id for token_id in odd if token_id in tokenizer.special_pieces.values()]
    assert special == [token_id for token_id in plain if token_id in tokenizer.special_pieces.values()]
    assert "a" + "".join(SPECIAL) + "</s>b" in tokenizer.decode(
        token_id for token_id in odd if token_id not in special
    )


def test_a_template_may_refuse_messages(templates):
    with pytest.raises(
        RequestError, match=r"the model's chat template refuses .*: Conversation roles must alternate"
    ):
        prompts_of(templates["llama_2"]).ids(messages(("user", "a"), ("user", "b")))
    tokenizer = open_tokenizer(templates["chatml"], 0)
    for template in (
        "{% if %}",
        "{{ messages.x.y }}",
        "{{ ().__class__.__mro__[1].__subclasses__() }}",
        "{{ namespace(__call__=messages) }}",
        "{% set n = namespace(x=1) %}{% set n.__call__ = messages %}",
    ):
        broken = TemplatePrompts(template, tokenizer)
        assert broken.end_ids == tokenizer.special.end_ids
        with pytest.raises(RequestError, match="the model's chat template refuses the messages"):
            broken.ids(HI)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A decoder with a chat template."""
    folder = tmp_path_factory.mktemp("chat") / "talker"
    write_model(GPT2Config(vocab_size=264, max_position_embeddings=96, **SIZES), folder)
    return write(folder, of_bytes(), CHATML)


@pytest.fixture(scope="module")
def served(directory):
    return ServedModel(t5x_like.from_pretrained(directory), "talker", LIMITS)


@pytest.fixture(scope="module")
def client(served):
    with TestClient(build_application(served), raise_server_exceptions=False) as client:
        yield client


def chat(client, **fields):
    answer = client.post("/v1/chat/completions", json={"messages": HI, "temperature": 0, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_answer_has_openais_form(client, served, directory):
    answer = chat(client, max_tokens=6, n=2)
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    ids = served.chat.ids(HI)
    own = t5x_like.from_pretrained(directory)
    text = own.decode(
        own.generate([ids], max_new_tokens=6, eos_token_id=list(served._end_ids))[0, len(ids) :]
    )
    choice = {"message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "length"}
    assert answer["choices"] == [{"index": index, **choice} for index in range(2)]
    assert answer["usage"] == {
        "prompt_tokens": len(ids),
        "completion_tokens": 12,
        "total_tokens": len(ids) + 12,
    }


def test_a_chat_is_a_completion_of_its_prompt(client, served):
    settings = {"max_tokens": 8, "temperature": 1.5, "seed": 4, "top_k": 50}
    completion = client.post(
        "/v1/completions", json={"prompt": served.chat.ids(HI), "logprobs": 2, **settings}
    ).json()
    (choice,) = chat(client, logprobs=True, top_logprobs=2, **settings)["choices"]
    expected = completion["choices"][0]["logprobs"]
    assert choice["message"]["content"] == completion["choices"][0]["text"]
    entries = choice["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == expected["tokens"]
    np.testing.assert_allclose([entry["logprob"] for entry in entries], expected["token_logprobs"], rtol=1e-5)
    for entry, top in zip(entries, expected["top_logprobs"], strict=True):
        assert [each["token"] for each in entry["top_logprobs"]] == list(top)[:2]


def test_the_number_of_tokens_has_two_names_and_a_default(client, served):
    texts = [chat(client, **{name: 5})["choices"][0] for name in ("max_tokens", "max_completion_tokens")]
    assert texts[0] == texts[1]
    assert chat(client)["usage"]["completion_tokens"] == LIMITS.new_tokens
    roomy = ServedModel(served._pretrained, "talker", replace(LIMITS, prompt_tokens=200))
    with TestClient(build_application(roomy)) as other:
        longer = messages(("user", "i" * (96 - len(served.chat.ids(HI)))))
        usage = chat(other, messages=longer)["usage"]
        assert usage == {"prompt_tokens": 94, "completion_tokens": 3, "total_tokens": 97}


def test_content_may_be_parts_and_fields_without_effect_are_taken(client):
    lines = chat(client, messages=messages(("user", "a\nb")), max_tokens=4)["choices"]
    parts = [{"type": "text", "text": text} for text in "ab"]
    message = {"role": "user", "content": parts, "name": None, "tool_calls": []}
    neutral = {
        "tools": [],
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "parallel_tool_calls": True,
    }
    assert chat(client, messages=[message], max_tokens=4, **neutral)["choices"] == lines


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": None}, "give messages"),
        ({"messages": []}, "messages is []; give a list of at least one"),
        ({"messages": "Hi"}, 'messages is "Hi"; give a list'),
        ({"messages": [{"content": "a"}]}, "messages[0].role is null; give one of system, user, assistant"),
        ({"messages": [*HI, {"role": "tool", "content": "a"}]}, 'messages[1].role is "tool"'),
        ({"messages": [{"role": "user"}]}, 'content is null; give a text, or a list of {"type": "text"'),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content is"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "in valid Unicode"),
        (
            {"messages": [{**HI[0], "tool_calls": [1]}]},
            'messages[0] has "tool_calls", which is not supported',
        ),
        ({"messages": [{"role": "user", "content": "a" * 99}]}, "tokens; give at most 60"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens and max_completion_tokens differ"),
        ({"max_tokens": 41}, "max_tokens is 41; give an integer from 1 to 40"),
        ({"top_logprobs": 1}, "top_logprobs is for logprobs: true; leave it out"),
        ({"tools": [{}]}, "tools is [{}]; give [], as tools is not supported"),
        ({"response_format": {"type": "json_object"}}, "as response_format is not supported"),
        ({"prompt": "a"}, 'there is no field "prompt"'),
    ],
    ids=str,
)
def test_a_wrong_field_of_a_chat_is_named(client, fields, message):
    answer = client.post(
        "/v1/chat/completions",
        content=json.dumps({"messages": HI, **fields}),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_a_model_without_a_template_says_so(gpt2, bert, client):
    def refused(client):
        answer = client.post("/v1/chat/completions", json={"messages": HI})
        return answer.status_code, answer.json()["error"]["message"]

    assert refused(gpt2) == (400, "gpt2 has no chat template; ask for /v1/completions")
    assert "writes no text" in refused(bert)[1]
    assert "chat/completions" not in gpt2.get("/v1/models").json()["data"][0]["endpoints"]
    assert client.get("/v1/models").json()["data"][0]["endpoints"] == [
        "completions",
        "chat/completions",
        "embeddings",
    ]


def test_named_templates_have_a_default(directory):
    opened = t5x_like.from_pretrained(directory).checkpoint
    tokenizer = opened.tokenizer
    own = tokenizer.chat_template
    try:
        tokenizer.chat_template = [{"name": "tool_use", "template": ""}]
        assert chat_prompts_of(opened) is None
        tokenizer.chat_template = [*tokenizer.chat_template, {"name": "default", "template": CHATML}]
        prompts = chat_prompts_of(opened)
        assert prompts is not None
        tokenizer.chat_template = own
        assert prompts.ids(HI) == prompts_of(directory).ids(HI)
    finally:
        tokenizer.chat_template = own


TALK = (("system", "Be brief."), ("user", "a"), ("assistant", "bc"), ("user", "d"), ("assistant", "ef"))
END_FIRST = ChatTemplate(
    turns={"patient": "P: {content} <end>", "doctor": "D: {content}<end> "},
    special=("<end>",),
    answering_role="doctor",
)
TASKS = {
    "chatml": ({"template": "chatml", "special_ids": {"<|im_start|>": 358, "<|im_end|>": 357}}, TALK),
    "own": (
        {"template": END_FIRST, "special_ids": {"<end>": 300}},
        (("patient", "a"), ("doctor", "bc"), ("patient", "d"), ("doctor", "ef")),
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_run_answers_by_the_template_that_it_learned(tmp_path, name):
    settings, talk = TASKS[name]
    rows = [json.dumps({"messages": messages(*talk)})] * 16
    (tmp_path / "talk.jsonl").write_text("\n".join(rows) + "\n")
    task = ChatTask(
        name=f"talk_{name}", vocabulary="bytes", files={"train": str(tmp_path / "talk.jsonl")}, **settings
    )
    train(
        experiment_of(
            model=GPT2Config(vocab_size=384, max_position_embeddings=160, **SIZES),
            train=LoaderConfig(
                mixture=task.name,
                batch_size=8,
                inputs_length=8,
                targets_length=128,
                layout="decoder",
                pack=False,
            ),
            tasks=(task,),
            model_dir=str(tmp_path / "run"),
            total_steps=150,
            intervals=Intervals(log_every_steps=150, evaluate_every_steps=0, save_every_steps=0),
            optimizer=AdamW(learning_rate=Constant(value=1e-2)),
        )
    )
    recorded = trained_chat(tmp_path / "run")
    assert recorded is not None
    assert recorded.writing == (TRAINED_CHATML if name == "chatml" else END_FIRST)
    served = ServedModel(t5x_like.from_pretrained(tmp_path / "run"), "run", Limits())
    assert served.chat is not None
    (features,) = task.tokenize([Conversation(talk, "here")])
    start, end = features["answers"][-2:]
    assert served.chat.ids(messages(*talk[:-1])) == features["tokens"][:start]
    assert served.chat.end_ids == (features["tokens"][end - 1],)
    assert served._pretrained.encode("a")["input_ids"].tolist() == [[ord("a") + 3]]  # no id is shifted in
    with TestClient(build_application(served)) as client:
        (choice,) = chat(client, messages=messages(*talk[:-1]))["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("ef", "stop")
        document = client.get("/openapi.json").json()
        schema = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"][
            "application/json"
        ]
        items = schema["schema"]["properties"]["messages"]["items"]
        assert items["properties"]["role"]["enum"] == list(recorded.writing.roles)
