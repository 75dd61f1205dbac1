"""Parsing: trees of sentences by a context-free grammar."""
