"""Knowledge neurons of facts in a table: what is read, what is measured, and what is refused."""

import json

import numpy as np
import pytest

import t5x_like
from t5x_like.analysis.fact_prompts import answer_ids, fact_prompts
from t5x_like.analysis.feed_forward_weights import Neuron, output_embeddings, value_vectors
from t5x_like.analysis.knowledge_neurons import KnowledgeNeurons, erased_fact, updated_fact
from t5x_like.cli.main import main
from t5x_like.io.files import write_jsonl
from t5x_like.model import parameters
from tests.analysis.tiny_language_models import bert, gpt2
from tests.references import FIXTURES

MASKED = [
    {"prompt": "the sky is [MASK] .", "answer": "blue", "fact": "sky", "new": "red"},
    {"prompt": "the colour of the sky is [MASK] .", "answer": "blue", "fact": "sky", "new": "red"},
    {"prompt": "[MASK] grass .", "answer": "green", "fact": "grass", "new": ""},
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return gpt2(tmp_path_factory.mktemp("gpt2"))


def test_the_answer_of_an_encoder_is_at_its_mask(encoder):
    (prompt,) = fact_prompts(encoder, ["the sky [MASK] blue ."])
    mask, tokenizer = 4, encoder.vocabulary
    assert prompt.ids.tolist() == [2, *tokenizer.encode("the sky"), mask, *tokenizer.encode("blue ."), 3]
    assert prompt.ids[prompt.position] == mask


def test_the_answer_of_a_decoder_follows_its_prompt(decoder):
    (prompt,) = fact_prompts(decoder, ["the sky is "])
    assert prompt.position == len(prompt.ids) - 1
    whole = decoder.encode("the sky is blue")["input_ids"][0]
    assert [*prompt.ids, *answer_ids(decoder, ["blue"])] == whole.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "the sky is blue"}, r"has 0 \[MASK\]; this encoder predicts the answer at a mask"),
        ({"prompt": "[MASK] [MASK]"}, r"has 2 \[MASK\]"),
        (
            {"answer": "blue sky"},
            r"the answer 'blue sky' is 2 tokens \(blue sky\); give answers that are one",
        ),
        ({"answer": "purple"}, "the answer 'purple' is 1 tokens"),
        ({"answer": "red"}, "row 2: the fact 'sky' has the answers 'red' and 'blue'"),
    ],
)
def test_prompts_that_an_encoder_cannot_answer_are_refused(encoder, change, message):
    rows = [MASKED[0] | change, *MASKED[1:]]
    with pytest.raises(ValueError, match=message):
        KnowledgeNeurons().run(encoder, rows)


def test_a_decoder_reads_no_masks(decoder):
    with pytest.raises(ValueError, match=r"has \[MASK\], and a decoder predicts what follows"):
        fact_prompts(decoder, ["the sky is [MASK]"])


def test_one_fact_alone_has_no_others(encoder):
    with pytest.raises(ValueError, match="need at least two facts, and there is one"):
        KnowledgeNeurons().run(encoder, MASKED[:2])


@pytest.mark.parametrize("options", [{"steps": 0}, {"num_others": 0}, {"threshold": 1.5}, {"sharing": -0.1}])
def test_options_out_of_their_range_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} is"):
        KnowledgeNeurons(**options)


def test_effects_are_measured_on_the_facts_own_prompts_and_on_others(encoder):
    result = KnowledgeNeurons(new_answer="new", steps=5, batch_size=4).run(encoder, MASKED)
    sky, grass = result.values["facts"]
    assert (sky["prompts"], grass["prompts"]) == (2, 1)
    assert sky["suppressed"]["own"] < 0 < sky["amplified"]["own"]
    assert abs(sky["suppressed"]["others"]) != abs(sky["suppressed"]["own"])
    assert set(sky["edits"]) == {"erased", "updated"}
    assert sky["edits"]["updated"]["new_probability"] > sky["edits"]["erased"]["new_probability"]
    assert "edits" not in grass
    counts = np.zeros(2, int)
    for neuron in (*sky["neurons"], *grass["neurons"]):
        counts[neuron["layer"]] += 1
    assert result.values["neurons_by_layer"].tolist() == counts.tolist()
    assert len(result.figures) == 2


def test_an_update_writes_the_new_answer_in_place_of_the_old_one(encoder):
    neuron, words, before = Neuron(1, 3), output_embeddings(encoder), value_vectors(encoder)
    changed = updated_fact(encoder, [neuron], 5, 6)["encoder"]["layers"]["0"]["feed_forward"]["down"][
        "kernel"
    ]
    np.testing.assert_allclose(changed[1, 3], before[1][3] - words[5] + 8 * words[6], rtol=1e-5)
    np.testing.assert_array_equal(np.delete(changed[1], 3, axis=0), np.delete(before[1], 3, axis=0))
    np.testing.assert_array_equal(value_vectors(encoder)[1], before[1])  # the model itself is as before


def test_an_erased_fact_has_neurons_that_write_nothing(encoder):
    graphdef, _ = parameters.split(encoder.model)
    changed = parameters.merge(graphdef, erased_fact(encoder, [Neuron(0, 2)]))
    assert not np.any(changed.encoder.layers["0"].feed_forward.down.kernel[...][0, 2])


def test_neurons_that_do_not_exist_are_refused(encoder):
    with pytest.raises(ValueError, match="no neuron 16 in layer 0; there are 2 layers of 16 neurons"):
        updated_fact(encoder, [Neuron(0, 16)], 5, 6)


def test_a_model_whose_layers_share_weights_has_no_facts_of_one_layer():
    albert = t5x_like.from_pretrained(FIXTURES / "models/albert_pretraining")
    with pytest.raises(ValueError, match="share their feed-forward weights"):
        erased_fact(albert, [Neuron(0, 0)])
    with pytest.raises(ValueError, match="words have vectors of width 14, and layers write width 24"):
        output_embeddings(albert)


def test_the_verb_writes_the_facts_of_a_decoder(decoder, tmp_path, capsys):
    rows = [
        {"prompt": "the sky is", "answer": "blue", "fact": "sky"},
        {"prompt": "grass is", "answer": "green", "fact": "grass"},
    ]
    write_jsonl(tmp_path / "facts.jsonl", rows)
    command = ["analyze", decoder.checkpoint.directory, str(tmp_path / "facts.jsonl")]
    command += [
        "--what",
        "knowledge_neurons",
        "--option",
        "steps=2",
        "--output_dir",
        str(tmp_path / "looked"),
    ]
    assert main(command) == 0
    assert [
        each["answer"] for each in json.loads((tmp_path / "looked/analysis.json").read_text())["facts"]
    ] == [
        "blue",
        "green",
    ]
    assert "prompts of other facts" in capsys.readouterr().out
