"""XTREME's tasks from their official files, and its score."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.cli.main import main
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.suites import SERVED, SUITES, XTREME, XTREME_TASKS
from t5x_like.text.metrics import chunk_f1, mlqa
from t5x_like.text.tasks.pairs import TextPair


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def hub(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def rows_of(name: str, folder: Path, split: str) -> list[TextPair]:
    return list(catalogue.benchmark_task(name, vocabulary="bytes", data_dir=str(folder)).read(split))


def pairs(name: str, folder: Path, split: str) -> list[tuple[str, str]]:
    return [(row.inputs, row.targets) for row in rows_of(name, folder, split)]


def squad_file(*questions: tuple[str, str, str]) -> str:
    """SQuAD's JSON of questions (id, question, answer) about one context."""
    context = "Die Mühle (1702) brannte im März."
    listed = [
        {"id": key, "question": question, "answers": [{"text": text, "answer_start": context.index(text)}]}
        for key, question, text in questions
    ]
    return json.dumps({"version": "1.1", "data": [{"paragraphs": [{"context": context, "qas": listed}]}]})


ASKED = (
    "question: Wann ? context: Die Mühle ( 1702 ) brannte im März . ",
    "März",
)


def test_paraphrases_are_read_from_the_folder_of_each_language(tmp_path: Path) -> None:
    header, row = "id\tsentence1\tsentence2\tlabel\n", "1\tEin Satz\tSatz\t0\n"
    write(tmp_path / "pawsx/x-final/de/translated_train.tsv", header + row)
    write(tmp_path / "x-final/de/dev_2k.tsv", header + row)
    write(tmp_path / "x-final/en/train.tsv", header + row)
    wanted = [("paws sentence1: Ein Satz sentence2: Satz", "not_paraphrase")]
    assert pairs("pawsx_de", tmp_path, "train") == pairs("pawsx_de", tmp_path, "validation") == wanted
    assert pairs("pawsx_en", tmp_path, "train") == wanted
    file = tmp_path / "xtreme/PAWS-X.de/test-00000-of-00001.parquet"
    hub(file, sentence1=["Ein Satz"], sentence2=["Satz"], label=["0"])
    assert pairs("pawsx_de", tmp_path, "test") == wanted
    write(tmp_path / "x-final/de/dev_2k.tsv", header + row + "2\tEin Satz\tSatz\t7\n")
    with pytest.raises(ValueError, match=r"dev_2k\.tsv:3: the label '7' is outside the set"):
        pairs("pawsx_de", tmp_path, "validation")


def test_names_are_read_with_and_without_the_language_before_words(tmp_path: Path) -> None:
    write(tmp_path / "panx_dataset/de/test", "de:Berlin\tB-LOC\nde:10:30\tO\nde:\tO\n\nde:Ann\tB-PER\n\n")
    wanted = [("panx tokens: Berlin 10:30", "B-LOC O"), ("panx tokens: Ann", "B-PER")]
    assert pairs("panx_de", tmp_path, "test") == wanted
    write(tmp_path / "panx/dev-de.tsv", "Berlin\tB-LOC\n10:30\tO\n\nAnn\tB-PER\n")
    assert pairs("panx_de", tmp_path, "validation") == wanted
    file = tmp_path / "wikiann/de/train-00000-of-00001.parquet"
    hub(file, tokens=[["Berlin", "10:30"], ["Ann"]], ner_tags=[[5, 0], [1]], langs=[["de"] * 2, ["de"]])
    assert pairs("panx_de", tmp_path, "train") == wanted
    write(tmp_path / "panx_dataset/de/test", "de:Berlin\tB-LOC\nde:Ann B-PER\n")
    with pytest.raises(ValueError, match=r"de/test:2: 1 columns between tabs, where 2 are expected"):
        pairs("panx_de", tmp_path, "test")


def conllu(*words: tuple[str, str]) -> str:
    lines = [f"{index}\t{word}\t_\t{tag}" + "\t_" * 6 for index, (word, tag) in enumerate(words, start=1)]
    return "# text = …\n" + "\n".join(lines) + "\n\n"


def test_parts_of_speech_come_from_all_treebanks_of_a_language(tmp_path: Path) -> None:
    treebanks = tmp_path / "ud-treebanks-v2.5"
    first = conllu(("Ann", "PROPN"), ("schläft", "VERB"))
    unpublished = conllu(("_", "NOUN"), ("_", "VERB"), ("_", "PUNCT"))
    write(
        treebanks / "UD_German-GSD/de_gsd-ud-test.conllu",
        first + conllu(("_", "SYM"), ("a", "X"), ("b", "X")),
    )
    write(treebanks / "UD_German-HDT/de_hdt-ud-test.conllu", unpublished + conllu(("Nein", "INTJ")))
    write(treebanks / "UD_Dutch-Alpino/nl_alpino-ud-test.conllu", first)
    assert pairs("udpos_de", tmp_path, "test") == [
        ("udpos tokens: Ann schläft", "PROPN VERB"),
        ("udpos tokens: _ a b", "SYM X X"),
        ("udpos tokens: Nein", "INTJ"),
    ]
    assert pairs("udpos_nl", tmp_path, "test") == [("udpos tokens: Ann schläft", "PROPN VERB")]
    file = tmp_path / "xtreme/udpos.Thai/test-00000-of-00001.parquet"
    hub(file, tokens=[["Ann", "schläft"]], pos_tags=[[11, 15]])
    assert pairs("udpos_th", tmp_path, "test") == [("udpos tokens: Ann schläft", "PROPN VERB")]


def test_parts_of_speech_are_scored_as_runs_of_equal_tags() -> None:
    truth = [["NOUN", "NOUN", "VERB", "CCONJ", "SCONJ", "SCONJ"]]
    # Runs of NOUN, VERB and CCONJ, and each SCONJ alone: seqeval reads S as a chunk of one word.
    assert chunk_f1(truth, truth)["f1"] == 100.0
    scores = chunk_f1(truth, [["NOUN", "VERB", "VERB", "SCONJ", "SCONJ", "SCONJ"]])
    assert scores == {
        "precision": pytest.approx(40.0),
        "recall": pytest.approx(40.0),
        "f1": pytest.approx(40.0),
        "tag_accuracy": pytest.approx(400 / 6),
    }


def test_questions_of_squads_form_are_read(tmp_path: Path) -> None:
    write(tmp_path / "xquad/xquad.de.json", squad_file(("a", "Wann?", "März")))
    assert pairs("xquad_de", tmp_path, "validation") == pairs("xquad_de", tmp_path, "test") == [ASKED]
    write(tmp_path / "mlqa/MLQA_V1/test/test-context-de-question-de.json", squad_file(("b", "Wann?", "März")))
    assert pairs("mlqa_de", tmp_path, "test") == [ASKED]
    file = tmp_path / "xtreme/MLQA.de.de/validation-00000-of-00001.parquet"
    answers = [{"text": ["März"], "answer_start": [28]}]
    context = ["Die Mühle (1702) brannte im März."]
    hub(file, id=["c"], title=[""], context=context, question=["Wann?"], answers=answers)
    assert pairs("mlqa_de", tmp_path, "validation") == [ASKED]
    file = tmp_path / "xtreme/XQuAD.tr/validation-00000-of-00001.parquet"
    hub(file, id=["c"], context=context, question=["Wann?"], answers=answers)
    assert pairs("xquad_tr", tmp_path, "test") == [ASKED]


def test_passages_of_a_language_are_those_whose_ids_begin_with_its_name(tmp_path: Path) -> None:
    listed = squad_file(("finnish-1-0", "Wann?", "März"), ("english-2-0", "Was?", "Mühle"))
    write(tmp_path / "tydiqa/tydiqa-goldp-v1.1-train.json", listed)
    write(tmp_path / "tydiqa/tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-finnish.json", listed)
    for split in ("train", "validation", "test"):
        assert pairs("tydiqa_goldp_fi", tmp_path, split) == [ASKED]
    assert [row.extras["answers"] for row in rows_of("tydiqa_goldp_en", tmp_path, "train")] == [["Mühle"]]
    wrong = listed.replace('"answer_start": 28', '"answer_start": 27')
    write(tmp_path / "tydiqa/tydiqa-goldp-v1.1-train.json", wrong)
    with pytest.raises(ValueError, match=r"train\.json.*qas\[0\]: the answer 'März' is not at character 27"):
        pairs("tydiqa_goldp_fi", tmp_path, "train")


@pytest.mark.parametrize(
    ("language", "answer", "prediction", "em", "f1"),
    [
        ("de", "Die alte Mühle", "„alte“ Mühle!", 100.0, 100.0),
        ("en", "Die alte Mühle", "alte Mühle", 0.0, 80.0),
        ("es", "el molino", "molino¿", 100.0, 100.0),
        ("vi", "của nhà", "nhà", 100.0, 100.0),
        ("ar", "الكتاب", "كتاب", 100.0, 100.0),
        ("hi", "एक घर।", "एक घर", 100.0, 100.0),
        ("zh", "老磨坊 A1", "磨坊、A1", 0.0, 600 / 7),
    ],
)
def test_mlqas_scores_know_articles_and_signs_of_a_language(
    language: str, answer: str, prediction: str, em: float, f1: float
) -> None:
    assert mlqa(language)([[answer]], [prediction]) == {"em": em, "f1": pytest.approx(f1)}


def test_the_score_is_the_mean_over_tasks_of_the_means_over_languages() -> None:
    scores: dict[str, float | None] = {name: 50.0 for names in XTREME.average.values() for name in names}
    assert len(XTREME.all_tasks) == 15 + 7 + 33 + 40 + 11 + 7 + 9
    assert XTREME.average_of(scores) == 50.0
    # A language of PAWS-X is a seventh of one task of seven, and one of TyDiQA a ninth, of which em is half.
    assert XTREME.average_of(scores | {"pawsx_ko/accuracy": 99.0}) == pytest.approx(51.0)
    assert XTREME.average_of(scores | {"tydiqa_goldp_bn/em": 176.0}) == pytest.approx(51.0)
    assert not XTREME.has_any_score(dict(list(scores.items())[1:]))
    (pawsx,) = (suite for suite in XTREME_TASKS if suite.name == "pawsx")
    assert pawsx.average_of(scores | {"pawsx_ko/accuracy": 99.0}) == pytest.approx(57.0)
    assert list(SERVED) == ["glue", "super_glue"]
    assert {"xtreme", "xnli", "udpos", "tydiqa_goldp"} <= SUITES.keys()


def test_an_unpublished_number_of_rows_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "ud-treebanks-v2.5/UD_Thai-PUD/th_pud-ud-test.conllu", conllu(("Ann", "PROPN")))
    assert main(["data", "status", "udpos_th", "udpos_kk", f"--data_dir={tmp_path}"]) in (0, 1)
    shown = capsys.readouterr().out
    assert "test  1 rows; official files: " in shown
    assert "test  missing: ud-treebanks-v2.5/UD_*/kk_*-ud-test.conllu" in shown
    assert main(["tasks", "show", "udpos_kk"]) == 0
    assert "splits      test\n" in capsys.readouterr().out
