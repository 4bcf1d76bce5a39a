"""Translation: WMT's and IWSLT's test sets and training corpora in T5's templates (Raffel et al. 2020, §2.3)."""

from collections.abc import Mapping, Sequence

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample, PromptTemplate
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout
from t5x_like.text.benchmarks.source import BenchmarkSource, Download, FileLayout, archive, plain_files
from t5x_like.text.benchmarks.translation_files import PairedFiles, translations
from t5x_like.text.metrics import bleu
from t5x_like.text.templates import RowValues

_LANGUAGES = {
    "en": "English", "de": "German", "fr": "French", "ro": "Romanian", "cs": "Czech", "vi": "Vietnamese",
}  # fmt: skip


def _translate(source: str, target: str) -> PromptTemplate:
    """Return the template ``translate English to German: `` followed by the unchanged sentence."""
    prefix = f"translate {_LANGUAGES[source]} to {_LANGUAGES[target]}: "

    def word(row: RowValues) -> list[FormattedRow]:
        return [{"inputs": prefix + row[source], "targets": row[target]}]

    return word


def _translation(
    name: str,
    title: str,
    *,
    folder: str,
    target: str,
    tests: Mapping[str, str],
    rows: Mapping[str, int],
    sentences: Sequence[tuple[str, str]],
    tfds: str = "",
    hub: str = "",
    home: str,
    citation: str,
    downloads: tuple[Download, ...] = (),
    license: str = "each corpus has its own; see the page of the shared task",
) -> Benchmark:
    """Define a task from English.

    Args:
      name: Name of the task.
      title: One line for people.
      folder: Folder of the files.
      target: Language to translate to.
      tests: Name of the set of each split that isn't trained on: ``newstest2013``.
      rows: Published number of rows by split.
      sentences: Three invented rows for the golden examples.
      tfds: TFDS's name.
      hub: Folder of Hugging Face's files.
      home: Web page.
      citation: Paper.
      downloads: Files to fetch.
      license: License of the texts.
    """
    splits = tuple(rows)
    return Benchmark(
        name=name,
        title=title,
        source=BenchmarkSource(
            tfds=tfds,
            hugging_face=hub,
            layouts=(
                FileLayout(
                    name="plain or SGML files",
                    files={split: _patterns(folder, target, split, tests.get(split, "")) for split in splits},
                    read=PairedFiles(source="en", target=target),
                ),
                *([hub_layout(hub, splits, RecordFiles(parse=translations("en", target)))] if hub else []),
            ),
            rows=rows,
            downloads=downloads,
            home=home,
            citation=citation,
            license=license,
            columns={"en": "text", target: "text"},
        ),
        word=_translate("en", target),
        question_columns=("en",),
        metrics=(bleu,),
        examples=tuple(
            GoldenExample(
                {"en": english, target: other},
                (
                    {
                        "inputs": f"translate English to {_LANGUAGES[target]}: {english}",
                        "targets": other,
                    },
                ),
            )
            for english, other in sentences
        ),
    )


def _patterns(folder: str, target: str, split: str, test: str) -> tuple[str, ...]:
    """Return patterns such as ``wmt14/train/europarl-v7.de-en.en`` and ``wmt14/newstest2014-deen-src.en.sgm``."""
    pairs = (f"{target}en", f"en{target}")
    if not test:
        both = (f"{target}-en", f"en-{target}")
        names = [f"{pair}/train/*.en" for pair in both] + [f"{pair}/train.en" for pair in both]
        names += [f"{below}/*.{pair}.en" for below in ("train", "training") for pair in both]
        names += [f"train.{pair}.en" for pair in both] + ["train.en", "train.tok.*.en"]
        return tuple(f"{folder}/{name}{ending}" for name in names for ending in ("", ".gz", ".zst"))
    # TFDS's files first: for sets with texts from both languages, those written in the other language.
    names = [f"{test}-{pairs[0]}-ref.en.{ending}" for ending in ("sgm", "sgml")]
    names += [f"{test}-{pair}-src.en.{ending}" for ending in ("sgm", "sgml") for pair in pairs[::-1]]
    names += [f"{test}-src.en.sgm", f"{test}.en", f"{split}.en", *(f"{test}.{pair}.en" for pair in pairs)]
    names = [f"{target}-en/{split}/*{side}.en.sgm" for side in ("ref", "src")] + names
    return tuple(
        f"{parent}/{name}" for name in names for parent in (folder, f"{folder}/dev", f"{folder}/test")
    )


_WMT = {
    14: "Bojar et al. 2014, https://aclanthology.org/W14-3302",
    15: "Bojar et al. 2015, https://aclanthology.org/W15-3001",
    16: "Bojar et al. 2016, https://aclanthology.org/W16-2301",
}
_GERMAN = (
    ("The bridge stays closed.", "Die Brücke bleibt gesperrt."),
    (" “Wait!” said Ada. ", " „Warte!“, sagte Ada. "),
    ("1,000 & more", "1.000 & mehr"),
)
_FRENCH = (
    ("Where is the mill?", "Où est le moulin ?"),
    ("It costs €7.", "Cela coûte 7 €."),
    (" A < B", " A < B"),
)
_ROMANIAN = (
    ("Good night!", "Noapte bună!"),
    ("She lives in Bacău.", "Ea locuiește la Bacău."),
    ("yes ", "da "),
)
_CZECH = (("It is late.", "Je pozdě."), ("Who came?", "Kdo přišel?"), (" 3.5 % ", " 3,5 % "))
_VIETNAMESE = (("I am reading.", "Tôi đang đọc."), ("Thank you .", "Cảm ơn ."), ("", ""))


def _news(
    year: int,
    target: str,
    *,
    tests: tuple[str, str],
    rows: tuple[int, int, int],
    title: str = "news",
    sentences: Sequence[tuple[str, str]],
) -> Benchmark:
    """Define a task of WMT.

    Args:
      year: Last two digits of the shared task's year.
      target: Language to translate to.
      tests: Names of the validation and test sets.
      rows: Published numbers of training, validation and test rows.
      title: Domain.
      sentences: Three invented rows.
    """
    return _translation(
        f"wmt{year}_en{target}_v003",
        f"WMT 20{year}, English to {_LANGUAGES[target]}: {title}",
        folder=f"wmt{year}",
        target=target,
        tests=dict(zip(("validation", "test"), tests, strict=True)),
        rows=dict(zip(("train", "validation", "test"), rows, strict=True)),
        sentences=sentences,
        tfds=f"wmt{year}_translate/{target}-en:1.0.0",
        hub=f"wmt{year}/{target}-en",
        home=f"https://www.statmt.org/wmt{year}/translation-task.html",
        citation=_WMT[year],
        # WMT's archive of all test sets to 2018; parallel corpora are too large and many to fetch.
        downloads=archive(
            "http://data.statmt.org/wmt19/translation-task/dev.tgz",
            f"wmt{year}/",
            38_654_961,
            "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
        ),
    )


_NEWS13_14 = ("newstest2013", "newstest2014")
WMT14_ENDE = _news(14, "de", tests=_NEWS13_14, rows=(4_508_785, 3_000, 3_003), sentences=_GERMAN)
WMT_T2T_ENDE = _translation(
    "wmt_t2t_ende_v003",
    "WMT English to German, trained on as in Tensor2Tensor: news",
    folder="wmt_t2t",
    target="de",
    tests={"validation": "newstest2013", "test": "newstest2014"},
    rows={"train": 4_592_289, "validation": 3_000, "test": 3_003},
    sentences=_GERMAN,
    tfds="wmt_t2t_translate/de-en:1.0.0",
    hub="wmt_t2t/de-en",
    home="https://github.com/tensorflow/tensor2tensor",
    citation=f"Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; {_WMT[14]}",
)
WMT14_ENFR = _news(14, "fr", tests=_NEWS13_14, rows=(40_836_715, 3_000, 3_003), sentences=_FRENCH)
WMT15_ENFR = _news(
    15,
    "fr",
    tests=("newsdiscussdev2015", "newsdiscusstest2015"),
    # TFDS validates on newstest2014 too: put the SGML of both into wmt15/fr-en/validation.
    rows=(40_853_137, 4_503, 1_500),
    title="news and its readers' comments",
    sentences=_FRENCH,
)
WMT15_ENCS = _news(
    15, "cs", tests=("newstest2014", "newstest2015"), rows=(959_768, 3_003, 2_656), sentences=_CZECH
)
WMT16_ENRO = _news(
    16, "ro", tests=("newsdev2016", "newstest2016"), rows=(610_320, 1_999, 1_999), sentences=_ROMANIAN
)
_STANFORD = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi"
IWSLT15_ENVI = _translation(
    "iwslt15_envi_v003",
    "IWSLT 2015, English to Vietnamese: talks, tokenized as Stanford did",
    folder="iwslt15",
    target="vi",
    tests={"validation": "tst2012", "test": "tst2013"},
    rows={"train": 133_317, "validation": 1_553, "test": 1_268},
    sentences=_VIETNAMESE,
    hub="iwslt2015-en-vi",
    home="https://nlp.stanford.edu/projects/nmt",
    citation="Cettolo et al. 2015, https://aclanthology.org/2015.iwslt-evaluation.1; "
    "Luong and Manning 2015, https://aclanthology.org/2015.iwslt-evaluation.11",
    downloads=plain_files(
        _STANFORD,
        "iwslt15",
        {
            f"{name}.{language}": (None, None)
            for name in ("train", "tst2012", "tst2013")
            for language in ("en", "vi")
        },
    ),
    license="CC BY-NC-ND 4.0",
)

BENCHMARKS = (WMT14_ENDE, WMT_T2T_ENDE, WMT14_ENFR, WMT15_ENFR, WMT15_ENCS, WMT16_ENRO, IWSLT15_ENVI)
