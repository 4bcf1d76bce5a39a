"""Building a corpus from crawl files: stages of independent tasks, on this machine or on a cluster."""
