"""Connection to seqio: registration, preprocessors, data sources and vocabularies."""
