"""OntoNotes' documents, CoNLL-2005's propositions and the Stanford treebank's sentences, from files as published."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.ontonotes import read_clusters
from t5x_like.text.benchmarks.semantic_roles import read_arguments
from t5x_like.text.benchmarks.span_text import LabeledSpan, read_spans, write_spans
from t5x_like.text.benchmarks.tagged_files import bracket_tags
from t5x_like.text.metrics import argument_f1, coreference_f1


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def pairs(name: str, folder: Path, split: str, **settings: Any) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder), **settings)
    return [(row.inputs, row.targets) for row in task.read(split)]


def line(
    number: int, word: str, speaker: str, name: str, cluster: str, name_of: str = "bc/mill/00/mill_0001"
) -> str:
    return f"{name_of}   0   {number}   {word}   NN   (TOP*   -   -   -   {speaker}   {name}   (ARG0*   {cluster}\n"


DOCUMENT = (
    "#begin document (bc/mill/00/mill_0001); part 001\n"
    + line(0, "Ann", "Bo_Li", "(PERSON*", "(4|(9")
    + line(1, "Lee", "Bo_Li", "*)", "9)")
    + line(2, "'s", "Bo_Li", "*", "-")
    + line(3, "mill", "Bo_Li", "*", "4)")
    + "\n"
    + line(0, "It", "Cy", "*", "(4)")
    + line(1, "left", "Cy", "*", "-")
    + line(2, "Oslo", "Cy", "(GPE)", "-")
    + line(3, "/.", "Cy", "*", "-")
    + "\n#end document\n"
)
FILE = "v4/data/development/data/english/annotations/bc/mill/00/mill_0001.v4_gold_conll"


def test_names_and_coreference_are_read_from_one_document(tmp_path: Path) -> None:
    write(tmp_path / "conll-2012" / FILE, DOCUMENT)
    testament = (
        DOCUMENT.replace("(bc/", "(pt/").replace("(PERSON*", "*").replace("*)", "*").replace("(GPE)", "*")
    )
    write(tmp_path / "conll-2012" / FILE.replace("/bc/", "/pt/"), testament)
    assert pairs("ontonotes5_ner", tmp_path, "validation") == [
        ("ontonotes5 tokens: Ann Lee 's mill", "B-PERSON I-PERSON O O"),
        ("ontonotes5 tokens: It left Oslo .", "O O B-GPE O"),
    ]
    formatted = (
        "coreference speaker: Bo_Li text: Ann Lee 's mill speaker: Cy text: It left Oslo .",
        "[ [ Ann Lee | 2 ] 's mill | 1 ] [ It | 1 ] left Oslo .",
    )
    # The outer mention comes first, so its cluster has the first number.
    assert pairs("conll2012_coreference", tmp_path, "validation") == [formatted, formatted]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("conll2012_coreference", "(4|(9", "4|(9", r"conll:1: coreference '4\|\(9' in .*conll:2: '4' is neither"),
        ("conll2012_coreference", "   9)", "   8)", r"coreference '8\)' in .*: 8 ends, but did not begin"),
        ("conll2012_coreference", "   4)\n", "   -\n", "the mention of 4 never ends"),
        ("conll2012_coreference", "#end document\n", "", r"conll:1: the file ends within the document 'bc/mill"),
        ("conll2012_coreference", "#begin", "begin", r"conll:1: no '#begin document' is before this line"),
        ("ontonotes5_ner", "(GPE)", "(TOWN)", r"conll:7: the tag 'B-TOWN' is outside the set: O, B-PERSON"),
        ("ontonotes5_ner", "   *)", "   *", "conll:2: names: the bracket of 'PERSON' is never closed"),
        ("ontonotes5_ner", "Oslo   NN   (TOP*   -   -", "Oslo", "conll:9: 9 columns, where at least 12 are expected"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_document_is_said(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    assert old in DOCUMENT
    write(tmp_path / "conll2012" / "train.english.v4_gold_conll", DOCUMENT.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        pairs(name, tmp_path, "train")


def test_the_hubs_documents_give_the_same_rows(tmp_path: Path) -> None:
    folder = tmp_path / "conll2012_ontonotesv5" / "english_v4"
    folder.mkdir(parents=True)
    sentences = [
        {
            "part_id": 0,
            "words": ["Ann", "left"],
            "named_entities": [1, 0],
            "speaker": None,
            "coref_spans": [[3, 0, 0]],
        },
        {
            "part_id": 0,
            "words": ["She", "ran"],
            "named_entities": [0, 0],
            "speaker": "Bo",
            "coref_spans": [[3, 0, 0]],
        },
        {"part_id": 1, "words": ["So"], "named_entities": [0], "speaker": "Bo", "coref_spans": []},
    ]
    table = pyarrow.table({"document_id": ["bc/x"], "sentences": [sentences]})
    pyarrow.parquet.write_table(table, folder / "test-00000-of-00001.parquet")
    assert pairs("conll2012_coreference", tmp_path, "test") == [
        ("coreference text: Ann left speaker: Bo text: She ran", "[ Ann | 1 ] left [ She | 1 ] ran"),
        ("coreference speaker: Bo text: So", "So"),
    ]
    names = pairs("ontonotes5_ner", tmp_path, "test")
    assert names[0] == ("ontonotes5 tokens: Ann left", "B-PERSON O")
    assert len(names) == 3


def test_generated_mentions_are_found_in_the_document() -> None:
    words = ["Ann", "sold", "her", "mill", ".", "It", "burned", "."]
    example = {"tokens": [word.encode() for word in words]}
    truth = read_clusters(
        "[ Ann | 1 ] sold [ [ her | 1 ] mill | 2 ] . [ It | 2 ] burned .", example, is_target=True
    )
    assert truth == [[(0, 1), (2, 3)], [(2, 4), (5, 6)]]
    # A word left out, one added, a bracket never closed, and a mention alone.
    guess = read_clusters("[ Ann | 7 ] sold [ her | 7 ] old [ mill | 9 ] . [ It burned .", example)
    assert guess == [[(0, 1), (2, 3)]]
    assert coreference_f1([truth], [guess])["muc_recall"] == 50.0
    assert read_clusters("| ] [ ] |", example) == []


SPANS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8), st.sampled_from("12")), max_size=6)


@given(st.lists(st.sampled_from(["a", "b", "[", "]", "|", "é"]), min_size=8, max_size=8), SPANS)
def test_spans_that_nest_are_read_as_they_were_written(
    words: list[str], drawn: list[tuple[int, int, str]]
) -> None:
    kept: list[LabeledSpan] = []
    for start, end, label in drawn:
        crosses = any(
            each.start < start < each.end < end or start < each.start < end < each.end for each in kept
        )
        if start < end and not crosses and (start, end) not in [each[:2] for each in kept]:
            kept.append(LabeledSpan(start, end, label))
    assert sorted(read_spans(write_spans(words, kept), words)) == sorted(kept)


def test_spans_that_cross_or_lie_outside_are_refused() -> None:
    with pytest.raises(ValueError, match="the spans 0 to 2 and 1 to 3 cross"):
        write_spans(["a", "b", "c"], [LabeledSpan(0, 2, "x"), LabeledSpan(1, 3, "y")])
    with pytest.raises(ValueError, match="the span 0 to 4 is not within 2 words"):
        write_spans(["a", "b"], [LabeledSpan(0, 4, "x")])
    with pytest.raises(ValueError, match="the span from 2 begins outside the 2 words"):
        write_spans(["a", "b"], [LabeledSpan(2, 3, "x")])


WORDS = "Ann\nsold\nand\nbought\nthe\nmill\n\nRain\n"
PROPS = (
    "-      (A0*)   (A0*\nsell   (V*)    *)\n-      *       *\nbuy    *       (V*)\n"
    "-      (A1*    (A1*\n-      *)      *)\n\n-\n"
)


def roles(folder: Path, words: str = WORDS, props: str = PROPS) -> None:
    write(folder / "conll2005" / "devel" / "words" / "devel.24.words", words)
    write(folder / "conll2005" / "devel" / "props" / "devel.24.props", props)


def test_every_verb_of_a_sentence_is_a_row(tmp_path: Path) -> None:
    roles(tmp_path)
    assert pairs("conll2005_srl", tmp_path, "validation") == [
        ("conll2005 tokens: Ann *sold* and bought the mill", "B-A0 B-V O O B-A1 I-A1"),
        ("conll2005 tokens: Ann sold and *bought* the mill", "B-A0 I-A0 O B-V B-A1 I-A1"),
    ]
    assert pairs("conll2005_srl_text", tmp_path, "validation")[0] == (
        "srl text: Ann [ sold ] and bought the mill",
        "[ Ann | A0 ] sold and bought [ the mill | A1 ]",
    )
    task = catalogue.benchmark_task("conll2005_srl", vocabulary="bytes", data_dir=str(tmp_path))
    row = next(task.head_rows("validation"))
    assert (row.words[1], [task.head_format().class_names[tag] for tag in row.tags][:2]) == (
        "*sold*",
        ["B-A0", "B-V"],
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("buy    *       (V*)", "-    *       (V*)", "24.words:1: 1 verbs, but 2 columns for them"),
        ("(V*)    *)", "(V*)    *", r"24.words:1: column 2 of the verbs: '\(V\*\)' opens inside of 'A0'"),
        ("*       (V*)", "*       *", "column 2 of the verbs: no word is in"),
        ("(A1*    (A1*", "(A9*    (A1*", "column 1 of the verbs: the role 'A9' is outside the set: V, C-V, A0"),
        ("(A1*    (A1*", "A1*    (A1*", r"column 1 of the verbs: 'A1\*' is no part of brackets"),
        ("\n\n-\n", "\n-\n", r"24.words:7: a sentence ends here or in .*24.props, but not in both"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_propositions_is_said(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PROPS
    roles(tmp_path, props=PROPS.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        pairs("conll2005_srl", tmp_path, "validation")


def test_words_without_their_propositions_are_refused(tmp_path: Path) -> None:
    roles(tmp_path)
    (tmp_path / "conll2005" / "devel" / "props" / "devel.24.props").unlink()
    with pytest.raises(
        ValueError, match=r"no file with the propositions of its words; expected .*props/devel\.24\.props"
    ):
        pairs("conll2005_srl", tmp_path, "validation")


def test_brackets_become_tags() -> None:
    assert bracket_tags(["(A0*", "*)", "*", "(V*)", "(GPE)", "(AM-TMP*)"]) == [
        "B-A0",
        "I-A0",
        "O",
        "B-V",
        "B-GPE",
        "B-AM-TMP",
    ]
    with pytest.raises(ValueError, match=r"'\*\)' closes what was not opened"):
        bracket_tags(["*)"])


def test_arguments_are_scored_whole_and_without_the_verb() -> None:
    truth = ["B-A1", "O", "B-V", "B-C-A1", "I-C-A1", "B-AM-TMP"]
    assert argument_f1([truth], [truth])["f1"] == 100.0
    # The continuation is missing, so A1 is wrong; the verb doesn't count.
    assert argument_f1([truth], [["B-A1", "O", "B-V", "O", "O", "B-AM-TMP"]]) == {
        "precision": 50.0,
        "recall": 50.0,
        "f1": 50.0,
    }
    assert argument_f1([truth], [["O", "O", "B-V", "O", "O", "O"]]) == {
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
    }
    with pytest.raises(ValueError, match="sentence 0 has 6 tags but 1 predicted"):
        argument_f1([truth], [["O"]])


def test_generated_arguments_become_tags_of_the_sentences_words() -> None:
    example = {"tokens": ["Ann", "sold", "the", "mill", "."]}
    right = read_arguments("[ Ann | A0 ] sold [ the mill | A1 ] .", example, is_target=True)
    assert right == ["B-A0", "O", "B-A1", "I-A1", "O"]
    for text, expected in [
        ("[ Ann | A0 ] [ the old mill | A1 ]", ["B-A0", "O", "B-A1", "I-A1", "O"]),
        ("[ Ann | ZZ ] sold [ the mill", ["O"] * 5),
        ("[ [ Ann | A0 ] sold | A1 ] the mill .", ["B-A0", "O", "O", "O", "O"]),
    ]:
        assert read_arguments(text, example) == expected


def test_a_question_of_roles_is_worded_from_a_line() -> None:
    task = catalogue.benchmark_task("conll2005_srl_text", vocabulary="bytes")
    assert task.word_question("Ann *gave* *up* * it") == "srl text: Ann [ gave up ] * it"
    task = catalogue.benchmark_task("conll2012_coreference", vocabulary="bytes")
    assert task.word_question("Ann saw it") == "coreference text: Ann saw it"


TREES = r"(3 (2 A) (3 (2 -LRB-) (3 joy\/fun)))" + "\n(0 (1 Dull) (2 .))\n"


def test_sentences_have_the_label_of_their_whole_tree(tmp_path: Path) -> None:
    file = write(tmp_path / "sst5" / "trees" / "dev.txt", TREES)
    assert pairs("sst5", tmp_path, "validation") == [
        ("sst5 sentence: A ( joy/fun", "positive"),
        ("sst5 sentence: Dull .", "very negative"),
    ]
    for text, message in [
        ("(3 (2 A) (3 joy)", r"dev\.txt:1: the tree is never closed"),
        ("(3 (2 A)) (1 B)", "the tree ends before its line"),
        ("(7 (2 A))", "no tree, such as '.*', is at character 1"),
        ("(3 )", "the tree has no words"),
        ("A film", "no tree, such as '.*', is at character 1: 'A film'"),
    ]:
        write(file, text + "\n")
        with pytest.raises(ValueError, match=message):
            pairs("sst5", tmp_path, "validation")


def test_the_hubs_shares_are_cut_into_five_classes(tmp_path: Path) -> None:
    folder = tmp_path / "sst" / "default"
    folder.mkdir(parents=True)
    labels = [0.0, 0.2, 0.21, 0.4, 0.6, 0.61, 0.8, 0.81, 1.0]
    table = pyarrow.table(
        {"sentence": ["x"] * len(labels), "label": pyarrow.array(labels, pyarrow.float64())}
    )
    pyarrow.parquet.write_table(table, folder / "test-00000-of-00001.parquet")
    classes = [
        catalogue.benchmark("sst5").labels.index(targets) for _, targets in pairs("sst5", tmp_path, "test")
    ]
    assert classes == [0, 0, 1, 1, 2, 3, 3, 4, 4]
    write(tmp_path / "sst5" / "train.jsonl", '{"text": "x", "label": 4, "label_text": "very positive"}\n')
    assert pairs("sst5", tmp_path, "train") == [("sst5 sentence: x", "very positive")]
