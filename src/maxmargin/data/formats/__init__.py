"""Files in the formats of other programs: svmlight, CSV, Parquet, and compressed text."""
