"""Tokens with named features: their forms, their columns, and files of them."""
