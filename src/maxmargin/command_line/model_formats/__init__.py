"""Linear models in the text formats of other programs: one file per format."""
