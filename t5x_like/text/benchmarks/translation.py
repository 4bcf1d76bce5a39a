"""Translation: WMT's and IWSLT's test sets and training corpora, as T5 words them (Raffel et al. 2020, §2.3)."""

from collections.abc import Mapping, Sequence

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample, WordedRow, Wording
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout
from t5x_like.text.benchmarks.source import BenchmarkSource, Download, FileLayout
from t5x_like.text.benchmarks.translation_files import PairedFiles, translations
from t5x_like.text.metrics import bleu
from t5x_like.text.tasks.rows import RowValues

_LANGUAGES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "ro": "Romanian",
    "cs": "Czech",
    "vi": "Vietnamese",
}


def translate(source: str, target: str) -> Wording:
    """``translate English to German: `` and the sentence as it is."""
    prefix = f"translate {_LANGUAGES[source]} to {_LANGUAGES[target]}: "

    def word(row: RowValues) -> list[WordedRow]:
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
    said: Sequence[tuple[str, str]],
    tfds: str = "",
    hub: str = "",
    home: str,
    citation: str,
    downloads: tuple[Download, ...] = (),
    licence: str = "each corpus has its own; see the page of the shared task",
) -> Benchmark:
    """A task from English.

    ``tests`` names the set of each split that isn't trained on: ``newstest2013``. ``said`` are three invented rows.
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
            licence=licence,
            columns={"en": "text", target: "text"},
        ),
        word=translate("en", target),
        asked=("en",),
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
            for english, other in said
        ),
    )


def _patterns(folder: str, target: str, split: str, test: str) -> tuple[str, ...]:
    """``wmt14/train/europarl-v7.de-en.en``, all of that pair there; ``wmt14/newstest2014-deen-src.en.sgm``."""
    pairs = (f"{target}en", f"en{target}")
    if not test:
        both = (f"{target}-en", f"en-{target}")
        names = [f"{pair}/train/*.en" for pair in both] + [f"{pair}/train.en" for pair in both]
        names += [f"{below}/*.{pair}.en" for below in ("train", "training") for pair in both]
        names += [f"train.{pair}.en" for pair in both] + ["train.en", "train.tok.*.en"]
        return tuple(f"{folder}/{name}{ending}" for name in names for ending in ("", ".gz", ".zst"))
    # TFDS's first: of sets that were translated from either side, it has those that were written in the other language.
    names = [f"{test}-{pairs[0]}-ref.en.{ending}" for ending in ("sgm", "sgml")]
    names += [f"{test}-{pair}-src.en.{ending}" for ending in ("sgm", "sgml") for pair in pairs[::-1]]
    names += [f"{test}-src.en.sgm", f"{test}.en", f"{split}.en", *(f"{test}.{pair}.en" for pair in pairs)]
    names = [f"{target}-en/{split}/*{side}.en.sgm" for side in ("ref", "src")] + names
    return tuple(f"{place}/{name}" for name in names for place in (folder, f"{folder}/dev", f"{folder}/test"))


def _wmt(year: int) -> str:
    return f"https://www.statmt.org/wmt{year}/translation-task.html"


def _sets(year: int) -> tuple[Download, ...]:
    """WMT's archive of all test sets to 2018; parallel corpora are too large and many to be fetched for the user."""
    return (
        Download(
            url="http://data.statmt.org/wmt19/translation-task/dev.tgz",
            unpack={"": f"wmt{year}/"},
            num_bytes=38_654_961,
            sha256="7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
        ),
    )


_WMT14 = "Bojar et al. 2014, https://aclanthology.org/W14-3302"
_WMT15 = "Bojar et al. 2015, https://aclanthology.org/W15-3001"
_WMT16 = "Bojar et al. 2016, https://aclanthology.org/W16-2301"

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

WMT14_ENDE = _translation(
    "wmt14_ende_v003",
    "WMT 2014, English to German: news",
    folder="wmt14",
    target="de",
    tests={"validation": "newstest2013", "test": "newstest2014"},
    rows={"train": 4_508_785, "validation": 3_000, "test": 3_003},
    said=_GERMAN,
    tfds="wmt14_translate/de-en:1.0.0",
    hub="wmt14/de-en",
    home=_wmt(14),
    citation=_WMT14,
    downloads=_sets(14),
)
WMT_T2T_ENDE = _translation(
    "wmt_t2t_ende_v003",
    "WMT English to German, trained on as in Tensor2Tensor: news",
    folder="wmt_t2t",
    target="de",
    tests={"validation": "newstest2013", "test": "newstest2014"},
    rows={"train": 4_592_289, "validation": 3_000, "test": 3_003},
    said=_GERMAN,
    tfds="wmt_t2t_translate/de-en:1.0.0",
    hub="wmt_t2t/de-en",
    home="https://github.com/tensorflow/tensor2tensor",
    citation=f"Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; {_WMT14}",
)
WMT14_ENFR = _translation(
    "wmt14_enfr_v003",
    "WMT 2014, English to French: news",
    folder="wmt14",
    target="fr",
    tests={"validation": "newstest2013", "test": "newstest2014"},
    rows={"train": 40_836_715, "validation": 3_000, "test": 3_003},
    said=_FRENCH,
    tfds="wmt14_translate/fr-en:1.0.0",
    hub="wmt14/fr-en",
    home=_wmt(14),
    citation=_WMT14,
    downloads=_sets(14),
)
WMT15_ENFR = _translation(
    "wmt15_enfr_v003",
    "WMT 2015, English to French: news and its readers' comments",
    folder="wmt15",
    target="fr",
    tests={"validation": "newsdiscussdev2015", "test": "newsdiscusstest2015"},
    # TFDS validates on newstest2014 too: put the SGML of both into wmt15/fr-en/validation.
    rows={"train": 40_853_137, "validation": 4_503, "test": 1_500},
    said=_FRENCH,
    tfds="wmt15_translate/fr-en:1.0.0",
    hub="wmt15/fr-en",
    home=_wmt(15),
    citation=_WMT15,
    downloads=_sets(15),
)
WMT15_ENCS = _translation(
    "wmt15_encs_v003",
    "WMT 2015, English to Czech: news",
    folder="wmt15",
    target="cs",
    tests={"validation": "newstest2014", "test": "newstest2015"},
    rows={"train": 959_768, "validation": 3_003, "test": 2_656},
    said=_CZECH,
    tfds="wmt15_translate/cs-en:1.0.0",
    hub="wmt15/cs-en",
    home=_wmt(15),
    citation=_WMT15,
    downloads=_sets(15),
)
WMT16_ENRO = _translation(
    "wmt16_enro_v003",
    "WMT 2016, English to Romanian: news",
    folder="wmt16",
    target="ro",
    tests={"validation": "newsdev2016", "test": "newstest2016"},
    rows={"train": 610_320, "validation": 1_999, "test": 1_999},
    said=_ROMANIAN,
    tfds="wmt16_translate/ro-en:1.0.0",
    hub="wmt16/ro-en",
    home=_wmt(16),
    citation=_WMT16,
    downloads=_sets(16),
)
_STANFORD = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi"
IWSLT15_ENVI = _translation(
    "iwslt15_envi_v003",
    "IWSLT 2015, English to Vietnamese: talks, tokenised as Stanford did",
    folder="iwslt15",
    target="vi",
    tests={"validation": "tst2012", "test": "tst2013"},
    rows={"train": 133_317, "validation": 1_553, "test": 1_268},
    said=_VIETNAMESE,
    hub="iwslt2015-en-vi",
    home="https://nlp.stanford.edu/projects/nmt",
    citation="Cettolo et al. 2015, https://aclanthology.org/2015.iwslt-evaluation.1; "
    "Luong and Manning 2015, https://aclanthology.org/2015.iwslt-evaluation.11",
    downloads=tuple(
        Download(url=f"{_STANFORD}/{name}.{language}", unpack={"": f"iwslt15/{name}.{language}"})
        for name in ("train", "tst2012", "tst2013")
        for language in ("en", "vi")
    ),
    licence="CC BY-NC-ND 4.0",
)

BENCHMARKS = (WMT14_ENDE, WMT_T2T_ENDE, WMT14_ENFR, WMT15_ENFR, WMT15_ENCS, WMT16_ENRO, IWSLT15_ENVI)
