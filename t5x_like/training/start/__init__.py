"""Ways to start a run, one file for each: the weights before the first step, and where they come from."""
