"""The data set a9a, from the folder that MAXMARGIN_DATA names."""

from __future__ import annotations

import lzma
import os
from pathlib import Path

import numpy as np
from benchopt import BaseDataset
from sklearn.datasets import load_svmlight_file


class Dataset(BaseDataset):
    """32,561 sparse samples with 123 features."""

    name = "a9a"

    def get_data(self):
        """Features and labels."""
        with lzma.open(Path(os.environ["MAXMARGIN_DATA"], "classification", "a9a.xz")) as file:
            X, y = load_svmlight_file(file)
        X = X.tocsc()  # some solvers read its columns, and want indices of 32 bits
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return {"X": X, "y": y}
