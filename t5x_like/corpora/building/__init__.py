"""From crawl files to a corpus: in stages of independent tasks, on this machine's cores or on Apache Beam."""
