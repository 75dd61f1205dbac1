"""
Data frames of polars
=====================

Estimators take polars data frames as they are and remember the names of the columns. Predictions go back
into a frame as a column.

``pip install maxmargin polars``
"""

import sys

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from maxmargin import KernelSVC, LinearSVC

try:
    import polars as pl
except ImportError:
    print("This example needs polars: pip install polars")
    sys.exit(77)

data = load_iris()
frame = pl.DataFrame(data.data, schema=list(data.feature_names)).with_columns(
    species=pl.Series(data.target_names[data.target].tolist())
)
X, y = frame.drop("species"), frame["species"]

# %%
# A frame gives the same weights as an array:

svc = LinearSVC().fit(X, y)
same = LinearSVC().fit(data.data, data.target_names[data.target])
np.testing.assert_array_equal(svc.coef_, same.coef_)
assert svc.feature_names_in_.tolist() == list(data.feature_names)
frame = frame.with_columns(predicted=pl.Series(svc.predict(X).tolist()))
accuracy = frame.select((pl.col("species") == pl.col("predicted")).mean()).item()
print(frame.group_by("species", maintain_order=True).agg(pl.col("predicted").value_counts()))

# %%
# Columns in another order are an error, as in scikit-learn:

try:
    svc.predict(X.select(reversed(X.columns)))
except ValueError as error:
    print(str(error).splitlines()[0])
else:
    raise AssertionError("columns in another order were accepted")

# %%
# In a pipeline, with strings in a column:

mixed = X.with_columns(
    size=pl.when(pl.col(X.columns[0]) > 6).then(pl.lit("large")).otherwise(pl.lit("small"))
)
columns = make_column_transformer((OneHotEncoder(), ["size"]), (StandardScaler(), X.columns))
model = make_pipeline(columns, KernelSVC()).fit(mixed, y)
assert model.score(mixed, y) > 0.95
assert accuracy > 0.9
print(
    f"frames train as arrays do, bit-identically; accuracy {accuracy:.3f}; names of columns are checked"
)
