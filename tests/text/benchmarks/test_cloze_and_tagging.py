"""Cloze tests, tagged words and texts to measure, from files as they are published."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.cloze import first_word, last_word
from t5x_like.text.benchmarks.language_modeling import (
    ByteSplits,
    read_lines,
    sentence_perplexities,
    text_benchmark,
    text_perplexities,
)
from t5x_like.text.benchmarks.tagging import tag_accuracy
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.metrics import chunk_f1
from t5x_like.text.metrics.perplexity import TextCost, cost_of
from t5x_like.text.tasks.rows import BadRow


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def task(name: str, folder: Path, **settings: Any) -> BenchmarkTask:
    return catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder), **settings)


def pairs(name: str, folder: Path, split: str) -> list[tuple[str, str]]:
    return [(row.inputs, row.targets) for row in task(name, folder).read(split)]


def test_lambada_asks_for_the_last_word(tmp_path: Path) -> None:
    write(tmp_path / "lambada" / "lambada_development_plain_text.txt", "he took the kite\n\nshe sang\n")
    assert pairs("lambada", tmp_path, "validation") == [("he took the", "kite"), ("she", "sang")]
    write(tmp_path / "lambada" / "lambada_test.jsonl", '{"text": "“Go,” said Al"}\n{"text": "one"}\n')
    with pytest.raises(
        ValueError, match=r"lambada_test\.jsonl:2: a passage of one word has none before its last"
    ):
        pairs("lambada", tmp_path, "test")
    assert [first_word(text) for text in (" kite, and", "“Al”", "…", "", '"')] == ["kite", "Al", "…", "", '"']


@given(st.text(), st.text())
def test_a_passage_is_what_comes_before_its_last_word_and_that(before: str, after: str) -> None:
    passage = f"a{before} {after}b"
    (formatted,) = last_word({"passage": passage})
    assert f"{formatted['inputs']} {formatted['targets']}" == passage.strip()


def book(answer: str = "hay", *, first: int = 1) -> str:
    lines = [f"{index} S{index} ." for index in range(first, first + 20)]
    return "\n".join([*lines, f"{first + 20} The goat ate XXXXX .\t{answer}\t\tTom|hay|mill"]) + "\n\n"


def test_the_book_test_is_read_a_question_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "cbt" / "CBTest" / "data" / "cbtest_CN_valid_2000ex.txt"
    write(file, book() + book("Tom"))
    result = pairs("cbt_cn", tmp_path, "validation")
    assert [targets for _, targets in result] == ["hay", "Tom"]
    assert result[0][0].startswith(
        "cbt question: The goat ate XXXXX . options: Tom, hay, mill passage: S1 . S2 . "
    )
    definition = task("cbt_cn", tmp_path)
    heads = [definition.benchmark.head.read(row.values) for row in definition.raw_rows("validation")]  # pyright: ignore
    assert [row.label for row in heads] == [1, 0]
    for text, message in [
        (book("cow"), "2000ex.txt:21: the answer 'cow' is none of the options: Tom, hay, mill"),
        (book(first=2), "2000ex.txt:1: line 1 of a question must begin with 1: '2 S2 .'"),
        (book().replace("\t\t", ""), "2000ex.txt:21: 2 columns, where a question, its answer and options"),
        ("1 S .\n2 Q XXXXX\ta\t\ta|b\n", "2000ex.txt:2: a question of 2 lines, where 21 are expected"),
        (book().replace("XXXXX", "it"), "2000ex.txt:21: the question has no XXXXX"),
    ]:
        write(file, text)
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - what it says is looked at below
            pairs("cbt_cn", tmp_path, "validation")
        assert message in str(raised.value)


CONLL = """-DOCSTART- -X- -X- O

Ann NNP I-NP I-PER
Lee NNP I-NP I-PER
saw VBD I-VP O
Oslo NNP I-NP I-LOC
Norway NNP B-NP B-LOC

Rain NN I-NP O
"""


def test_names_are_read_from_four_columns_and_begin_with_b(tmp_path: Path) -> None:
    write(tmp_path / "conll2003" / "eng.testa", CONLL)
    assert pairs("conll2003_ner", tmp_path, "validation") == [
        ("conll2003 tokens: Ann Lee saw Oslo Norway", "B-PER I-PER O B-LOC B-LOC"),
        ("conll2003 tokens: Rain", "O"),
    ]
    definition = task("conll2003_ner", tmp_path)
    (row, _) = [definition.benchmark.head.read(row.values) for row in definition.raw_rows("validation")]  # pyright: ignore
    assert row.words == ("Ann", "Lee", "saw", "Oslo", "Norway")
    assert [definition.benchmark.head.classes[tag] for tag in row.tags][:2] == ["B-PER", "I-PER"]  # pyright: ignore


def test_other_spaces_than_those_between_columns_belong_to_a_word(tmp_path: Path) -> None:
    lines = ["25\u00a0km CD I-NP O", "in\u2009Oslo NNP I-NP I-LOC", "\u3000 . O O"]
    write(tmp_path / "conll2003" / "eng.train", "\n".join([*lines, ""]))
    (row,) = [dict(row.values) for row in task("conll2003_ner", tmp_path).raw_rows("train")]  # pyright: ignore
    assert row["tokens"] == ["25\u00a0km", "in\u2009Oslo", "\u3000"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Oslo NNP I-LOC", r"eng\.train:4: 3 columns, where 4 are expected: 'Oslo NNP I-LOC'"),
        ("Oslo NNP I-NP I-TOWN", r"eng\.train:4: the tag 'B-TOWN' of 'Oslo' is outside the set: O, B-PER"),
    ],
)
def test_a_bad_line_is_named_and_its_sentence_left_out(tmp_path: Path, line: str, message: str) -> None:
    write(tmp_path / "conll2003" / "eng.train", f"Rain NN I-NP O\n\nIn IN I-PP O\n{line}\n\nSnow NN I-NP O\n")
    with pytest.raises(ValueError, match=message):
        pairs("conll2003_ner", tmp_path, "train")
    rows = list(task("conll2003_ner", tmp_path, on_bad_row="skip").read("train"))
    assert [row.inputs for row in rows] == ["conll2003 tokens: Rain", "conll2003 tokens: Snow"]


def test_phrases_are_read_from_three_columns_and_from_the_hub(tmp_path: Path) -> None:
    write(tmp_path / "conll2000" / "train.txt", "He PRP B-NP\nran VBD B-VP\n")
    assert pairs("conll2000_chunking", tmp_path, "train") == [("conll2000 tokens: He ran", "B-NP B-VP")]
    folder = tmp_path / "conll2003"
    folder.mkdir()
    columns = {"tokens": [["Ann", "ran"]], "ner_tags": [[1, 0]], "pos_tags": [[22, 38]]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "test-00000-of-00001.parquet")
    assert pairs("conll2003_ner", tmp_path, "test") == [("conll2003 tokens: Ann ran", "B-PER O")]


UD = """# sent_id = 1
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# text = San José
1\tSan José\tSan José\tPROPN\tNNP\t_\t0\troot\t_\t_
"""


def test_parts_of_speech_are_those_of_words(tmp_path: Path) -> None:
    file = write(tmp_path / "ud" / "UD_English-EWT" / "en_ewt-ud-dev.conllu", UD)
    assert pairs("ud_en_ewt_pos", tmp_path, "validation") == [
        ("ud tokens: Do n't go", "AUX PART VERB"),
        ("ud tokens: San José", "PROPN"),
    ]
    for old, new, message in [
        ("2\tn't\tnot\tPART", "2\tn't\tPART", "dev.conllu:5: 9 columns between tabs, where CoNLL-U has 10"),
        (
            "\tVERB\tVB\t_\t0",
            "\tRUN\tVB\t_\t0",
            "dev.conllu:6: the tag 'RUN' of 'go' is outside the set: ADJ, ADP",
        ),
        ("3\tgo", "x\tgo", "dev.conllu:6: 'x' is no word's number"),
    ]:
        write(file, UD.replace(old, new, 1))
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - what it says is looked at below
            pairs("ud_en_ewt_pos", tmp_path, "validation")
        assert message in str(raised.value)


def test_the_hubs_parts_of_speech_are_renumbered(tmp_path: Path) -> None:
    folder = tmp_path / "universal_dependencies" / "en_ewt"
    folder.mkdir(parents=True)
    columns = {"tokens": [["Don't", "Do", "n't", "go"]], "upos": [[13, 17, 7, 16]]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "train-00000-of-00001.parquet")
    assert pairs("ud_en_ewt_pos", tmp_path, "train") == [("ud tokens: Do n't go", "AUX PART VERB")]


def test_written_tags_are_as_many_as_there_are_words() -> None:
    benchmark = catalogue.benchmark("conll2003_ner")
    read: Any = benchmark.postprocess
    example = {"tokens": ["Ann", "saw", "Oslo"]}
    truth = read("B-PER O B-LOC", example=example, is_target=True)
    assert truth == ["B-PER", "O", "B-LOC"]
    guesses = [
        read(text, example=example) for text in ("B-PER O B-LOC", "B-PER", "B-PER maybe B-LOC O O", "")
    ]
    assert [len(guess) for guess in guesses] == [3, 3, 3, 3]
    assert [chunk_f1([truth], [guess])["recall"] for guess in guesses] == [100.0, 50.0, 100.0, 0.0]


def test_the_accuracy_of_tags_is_over_words() -> None:
    assert tag_accuracy([["DET", "NOUN"], ["VERB"]], [["DET", "VERB"], ["VERB"]]) == {
        "accuracy": pytest.approx(200 / 3)
    }
    with pytest.raises(ValueError, match="sentence 0 has 1 tags but 0 predicted ones"):
        tag_accuracy([["DET"]], [[]])


WIKITEXT = "\n = Mill = \n\n A mill . \n\n = = History = = \n\n It burned . \n\n = Goat = \n\n A = b . \n"


def test_wikitexts_articles_begin_with_their_titles(tmp_path: Path) -> None:
    write(tmp_path / "wikitext-2" / "wiki.valid.tokens", WIKITEXT)
    rows = list(task("wikitext2", tmp_path).read("validation"))
    assert "\n" + "".join(row.targets for row in rows) == WIKITEXT
    assert [row.targets.split("\n")[0] for row in rows] == [" = Mill = ", " = Goat = "]
    assert [row.location.rpartition(":")[2] for row in rows] == ["2", "10"]
    write(tmp_path / "wikitext-2" / "wiki.test.tokens", "no title\n")
    with pytest.raises(ValueError, match="no title of an article"):
        list(task("wikitext2", tmp_path).read("test"))


def test_any_text_is_measured_by_tokens_words_and_bytes(tmp_path: Path) -> None:
    write(tmp_path / "letters" / "a.txt", "Dear Ann")
    write(tmp_path / "letters" / "b.jsonl", '{"text": "Yours"}\n')
    plain = text_benchmark("letters", "Letters", {"test": ("letters/*.txt",)})
    lines = text_benchmark("lines", "Lines", {"test": ("letters/*.jsonl",)}, read=read_lines)
    texts = [
        row.targets
        for each in (plain, lines)
        for row in BenchmarkTask(
            name=each.name, benchmark=each, vocabulary="bytes", data_dir=str(tmp_path)
        ).read("test")
    ]
    assert texts == ["Dear Ann", "Yours"]
    scores = text_perplexities(texts, [cost_of(texts[0], 6.0, 4), cost_of(texts[1], 3.0, 2)])
    assert scores["token_perplexity"] == pytest.approx(2.718281828**1.5)
    assert scores["word_perplexity"] == pytest.approx(2.718281828**3)
    assert scores["byte_perplexity"] == pytest.approx(2.718281828 ** (9 / 13))
    with pytest.raises(ValueError, match="no text to measure"):
        text_perplexities(["a"], [cost_of("a", 0.0, 0)])


def parts(file: Path, content: bytes, **settings: Any) -> list[str]:
    file.write_bytes(content)
    read = ByteSplits(name="letters", num_bytes=len(content), **settings)
    results = [row for split in ("train", "validation", "test") for row in read(str(file), split)]
    return [str(row) if isinstance(row, BadRow) else row.values["text"] for row in results]


def test_one_file_is_cut_into_90_5_and_5_percent_of_its_bytes(tmp_path: Path) -> None:
    content = bytes(range(97, 117)) * 2
    train, validation, test = parts(tmp_path / "letters", content)
    assert (train + validation + test).encode() == content
    assert [len(train), validation, test] == [36, "qr", "st"]
    # The second byte of é is beyond each edge, and belongs to the character.
    content = b"a" * 35 + "é".encode() + b"b" + "é".encode()
    assert len(content) == 40
    train, validation, test = parts(tmp_path / "letters", content)
    assert [train[-2:], validation, test] == ["aé", "b", "é"]
    assert parts(tmp_path / "other", b"abc") == ["abc"] * 3


def test_a_file_that_is_cut_off_or_has_other_letters_is_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "text8" / "text8", "too short")
    with pytest.raises(
        ValueError, match=r"text8 has 9 bytes, where 100,000,000 are expected; is it cut off\?"
    ):
        pairs("text8", tmp_path, "test")
    write(tmp_path / "enwik8" / "test.txt.raw", "<page>\n\n東京</page>")
    assert pairs("enwik8", tmp_path, "test") == [("", "<page>\n\n東京</page>")]
    whole.unlink()
    write(tmp_path / "text8" / "valid.txt.raw", "no Capitals")
    with pytest.raises(ValueError, match="b'C' is none of the characters that text8 has: 'abcd"):
        pairs("text8", tmp_path, "validation")
    result = parts(tmp_path / "letters", b"a" * 36 + b"\xff\xff" + b"\xc3" + b"a")
    assert [text.partition(": ")[2] for text in result[1:]] == [
        "invalid UTF-8 at byte 36",
        "invalid UTF-8 at byte 38",
    ]


def test_a_sentences_end_is_a_word_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "lm1b" / "heldout-monolingual.tokenized.shuffled"
    write(folder / "news.en.heldout-00000-of-00050", "The mill burned .\n\nRain .\n")
    texts = [targets for _, targets in pairs("lm1b", tmp_path, "test")]
    assert texts == ["The mill burned .\n", "Rain .\n"]
    scores = sentence_perplexities(texts, [TextCost(5.0, 7, 4, 18), TextCost(3.0, 3, 2, 7)])
    assert scores["word_perplexity"] == pytest.approx(2.718281828)  # 8 nats, 6 words and 2 ends
    assert scores["token_perplexity"] == pytest.approx(2.718281828**0.8)
