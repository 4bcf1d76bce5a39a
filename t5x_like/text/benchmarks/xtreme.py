"""XTREME's tasks in each of their languages (Hu et al. 2020, https://arxiv.org/abs/2003.11080).

Here are PAWS-X, parts of speech of Universal Dependencies, and names of WikiANN (PAN-X); XNLI and the questions have
files of their own. Models are trained on English and tested on all languages. The two retrieval tasks are left out:
they compare vectors of sentences, and no rows of a task.
"""

from collections.abc import Iterator

from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.keyed_template import UNLABELED, classification_benchmark, label_examples
from t5x_like.text.benchmarks.paws import LABELS
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.benchmarks.tagged_files import ReadLine, TaggedFile, conllu_line, hub_tags
from t5x_like.text.benchmarks.tagging import PARTS_OF_SPEECH, tagging_benchmark
from t5x_like.text.benchmarks.tsv import Table
from t5x_like.text.benchmarks.xtreme_languages import NAMES, PANX, PAWSX, UDPOS, UDPOS_TEST_ONLY
from t5x_like.text.benchmarks.xtreme_questions import QUESTIONS
from t5x_like.text.metrics import accuracy
from t5x_like.text.tasks.rows import BadRow, RawRow

_SPLITS = ("train", "validation", "test")
_COLUMNS = {"sentence1": "sentence1", "sentence2": "sentence2"}


def _pawsx(language: str) -> Benchmark:
    train = "train.tsv" if language == "en" else "translated_train.tsv"
    read_hub = RecordFiles(
        parse=renamed(sentence1="sentence1", sentence2="sentence2", label="label"), classes=LABELS
    )
    return classification_benchmark(
        f"pawsx_{language}",
        f"PAWS-X in {NAMES[language]}: do two sentences of nearly the same words mean the same?",
        source=BenchmarkSource(
            tfds=f"paws_x_wiki/{language}:1.0.0",
            hugging_face=f"paws-x/{language}",
            layouts=(
                FileLayout(
                    files=files_in(
                        (f"pawsx/x-final/{language}", f"x-final/{language}", f"pawsx/{language}"),
                        {"train": train, "validation": "dev_2k.tsv", "test": "test_2k.tsv"},
                    ),
                    read=Table(texts=_COLUMNS, classes=LABELS),
                ),
                hub_layout(f"xtreme/PAWS-X.{language}", _SPLITS, read_hub),
            ),
            rows={"train": 49_401, "validation": 2_000, "test": 2_000},
            downloads=archive("https://storage.googleapis.com/paws/pawsx/x-final.tar.gz", "pawsx/"),
            home="https://github.com/google-research-datasets/paws/tree/master/pawsx",
            citation="Yang et al. 2019, https://arxiv.org/abs/1908.11828",
            license="may be freely used for any purpose; https://github.com/google-research-datasets/paws",
            columns={"sentence1": "text", "sentence2": "text", "label": "int"},
        ),
        word="paws",
        labels=LABELS,
        has_index=False,
        metrics=(accuracy,),
        examples=label_examples(
            tuple(_COLUMNS),
            (
                ("Rome to Oslo .", "Oslo to Rome ."),
                0,
                "paws sentence1: Rome to Oslo . sentence2: Oslo to Rome .",
                "not_paraphrase",
            ),
            (
                ("In 1868 he came .", "He came in 1868 ."),
                1,
                "paws sentence1: In 1868 he came . sentence2: He came in 1868 .",
                "paraphrase",
            ),
            (("A", "B"), -1, "paws sentence1: A sentence2: B", UNLABELED),
            has_index=False,
        ),
    )


# In the order of Hugging Face's ids.
_ENTITIES = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")


def _panx_line(language: str) -> ReadLine:
    """Return a reader of lines such as ``de:Berlin<TAB>B-LOC``, whose language may be missing."""

    def read(line: str) -> tuple[str, str] | None:
        cells = line.split("\t")
        if len(cells) != 2:
            raise ValueError(f"{len(cells)} columns between tabs, where 2 are expected: {line[:60]!r}")
        word = cells[0].removeprefix(f"{language}:").strip()
        return (word, cells[1].strip()) if word else None

    return read


def _panx(language: str) -> Benchmark:
    train, held_out = PANX[language]
    read = TaggedFile(column="ner", classes=_ENTITIES, read_line=_panx_line(language))
    read_hub = RecordFiles(parse=hub_tags("ner_tags", "ner"))
    short = {"train": "train", "validation": "dev", "test": "test"}
    return tagging_benchmark(
        f"panx_{language}",
        f"PAN-X (WikiANN) in {NAMES[language]}: names of people, organizations and places",
        column="ner",
        classes=_ENTITIES,
        source=BenchmarkSource(
            layouts=(
                FileLayout(
                    files=files_in(
                        (f"panx_dataset/{language}", f"panx/{language}", f"wikiann/{language}"), short
                    ),
                    read=read,
                ),
                FileLayout(
                    name="tables of google-research/xtreme",
                    files={
                        split: (f"panx/{short[split]}-{language}.tsv",) for split in ("train", "validation")
                    },
                    read=read,
                ),
                hub_layout(f"xtreme/PAN-X.{language}", _SPLITS, read_hub),
                hub_layout(f"wikiann/{language}", _SPLITS, read_hub),
            ),
            rows={"train": train, "validation": held_out, "test": held_out},
            home="https://github.com/google-research/xtreme (panx_dataset, each language unpacked in its folder)",
            citation="Pan et al. 2017, https://aclanthology.org/P17-1178; Rahimi et al. 2019, "
            "https://aclanthology.org/P19-1015",
            license="none is stated; the texts are Wikipedia's",
            columns={"tokens": "texts", "ner": "ints"},
        ),
        sentences=(
            ("Ann Lee left Oslo .", "B-PER I-PER O B-LOC O"),
            ("Acme Corp won", "B-ORG I-ORG O"),
            ("Rain .", "O O"),
        ),
    )


def _read_treebank(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a treebank's sentences but those whose words aren't published and are ``_``; see ``source.Reader``."""
    for row in TaggedFile(column="upos", classes=PARTS_OF_SPEECH, read_line=conllu_line)(file, split):
        tokens = row.values["tokens"] if isinstance(row, RawRow) else []
        num_blank = tokens.count("_")
        if not num_blank or num_blank < len(tokens) - 1:
            yield row


def _udpos(language: str) -> Benchmark:
    called = UDPOS[language]
    short = {"train": "train", "validation": "dev", "test": "test"}
    splits = ("test",) if language in UDPOS_TEST_ONLY else _SPLITS
    folders = ("ud-treebanks-v2.5/UD_*", "udpos/ud-treebanks-v2.5/UD_*")
    return tagging_benchmark(
        f"udpos_{language}",
        f"Parts of speech in {called}: all treebanks of Universal Dependencies 2.5",
        column="upos",
        classes=PARTS_OF_SPEECH,
        source=BenchmarkSource(
            layouts=(
                FileLayout(
                    files=files_in(
                        folders, {each: f"{language}_*-ud-{short[each]}.conllu" for each in splits}
                    ),
                    read=_read_treebank,
                ),
                hub_layout(f"xtreme/udpos.{called}", splits, RecordFiles(parse=hub_tags("pos_tags", "upos"))),
            ),
            rows=dict.fromkeys(splits, 0),  # the paper has their sum alone
            downloads=archive(
                "https://lindat.mff.cuni.cz/repository/xmlui/bitstream/handle/11234/1-3105/ud-treebanks-v2.5.tgz",
                "",
            ),
            home="https://lindat.mff.cuni.cz/repository/xmlui/handle/11234/1-3105",
            citation="Nivre et al. 2020, https://arxiv.org/abs/2004.10643",
            license="each treebank has its own",
            columns={"tokens": "texts", "upos": "ints"},
        ),
        sentences=(
            ("The old mill burned .", "DET ADJ NOUN VERB PUNCT"),
            ("We can n't go", "PRON AUX PART VERB"),
            ("Oslo", "PROPN"),
        ),
        invalid="X",
    )


BENCHMARKS = (*map(_pawsx, PAWSX), *map(_udpos, UDPOS), *map(_panx, PANX), *QUESTIONS)
# The English rows that XTREME trains on, for a text-to-text model of all tasks. Parts of speech count as in table 1.
MIXTURES = {
    "xtreme_english": {
        "xnli_en": 392_702.0,
        "pawsx_en": 49_401.0,
        "udpos_en": 21_253.0,
        "panx_en": 20_000.0,
        "squad_v010_allanswers": 87_599.0,
        "tydiqa_goldp_en": 3_696.0,
    }
}
