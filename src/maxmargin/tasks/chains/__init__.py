"""Chain models: one label per token of a sequence."""
