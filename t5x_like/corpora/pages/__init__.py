"""Pages of crawls and other documents, read from the files that hold them."""
