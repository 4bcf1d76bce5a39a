"""Deduplication of lines, spans and pages in a whole corpus."""
