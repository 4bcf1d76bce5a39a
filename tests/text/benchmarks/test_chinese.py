"""Chinese tasks and XNLI, from files as they are published."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.metrics import cmrc


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def pairs(name: str, folder: Path, split: str, **settings: Any) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder), **settings)
    return [(row.inputs, row.targets) for row in task.read(split)]


def hub(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


WORDED = ("lcqmc sentence1: 谁？ sentence2: 是谁", "duplicate")


def test_questions_are_compared_from_each_copy_of_lcqmc(tmp_path: Path) -> None:
    write(tmp_path / "lcqmc" / "dev.txt", "谁？\t是谁\t1\n来\t去\t0\n")
    write(tmp_path / "lcqmc" / "train.tsv", "text_a\ttext_b\tlabel\n谁？\t是谁\t1\n")
    hub(tmp_path / "lcqmc" / "test-00000-of-00001.parquet", sentence1=["谁？"], sentence2=["是谁"], label=[1])
    assert pairs("lcqmc", tmp_path, "validation")[0] == WORDED
    assert pairs("lcqmc", tmp_path, "train") == pairs("lcqmc", tmp_path, "test") == [WORDED]
    write(tmp_path / "lcqmc" / "dev.txt", "谁？\t是谁\t2\n")
    with pytest.raises(
        ValueError, match=r"dev\.txt:1: the label '2' is outside the set: not_duplicate, duplicate"
    ):
        pairs("lcqmc", tmp_path, "validation")


def test_reviews_have_their_sentiment(tmp_path: Path) -> None:
    write(tmp_path / "chnsenticorp" / "dev.tsv", 'qid\tlabel\ttext_a\n0\t1\t很好\n1\t0\t"差\n')
    assert pairs("chnsenticorp", tmp_path, "validation") == [
        ("chnsenticorp review: 很好", "positive"),
        ('chnsenticorp review: "差', "negative"),
    ]
    write(tmp_path / "chnsenticorp" / "test.tsv", "label\ttext\n1\t很好\n")
    with pytest.raises(ValueError, match=r"test\.tsv:2: no column 'text_a'"):
        pairs("chnsenticorp", tmp_path, "test")


def test_names_are_tagged_character_by_character(tmp_path: Path) -> None:
    write(tmp_path / "msra_ner" / "dev.tsv", "text_a\tlabel\n李\x02安\x02来\tB-PER\x02I-PER\x02O\n")
    write(tmp_path / "msra_ner" / "msra_train_bio.txt", "李\tB-PER\n\u3000\tO\n来\tO\n\n雨 O\n")
    hub(tmp_path / "msra_ner" / "test-00000-of-00001.parquet", tokens=[["李"]], ner_tags=[[1]])
    assert pairs("msra_ner", tmp_path, "validation") == [("msra tokens: 李 安 来", "B-PER I-PER O")]
    assert pairs("msra_ner", tmp_path, "train") == [
        ("msra tokens: 李 \u3000 来", "B-PER O O"),
        ("msra tokens: 雨", "O"),
    ]
    assert pairs("msra_ner", tmp_path, "test") == [("msra tokens: 李", "B-PER")]
    for line, message in [
        ("李\x02安\tB-PER", r"dev\.tsv:2: 2 words, but 1 tags"),
        ("李\tB-TOWN", "the tag 'B-TOWN' is outside the set: O, B-PER"),
    ]:
        write(tmp_path / "msra_ner" / "dev.tsv", f"text_a\tlabel\n{line}\n")
        with pytest.raises(ValueError, match=message):
            pairs("msra_ner", tmp_path, "validation")
    write(tmp_path / "msra_ner" / "msra_train_bio.txt", "李 安 B-PER\n")
    with pytest.raises(
        ValueError, match=r"bio\.txt:1: 3 columns, where a character and its tag are expected"
    ):
        pairs("msra_ner", tmp_path, "train")


@pytest.mark.parametrize(
    ("name", "file"), [("cmrc2018", "cmrc2018/cmrc2018_dev.json"), ("drcd", "DRCD/DRCD_dev.json")]
)
def test_paragraphs_are_read_as_squads(tmp_path: Path, name: str, file: str) -> None:
    question = {"id": "q", "question": "何时？", "answers": [{"text": "三月", "answer_start": 2, "id": "1"}]}
    article = {"title": "磨坊", "paragraphs": [{"context": "它在三月烧毁。", "id": "1", "qas": [question]}]}
    write(tmp_path / file, json.dumps({"version": "1.3", "data": [article]}))
    assert pairs(name, tmp_path, "validation") == [("question: 何时？ context: 它在三月烧毁。", "三月")]
    task = catalogue.benchmark_task(name, vocabulary="bytes", data_dir=str(tmp_path))
    head = task.head_format()
    row = next(task.head_rows("validation"))
    (metric,) = head.metrics(task.metric_functions)
    assert metric([head.target(row)], ["3月"]) == {"em": 0.0, "f1": pytest.approx(50.0)}


def test_cmrc_scores_the_longest_run_of_characters_and_words() -> None:
    cases = [
        (["三月"], "三月。", 100, 100),  # signs are left out
        (["三月", "在三月"], "他在三月", 0, 100 * 2 * 3 / 7),  # the best answer
        (["磨坊被烧毁"], "磨坊后来烧毁", 0, 100 * 2 * 2 / 11),  # runs don't add up
        (["Open AI公司"], "open ai", 0, 100 * 2 * 2 / 6),  # words between characters
        (["GPT-2"], "gpt2", 100, 100),
        (["a"], "", 0, 0),
    ]
    for answers, guess, exact, overlap in cases:
        assert cmrc([answers], [guess]) == {"em": exact, "f1": pytest.approx(overlap)}
    assert cmrc([case[0] for case in cases[:2]], ["三月", "x"]) == {"em": 50.0, "f1": 50.0}
    assert cmrc(["三月"], ["三月"])["em"] == 100.0


DEV = (
    "language\tgold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID\n"
    "en\tneutral\t\tTwo row.\tThey win.\t1\nzh\tcontradiction\t\t两人划船。\t没人划船。\t2\n"
)


def test_xnli_has_one_language_by_mt5s_template(tmp_path: Path) -> None:
    write(tmp_path / "xnli" / "XNLI-1.0" / "xnli.dev.tsv", DEV)
    assert pairs("xnli_zh", tmp_path, "validation") == [
        ("xnli: premise: 两人划船。 hypothesis: 没人划船。", "2")
    ]
    assert pairs("xnli_en", tmp_path, "validation") == [
        ("xnli: premise: Two row. hypothesis: They win.", "1")
    ]
    file = tmp_path / "xnli" / "XNLI-MT-1.0" / "multinli" / "multinli.train.zh.tsv"
    write(file, "premise\thypo\tlabel\n甲\t乙\tcontradictory\n甲\t丙\tentailment\n")
    assert [targets for _, targets in pairs("xnli_zh", tmp_path, "train")] == ["2", "0"]
    write(file, "premise\thypo\tlabel\n甲\t乙\tmaybe\n")
    with pytest.raises(
        ValueError, match=r"zh\.tsv:2: the label 'maybe' is outside the set: entailment, neutral"
    ):
        pairs("xnli_zh", tmp_path, "train")
    hub(tmp_path / "xnli" / "de" / "test-00000-of-00001.parquet", premise=["a"], hypothesis=["b"], label=[0])
    assert pairs("xnli_de", tmp_path, "test") == [("xnli: premise: a hypothesis: b", "0")]
    head = catalogue.benchmark("xnli_zh").head
    assert head is not None
    assert head.class_names == ("entailment", "neutral", "contradiction")
