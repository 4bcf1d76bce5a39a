import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.evaluation.prompts import DECODER_STYLE, Prompter, PromptStyle
from t5x_like.text.tasks.pairs import TextPair

POOL = tuple(TextPair(f"q{index}", f"a{index}", {}, "") for index in range(10))


def prompter(**settings):
    return Prompter(**({"task": "t", "style": DECODER_STYLE, "num_shots": 3, "pool": POOL} | settings))


def test_examples_precede_the_question_and_are_solved():
    few_shot = prompter(num_shots=2)
    prompt = few_shot.prompt(0, "what?")
    *examples, question = few_shot.write(prompt).split("\n\n")
    assert question == "what?\nanswer:"
    assert len(examples) == 2
    assert all(example.startswith("q") and f"\nanswer: a{example[1]}" in example for example in examples)
    assert few_shot.write(prompt, 1) == f"{examples[1]}\n\n{question}"
    assert few_shot.write(prompt, 0) == question


@given(st.integers(0, 1000), st.integers(0, 9))
def test_the_seed_and_the_question_decide_which_are_shown(number, seed):
    first, second = (prompter(seed=seed).prompt(number, "x") for _ in range(2))
    assert first == second
    assert len(set(first.examples)) == 3


def test_other_seeds_questions_and_tasks_show_others():
    shown = {
        prompter(**settings).prompt(number, "x").examples
        for settings, number in (({}, 0), ({"seed": 1}, 0), ({"task": "u"}, 0), ({}, 1))
    }
    assert len(shown) == 4


@given(st.integers(0, 300))
def test_the_question_itself_is_never_shown_solved(number):
    assert "q4" not in " ".join(prompter(num_shots=9).prompt(number, "q4").examples)


def test_braces_in_a_question_are_text():
    style = PromptStyle(question="Q: {inputs}", answer="A: {targets}")
    assert style.format_example("{targets}", "{x}") == "Q: {targets} A: {x}"


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(ValueError, match="11 examples are to be shown, its training split has 10"):
        prompter(num_shots=11)
    with pytest.raises(ValueError, match=r"must contain \{inputs\}"):
        PromptStyle(question="no place")
