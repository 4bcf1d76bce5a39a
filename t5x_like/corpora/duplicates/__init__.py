"""What a corpus keeps of pages, lines and spans that come more than once in it."""
