"""What a corpus keeps of a single page: pure functions, one rule a file."""
