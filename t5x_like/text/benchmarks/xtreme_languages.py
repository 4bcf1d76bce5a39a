"""Languages of XTREME's tasks (Hu et al. 2020, table 1 and appendix, https://arxiv.org/abs/2003.11080)."""

# Universal Dependencies 2.5, by the names that Hugging Face's folders have.
UDPOS = {
    "af": "Afrikaans", "ar": "Arabic", "bg": "Bulgarian", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "kk": "Kazakh", "ko": "Korean", "mr": "Marathi", "nl": "Dutch", "pt": "Portuguese", "ru": "Russian",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "ur": "Urdu",
    "vi": "Vietnamese", "yo": "Yoruba", "zh": "Chinese",
}  # fmt: skip
# Languages whose treebanks have no validation split.
UDPOS_TEST_ONLY = ("kk", "th", "tl", "yo")
NAMES = UDPOS | {
    "bn": "Bengali", "jv": "Javanese", "ka": "Georgian", "ml": "Malayalam", "ms": "Malay", "my": "Burmese",
    "sw": "Swahili",
}  # fmt: skip
XNLI = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
PAWSX = ("de", "en", "es", "fr", "ja", "ko", "zh")
XQUAD = ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh")
# Published questions: validation and test.
MLQA = {
    "ar": (517, 5_335), "de": (512, 4_517), "en": (1_148, 11_590), "es": (500, 5_253), "hi": (507, 4_918),
    "vi": (511, 5_495), "zh": (504, 5_137),
}  # fmt: skip
# Published questions: training and validation.
TYDIQA = {
    "ar": (14_805, 921), "bn": (2_390, 113), "en": (3_696, 440), "fi": (6_855, 782), "id": (5_702, 565),
    "ko": (1_625, 276), "ru": (6_490, 812), "sw": (2_755, 499), "te": (5_563, 669),
}  # fmt: skip
# Sentences of WikiANN: training, and validation as test (Rahimi et al. 2019, https://aclanthology.org/P19-1015).
_MOST, _FEWER, _LEAST = (20_000, 10_000), (1_000, 1_000), (100, 100)
PANX = {
    "af": (5_000, 1_000), "ar": _MOST, "bg": _MOST, "bn": (10_000, 1_000), "de": _MOST, "el": _MOST, "en": _MOST,
    "es": _MOST, "et": (15_000, 10_000), "eu": (10_000, 10_000), "fa": _MOST, "fi": _MOST, "fr": _MOST, "he": _MOST,
    "hi": (5_000, 1_000), "hu": _MOST, "id": _MOST, "it": _MOST, "ja": _MOST, "jv": _LEAST, "ka": (10_000, 10_000),
    "kk": _FEWER, "ko": _MOST, "ml": (10_000, 1_000), "mr": (5_000, 1_000), "ms": (20_000, 1_000), "my": _LEAST,
    "nl": _MOST, "pt": _MOST, "ru": _MOST, "sw": _FEWER, "ta": (15_000, 1_000), "te": _FEWER, "th": _MOST,
    "tl": (10_000, 1_000), "tr": _MOST, "ur": (20_000, 1_000), "vi": _MOST, "yo": _LEAST, "zh": _MOST,
}  # fmt: skip
