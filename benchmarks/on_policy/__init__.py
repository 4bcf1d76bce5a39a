"""What methods that learn from sampled answers reach with tiny models: accuracies, rewards, and over-optimization."""
