import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.objectives.causal_lm import answers_only
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.chat import ChatTask, Conversation
from t5x_like.text.tasks.chat_templates import CHATML, GEMMA, LLAMA_3, PLAIN, TEMPLATES, ChatTemplate
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer

TALK = [
    ("system", "Be kind."),
    ("user", "Hi"),
    ("assistant", "Hello!"),
    ("user", "Bye"),
    ("assistant", "See you"),
]
SPECIAL = {"<|im_start|>": 358, "<|im_end|>": 357}


def written(template, messages=TALK):
    return "".join(part.text for part in template.write(messages))


def answers_of(template, messages=TALK):
    return ["".join(part.text) for part in template.write(messages) if part.is_answer]


def test_chatml_is_written_as_its_models_expect():
    assert written(CHATML) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello!<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nSee you<|im_end|>\n"
    )
    assert answers_of(CHATML) == ["Hello!", "<|im_end|>", "See you", "<|im_end|>"]


def test_llama_3_is_written_as_its_models_expect():
    assert written(LLAMA_3, TALK[:3]) == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
    )
    assert answers_of(LLAMA_3, [("user", "Hi"), ("assistant", " Hello! \n")]) == ["Hello!", "<|eot_id|>"]


def test_gemma_calls_the_assistant_model():
    assert written(GEMMA, TALK[1:3]) == (
        "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
    )
    assert answers_of(GEMMA, TALK[1:3]) == ["Hello!", "<end_of_turn>"]


def test_plain_talk_ends_answers_with_the_end_of_sequence():
    assert written(PLAIN, TALK[:3]) == "Be kind.\n\nUser:\nHi\nAssistant:\nHello!{eos}\n"
    assert answers_of(PLAIN, TALK[:3]) == ["Hello!", "{eos}"]


def make_task(path, rows, **changes):
    lines = [row if isinstance(row, str) else json.dumps({"messages": row}) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    settings = {"name": "talk", "vocabulary": "bytes", "files": {"train": str(path)}}
    return ChatTask(**(settings | changes))


def as_messages(talk):
    return [{"role": role, "content": content} for role, content in talk]


def parts_of(task, talk=TALK):
    """Return the decoded pieces of one conversation, and for each whether it is learned."""
    tokenizer = task.tokenizer
    (features,) = task.tokenize([Conversation(tuple(talk), "here")])
    example = answers_only(np.array(features["tokens"]), np.array(features["answers"]), limit=10_000)
    return "".join(
        f"[{tokenizer.piece(token)}]" if token > 258 else f"{tokenizer.decode([token])}"
        for token in example.targets[example.weights > 0].tolist()
    )


def test_only_answers_and_their_ends_are_learned(tmp_path):
    task = make_task(tmp_path / "a.jsonl", [as_messages(TALK)], template="chatml", special_ids=SPECIAL)
    assert parts_of(task) == "Hello![<extra_id_1>]See you[<extra_id_1>]"


@given(content=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_special_strings_in_messages_stay_text(content):
    marked = "<|im_end|>" + content + "<|im_start|>{eos}"
    task = ChatTask(
        name="talk", vocabulary="bytes", files={"train": "x"}, template="chatml", special_ids=SPECIAL
    )
    talk = (("user", marked), ("assistant", marked))
    (features,) = task.tokenize([Conversation(talk, "here")])
    tokens = np.array(features["tokens"])
    assert (tokens > 258).sum() == 4
    assert 1 not in tokens
    begin, end = features["answers"]
    assert tokens[begin : end - 1].tolist() == [byte + 3 for byte in marked.encode()]
    assert tokens[end - 1] == SPECIAL["<|im_end|>"]


def test_a_vocabularys_own_pieces_are_the_special_ids(tmp_path):
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    pieces = {piece: index for index, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(
        [AddedToken(string) for string in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    task = make_task(
        tmp_path / "a.jsonl",
        [as_messages(TALK)],
        template="chatml",
        vocabulary=str(tmp_path / "tokenizer.json"),
        num_sentinels=0,
    )
    (features,) = task.tokenize(list(task.read("train")))
    expected = tokenizer.encode(written(CHATML)).ids  # the library reads special strings as ids
    assert features["tokens"] == expected
    begin, end = features["answers"][:2]
    assert "".join(tokenizer.id_to_token(token) for token in expected[begin:end]) == "Hello!<|im_end|>"


def test_a_template_of_ones_own_with_other_roles():
    template = ChatTemplate(
        turns={"doctor": "D: {content}{eos}", "patient": "P: {content} "}, answering_role="doctor"
    )
    task = ChatTask(name="talk", vocabulary="bytes", files={"train": "x"}, template=template)
    (features,) = task.tokenize([Conversation((("patient", "ow"), ("doctor", "rest")), "here")])
    text = open_tokenizer("bytes").decode([token for token in features["tokens"] if token != 1])
    assert text == "P: ow D: rest"
    assert features["tokens"][-1] == 1
    assert features["answers"] == [9, 14]


def test_templates_come_from_gin(tmp_path):
    gin = pytest.importorskip("gin")
    config = """
from __gin__ import dynamic_registration
from t5x_like.text.tasks import chat
from t5x_like.text.tasks import chat_templates

chat.ChatTask:
    name = 'talk'
    vocabulary = 'bytes'
    files = {'train': 'talk.jsonl'}
    template = @chat_templates.ChatTemplate()
    special_ids = {'<go>': 300}

chat_templates.ChatTemplate:
    turns = {'user': '<go>{content}', 'assistant': '<go>{content}{eos}'}
    special = ('<go>',)
"""
    with gin.unlock_config():
        gin.parse_config(config + "\nTASK = @chat.ChatTask()\n")
    task = gin.query_parameter("TASK/macro.value").scoped_configurable_fn()
    gin.clear_config()
    assert task.writing.special_strings == ("<go>", "{eos}")


@given(
    pieces=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=5),
    last=st.integers(0, 4),
    limit=st.integers(1, 40),
)
def test_weights_are_those_of_the_tokens_that_answers_hold(pieces, last, limit):
    lengths = [length for pair in pieces for length in pair] + [last]
    learned = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).tolist()
    if len(learned) < 2:
        return
    flips = np.flatnonzero(np.diff([0, *map(int, learned), 0]))
    example = answers_only(np.arange(len(learned)), flips, limit=limit)
    assert example.targets.tolist() == list(range(1, len(learned)))[:limit]
    assert example.inputs.tolist() == list(range(len(learned) - 1))[:limit]
    assert (example.weights > 0).tolist() == learned[1 : limit + 1]


def talks(count):
    return [
        as_messages([("user", "?" * (index % 9 + 1)), ("assistant", "!" * (index % 13))])
        for index in range(count)
    ]


@pytest.mark.parametrize("pack", [True, False])
def test_the_loader_packs_conversations_and_learns_answers(tmp_path, pack):
    name = f"talk_{tmp_path.name}"
    registry.register([make_task(tmp_path / "a.jsonl", talks(50), name=name)])
    config = LoaderConfig(
        mixture=name,
        batch_size=4,
        inputs_length=2,
        targets_length=120,
        pack=pack,
        repeat=False,
        shuffle=False,
    )
    batches, learned = list(build_loader(config)), 0
    for batch in batches:
        assert batch.encoder_input_tokens is None
        assert batch.decoder_segment_ids.max() > (1 if pack else 0)
        learned += int(batch.loss_weights.sum())
        assert set(batch.target_tokens[batch.loss_weights > 0].tolist()) <= {ord("!") + 3, 1}
    assert learned == sum(index % 13 + 1 for index in range(50))


@pytest.mark.seqio
def test_seqio_gives_the_same_examples(tmp_path):
    name = f"talk_{tmp_path.name}"
    task = make_task(tmp_path / "a.jsonl", talks(5), name=name)
    registry.register([task])
    dataset = registration.get_task(name).get_dataset({"inputs": 200, "targets": 200}, "train", shuffle=False)
    rows = list(dataset.as_numpy_iterator())
    tokenized = task.tokenize(list(task.read("train")))
    assert [row["targets"].tolist() for row in rows] == [each["tokens"][1:] for each in tokenized]
    assert [row["inputs"].tolist() for row in rows] == [each["tokens"][:-1] for each in tokenized]
    assert [row["weights"].sum() for row in rows] == [1, 2, 3, 4, 5]


@pytest.mark.seqio
def test_a_stream_gives_the_same_batches_as_memory(tmp_path):
    name = f"talk_{tmp_path.name}"
    registry.register([make_task(tmp_path / "a.jsonl", talks(30), name=name)])
    settings = {"mixture": name, "batch_size": 4, "inputs_length": 2, "targets_length": 90, "repeat": False}
    held = list(build_loader(LoaderConfig(**settings, shuffle=False)))
    streamed = list(build_loader(LoaderConfig(**settings, shuffle=False, max_tokens_in_memory=1)))
    total = [sum(batch.loss_weights.sum() for batch in each) for each in (held, streamed)]
    assert total[0] == total[1] == sum(index % 13 + 1 for index in range(30))


def test_a_cache_gives_the_same_batches_as_memory(tmp_path):
    name = f"talk_{tmp_path.name}"
    task = make_task(tmp_path / "a.jsonl", talks(30), name=name)
    registry.register([task])
    cache_split(task, "train", str(tmp_path / "cache"))
    settings = {"mixture": name, "batch_size": 4, "inputs_length": 2, "targets_length": 90, "repeat": False}
    held = build_loader(LoaderConfig(**settings))
    cached = build_loader(LoaderConfig(**settings, cache=str(tmp_path / "cache")))
    for left, right in zip(held, cached, strict=True):
        for one, other in zip(left, right, strict=True):
            np.testing.assert_array_equal(one, other)
    other = make_task(tmp_path / "a.jsonl", talks(30), name=name, special_ids={"{eos}": 300})
    with pytest.raises(ValueError, match="special_ids"):
        cache_split(other, "train", str(tmp_path / "cache"))


def make_pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text("question\tanswer\n" + "ab\tcde\n" * 8)
    name = f"pairs_{tmp_path.name}"
    task = TextTask(
        name=name,
        vocabulary="bytes",
        files={"train": str(tmp_path / "pairs.tsv")},
        input_template="{question}",
        target_template="{answer}",
    )
    registry.register([task])
    return name


def test_prompts_and_responses_of_plain_rows_can_be_read_in_order(tmp_path):
    settings = {"mixture": make_pairs(tmp_path), "batch_size": 2, "inputs_length": 4, "targets_length": 20}
    batch = next(build_loader(LoaderConfig(**settings, layout="decoder", prefix_attention="causal")))
    assert batch.prefix is None
    a, b, c, d, e = (ord(letter) + 3 for letter in "abcde")
    assert batch.decoder_input_tokens[0, :12].tolist() == [a, b, 1, c, d, e] * 2
    assert batch.target_tokens[0, :12].tolist() == [b, 1, c, d, e, 1] * 2
    assert batch.loss_weights[0, :12].tolist() == [0, 0, 1, 1, 1, 1] * 2
    prefix = next(build_loader(LoaderConfig(**settings, layout="decoder")))
    assert prefix.target_tokens[0, :7].tolist() == [a, b, 1, c, d, e, 1]
    assert prefix.loss_weights[0, :7].tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert prefix.prefix[0, :7].tolist() == [1, 1, 1, 1, 0, 0, 0]
    with pytest.raises(ValueError, match="prefix_attention needs 'bidirectional' or 'causal', got 'both'"):
        LoaderConfig(**settings, prefix_attention="both")


@pytest.mark.parametrize("prefix_attention", ["bidirectional", "causal"])
def test_conversations_mix_with_plain_rows(tmp_path, prefix_attention):
    pairs, name = make_pairs(tmp_path), f"talk_{tmp_path.name}"
    registry.register([make_task(tmp_path / "a.jsonl", talks(30), name=name)])
    rates = {pairs: 1.0, name: 1.0}
    registry.register([Mixture(name=f"mixed_{name}", tasks=tuple(rates), rates=rates)])
    settings = {"mixture": f"mixed_{name}", "batch_size": 4, "inputs_length": 4, "targets_length": 90}
    batch = next(build_loader(LoaderConfig(**settings, layout="decoder", prefix_attention=prefix_attention)))
    is_inside = batch.decoder_positions > 0
    before = np.roll(batch.target_tokens, 1, axis=1)
    np.testing.assert_array_equal(batch.decoder_input_tokens[is_inside], before[is_inside])


BAD_ROWS = {
    "no list": ('{"messages": {"role": "user"}}', r"\[\{\"role\": …, \"content\": …\}, …\] is expected"),
    "text": ('{"messages": "hello"}', "not JSON"),
    "no column": ('{"talk": []}', "no column 'messages'; the columns are talk"),
    "no content": ('{"messages": [{"role": "user"}]}', "message 0 needs a 'content' that is text, got None"),
    "role": (
        '{"messages": [{"role": "tool", "content": "x"}]}',
        "no turn for 'tool' of message 0, only for system",
    ),
    "no answer": ('{"messages": [{"role": "user", "content": "x"}]}', "no message of 'assistant'"),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_bad_conversations_are_named_or_skipped(tmp_path, bad):
    line, message = BAD_ROWS[bad]
    good = as_messages(TALK)
    task = make_task(tmp_path / "a.jsonl", [good, line, good])
    with pytest.raises(ValueError, match=message) as error:
        list(task.read("train"))
    assert f"{tmp_path / 'a.jsonl'}:2" in str(error.value)
    policy = RowPolicy("skip")
    assert (
        len(
            list(make_task(tmp_path / "a.jsonl", [good, line, good], on_bad_row="skip").read("train", policy))
        )
        == 2
    )
    assert policy.num_skipped == 1


def test_a_vocabulary_without_the_templates_pieces_is_refused_with_a_way_out(tmp_path):
    task = make_task(tmp_path / "a.jsonl", [as_messages(TALK)], template="chatml")
    with pytest.raises(
        ValueError, match=r"no piece '<\|im_start\|>', '<\|im_end\|>'.*special_ids=\{'<\|im_start\|>': 358"
    ):
        task.tokenize(list(task.read("train")))
    wrong = make_task(
        tmp_path / "a.jsonl",
        [as_messages(TALK)],
        template="chatml",
        special_ids=SPECIAL | {"<|im_end|>": 900},
    )
    with pytest.raises(ValueError, match="lie outside the vocabulary's 359 ids"):
        wrong.tokenize(list(wrong.read("train")))


def test_bad_templates_are_refused():
    with pytest.raises(ValueError, match=r"the turn of 'user' must hold \{content\} once"):
        ChatTemplate(turns={"user": "hi", "assistant": "{content}"})
    with pytest.raises(ValueError, match="answering_role 'assistant' has no turn; there are user"):
        ChatTemplate(turns={"user": "{content}"})
    with pytest.raises(ValueError, match="no template 'alpaca'; there are plain, chatml, llama_3, gemma"):
        ChatTask(name="talk", vocabulary="bytes", files={"train": "x"}, template="alpaca")
    assert set(TEMPLATES) == {"plain", "chatml", "llama_3", "gemma"}
