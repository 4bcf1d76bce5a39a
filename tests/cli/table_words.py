"""Words of tables that tests make."""

WORDS = [
    "the",
    "house",
    "of",
    "a",
    "king",
    "stood",
    "by",
    "river",
    "and",
    "his",
    "people",
    "went",
    "up",
    "to",
]
