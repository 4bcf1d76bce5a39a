"""Rules for single pages, as pure functions: one rule in each file."""
