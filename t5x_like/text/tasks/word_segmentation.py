"""Words of Chinese text, which is written without spaces, by the library ``jieba``.

Whole-word masks of Chinese hide all characters of such a word (Cui et al. 2021, §3.1, https://arxiv.org/abs/1906.08101,
who segment with LTP; https://github.com/fxsjy/jieba).
"""

import functools
import importlib.metadata
import re
import warnings
from types import ModuleType
from typing import Any

# The Unified Ideographs and their extension A, the compatibility block, and the supplementary planes.
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")


def word_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return first characters of a text's words, and those after their last, for words of Chinese characters.

    Other text, such as English words and punctuation, is in no span: vocabularies mark its words.

    Raises:
      ValueError: jieba isn't installed.
    """
    return tuple((start, end) for word, start, end in _tokenizer().tokenize(text) if _HAN.search(word))


def segmenter_version() -> str:
    """Return the name and version of the segmenter, on which its words depend.

    Raises:
      ValueError: jieba isn't installed.
    """
    require_segmenter()
    return f"jieba {importlib.metadata.version('jieba')}"


def require_segmenter() -> ModuleType:
    """Return the library.

    Raises:
      ValueError: It isn't installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports pkg_resources, which is deprecated
            import jieba  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            "word_segmentation='jieba' needs the library jieba; install it: pip install 't5x-like[chinese]'"
        ) from None
    return jieba


@functools.cache
def _tokenizer() -> Any:
    tokenizer = require_segmenter().Tokenizer()
    # As initialize() does, but without its cache: a file in the shared folder for temporary files could be anyone's.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
