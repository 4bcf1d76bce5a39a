"""A rule that asks a fastText classifier of one's own: quality, topic or toxicity."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.language_fasttext import LABEL, file_digest, load_fasttext
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import split_sentences

Action = Literal["keep", "drop", "cut"]


@dataclass(frozen=True, kw_only=True)
class FastTextClassifier:
    """Keeps or drops pages, or cuts sentences, that a fastText model gives a label.

    DataComp-LM keeps the pages that look like instructions and well-liked answers (Li et al. 2024, §4.4,
    https://arxiv.org/abs/2406.11794). Dolma cuts sentences that are toxic with a probability of 0.4 (Soldaini et al.
    2024, §5.3, https://arxiv.org/abs/2402.00159).

    Attributes:
      model: A ``.bin`` or ``.ftz`` file of ``fasttext supervised``.
      label: The label, with or without ``__label__``.
      threshold: Probability from which the label counts.
      action: "keep" keeps pages with the label, "drop" drops them, "cut" removes the sentences that have it.

    Raises:
      ValueError: ``threshold`` or ``action`` is out of range; on first use, the model can't be read or lacks the label.
    """

    NAME: ClassVar[str] = "fasttext-classifier"
    VERSION: ClassVar[int] = 1

    model: str
    label: str
    threshold: float
    action: Action = "keep"

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"FastTextClassifier.threshold is {self.threshold}; give more than 0, up to 1")
        if self.action not in get_args(Action):
            raise ValueError(
                f"FastTextClassifier.action is {self.action!r}; choose from {', '.join(get_args(Action))}"
            )

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, or ``filtered:low_quality``, ``filtered:unwanted`` or ``filtered:empty``.

        Args:
          page: The page.
          counts: Receives the tenth of a page's probability, such as ``score:0.3``, or ``sentence-filtered:labeled``.
        """
        if self.action == "cut":
            return self._without_sentences(page, counts)
        probability = self.probability(page.text)
        counts[f"score:{min(int(probability * 10), 9) / 10}"] += 1
        if (probability >= self.threshold) == (self.action == "keep"):
            return page
        return Dropped("filtered:low_quality" if self.action == "keep" else "filtered:unwanted")

    def probability(self, text: str) -> float:
        """Return the probability of the label, from 0 to 1."""
        words = " ".join(text.split())  # fastText reads one line
        labels, probabilities = load_fasttext(self.model).predict(
            words.encode("utf-8", "replace").decode("utf-8"), k=-1
        )
        by_label = dict(zip((label.removeprefix(LABEL) for label in labels), probabilities, strict=True))
        wanted = self.label.removeprefix(LABEL)
        if labels and wanted not in by_label:
            raise ValueError(
                f"{self.model!r} has no label {wanted!r}; it has {', '.join(sorted(by_label)[:20])}"
            )
        return min(float(by_label.get(wanted, 0.0)), 1.0)

    def fingerprint(self) -> str:
        """Return a hash of the model's file, independent of its path."""
        return f"model sha256 {file_digest(self.model)}"

    def _without_sentences(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        kept, position, num_cut = [], 0, 0
        for sentence in split_sentences(page.text):
            start = page.text.index(sentence, position)
            end = start + len(sentence)
            if self.probability(sentence) >= self.threshold:
                num_cut += 1
                kept.append(page.text[position:start])
            else:
                kept.append(page.text[position:end])
            position = end
        if not num_cut:
            return page
        counts["sentence-filtered:labeled"] += num_cut
        text = "".join([*kept, page.text[position:]]).strip()
        return page._replace(text=text) if text else Dropped("filtered:empty")
