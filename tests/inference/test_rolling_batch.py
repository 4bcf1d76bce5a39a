"""Rows of a rolling batch get the texts that each prompt gets alone, whenever it joins."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.inference.generator import GenerationConfig, Generator, continue_prompts
from t5x_like.inference.length_batches import pad_prompts
from t5x_like.inference.logits_processors import LogitsProcessors
from t5x_like.inference.rolling_batch import PromptRow, RollingBatch
from t5x_like.inference.sampling import row_keys
from t5x_like.model import parameters
from t5x_like.model.adapters import PrefixTuning, PromptTuning
from t5x_like.model.zoo.t5_lm import T5LanguageModelConfig
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import tree_shardings
from tests.model.zoo.tiny_models import TINY
from tests.slow_cases import slow_except

DECODERS = (
    "gemma2",
    "gpt2",
    "gpt3",
    "gpt_neo",
    "gpt_neox",
    "llama",
    "mistral",
    "olmo2",
    "qwen3",
)
ENCODER_DECODERS = ("bart", "longt5_local", "mt5", "t5_1_0")
# Names end with _lm for decoders.
OTHERS = {
    "prefix_lm": T5LanguageModelConfig(
        vocab_size=61, model_dim=16, mlp_dim=24, num_heads=2, head_dim=8, num_layers=2, reads_prefixes=True
    ),
    "prompt_tuned_lm": replace(TINY["llama"], adapter=PromptTuning(length=3)),
    "prefix_tuned_lm": replace(TINY["llama"], adapter=PrefixTuning(length=3)),
    "prompt_tuned": replace(TINY["t5_1_0"], adapter=PromptTuning(length=3)),
    "shared_stacks": replace(TINY["mt5"], share_stacks=True, num_decoder_layers=2),
}
LENGTHS = (3, 8, 1, 5, 2, 7, 4, 6, 1, 3, 5)
NEW = (8, 1, 5, 3, 8, 2, 6, 8, 7, 4, 8)
KEYS = np.asarray(jax.random.key_data(row_keys(jax.random.key(3), len(LENGTHS))))
ENDS = (5, 11)


def built(name):
    config = OTHERS.get(name) or TINY[name]
    graphdef, params = parameters.split(config.build(jax.random.key(0)))
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, config.vocab_size, length).tolist() for length in LENGTHS]
    return graphdef, params, prompts, name in DECODERS or name.endswith("_lm")


def rolling(graphdef, is_decoder, **options):
    settings = {"row_counts": (1, 4), "start_id": 0, "end_ids": ENDS, "draws": True, "limit": 8}
    return RollingBatch(graphdef, MeshConfig().build(), is_decoder=is_decoder, **settings | options)


def read_out(batch, params, **options):
    """The ids of all rows of a batch by name, and the most rows at once."""
    ids = {}
    while batch.num_prompts:
        for each in batch.advance(params, **options):
            assert ids.get(each.name, []) == each.ids[: len(ids.get(each.name, []))]
            ids[each.name] = each.ids
    return ids


def together(graphdef, params, prompts, is_decoder, *, new=NEW, ends=ENDS, **settings):
    """The ids of all prompts by one loop, each row to its own end."""
    ids, mask = map(jnp.asarray, pad_prompts(prompts, length=8, on_the_left=is_decoder))
    keys = jax.random.wrap_key_data(jnp.asarray(KEYS))

    @jax.jit
    def continued(params):
        settings_ = {"max_new_tokens": max(new), "eos_token_id": ends, **settings}
        model = parameters.merge(graphdef, params)
        return continue_prompts(model, ids, mask, keys, start_id=0, settings=settings_)[0]

    written = []
    for row, most in zip(continued(params).tolist(), new, strict=True):
        places = [index for index, token in enumerate(row[:most]) if token in ends]
        written.append(row[: places[0] + 1] if places else row[:most])
    return written


@pytest.mark.parametrize(
    "name", slow_except([*DECODERS, *ENCODER_DECODERS], ["gemma2", "gpt2", "gpt_neo", "bart", "t5_1_0"])
)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_rows_have_the_texts_that_their_prompts_have_alone(name, temperature):
    graphdef, params, prompts, is_decoder = built(name)
    batch = rolling(graphdef, is_decoder)
    for index, prompt in enumerate(prompts):
        batch.add(index, PromptRow(prompt, NEW[index], temperature, key=KEYS[index]))
    written = read_out(batch, params)
    expected = together(graphdef, params, prompts, is_decoder, temperature=temperature)
    assert [written[index] for index in range(len(prompts))] == expected
    assert any(row[-1] in ENDS for row in expected) or temperature == 0


@pytest.mark.parametrize("name", OTHERS)
def test_rows_see_what_comes_before_their_prompts(name):
    graphdef, params, prompts, is_decoder = built(name)
    batch = rolling(graphdef, is_decoder)
    for index, prompt in enumerate(prompts):
        batch.add(index, PromptRow(prompt, NEW[index], 0.8, key=KEYS[index]))
    written = read_out(batch, params)
    expected = together(graphdef, params, prompts, is_decoder, temperature=0.8)
    assert [written[index] for index in range(len(prompts))] == expected


@pytest.mark.parametrize("name", ["llama", "mistral", "t5_1_0"])
def test_slots_grow_with_the_longest_text(name):
    graphdef, params, prompts, is_decoder = built(name)
    new = (150, 10, 80, 3, 40, 7, 100, 2, 60, 5, 1)
    batch = rolling(graphdef, is_decoder, end_ids=())
    for index, prompt in enumerate(prompts):
        batch.add(index, PromptRow(prompt, new[index], 0.8, key=KEYS[index]))
    written = read_out(batch, params)
    slots = {sizes.slots for sizes in batch.programs if hasattr(sizes, "slots")}
    assert min(slots) <= 64
    assert max(slots) > 128
    expected = together(graphdef, params, prompts, is_decoder, new=new, ends=(), temperature=0.8)
    assert [written[index] for index in range(len(prompts))] == expected


def test_rows_of_other_settings_share_a_batch():
    graphdef, params, prompts, is_decoder = built("llama")
    settings = [{"temperature": 0.0}, {"temperature": 1.3, "top_k": 5}, {"temperature": 0.7, "top_p": 0.6}]
    expected = [together(graphdef, params, prompts, is_decoder, **each) for each in settings]
    batch = rolling(graphdef, is_decoder)
    for index, prompt in enumerate(prompts):
        batch.add(index, PromptRow(prompt, NEW[index], key=KEYS[index], **settings[index % 3]))
    written = read_out(batch, params)
    for index in range(len(prompts)):
        assert written[index] == expected[index % 3][index]


@pytest.mark.parametrize("name", ["gpt2", "t5_1_0"])
def test_processors_count_the_tokens_of_each_row(name):
    graphdef, params, prompts, is_decoder = built(name)
    processors = LogitsProcessors(
        repetition_penalty=1.5,
        no_repeat_ngram_size=2,
        min_new_tokens=2,
        forced_last_ids=(ENDS[0],),
        counts_prompt=is_decoder,
    )
    batch = rolling(graphdef, is_decoder, processors=processors, draws=False)
    for index, prompt in enumerate(prompts):
        batch.add(index, PromptRow(prompt, max(NEW)))
    written = read_out(batch, params)
    expected = together(graphdef, params, prompts, is_decoder, temperature=0.0, processors=processors)
    for index, most in enumerate(NEW):
        assert written[index][:most] == expected[index][:most]


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_prompts_join_and_leave_while_others_go_on(name):
    graphdef, params, prompts, is_decoder = built(name)
    expected = together(graphdef, params, prompts, is_decoder, temperature=0.8)
    batch, seen = rolling(graphdef, is_decoder), {}

    def add(index):
        batch.add(index, PromptRow(prompts[index], NEW[index], 0.8, key=KEYS[index]))

    add(0)
    for index in range(1, len(prompts)):
        add(index)
        if index == 4:
            batch.drop(4)
        for each in batch.advance(params, max_steps=2):
            seen[each.name] = each.ids
            assert each.ids == expected[each.name][: len(each.ids)]
    while batch.num_prompts:
        seen |= {each.name: each.ids for each in batch.advance(params, max_steps=3)}
    assert seen == {index: ids for index, ids in enumerate(expected) if index != 4}


def test_a_row_that_is_dropped_ends():
    graphdef, params, prompts, is_decoder = built("llama")
    batch = rolling(graphdef, is_decoder, end_ids=())
    batch.add("kept", PromptRow(prompts[0], 100))
    batch.add("left", PromptRow(prompts[1], 10_000))
    batch.advance(params, max_steps=1)
    batch.drop("left")
    (done,) = [each for each in batch.advance(params) if each.has_ended] or batch.advance(params)
    assert (done.name, len(done.ids), batch.num_prompts) == ("kept", 100, 0)


def test_rows_are_split_among_devices():
    graphdef, params, prompts, is_decoder = built("llama")
    axes = parameters.abstract(TINY["llama"])[2]
    config = GenerationConfig(max_new_tokens=6, temperature=1.0)
    settings = {"end_ids": ENDS, "batch_size": 4, "limit": 8}
    expected = dict(
        Generator(graphdef, MeshConfig().build(), is_decoder=is_decoder)(params, prompts, config, **settings)
    )
    mesh = MeshConfig(data=2, model=2).build(jax.devices()[:4])
    split = jax.device_put(params, tree_shardings(axes, params, mesh))
    written = dict(Generator(graphdef, mesh, is_decoder=is_decoder)(split, prompts, config, **settings))
    assert written == expected
