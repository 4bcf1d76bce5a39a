"""Retrieval: vectors of texts on disk, exact search, reranking, late interaction, and their evaluation."""
