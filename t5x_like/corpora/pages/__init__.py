"""Reading pages from crawl files and other documents."""
