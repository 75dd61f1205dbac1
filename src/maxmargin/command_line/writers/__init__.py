"""Writers of examples: one file per format."""
