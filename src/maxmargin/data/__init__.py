"""Feature matrices for training, in memory, on disk or matrix-free."""

from maxmargin.data.columns import LazyColumn
from maxmargin.data.conversion import convert
from maxmargin.data.dataset import Dataset, open
from maxmargin.data.design import CSRDesign, DenseDesign, Design, as_design, is_design, shard_bounds
from maxmargin.data.formats.parquet import read_arrow, read_parquet
from maxmargin.data.formats.svmlight import read_svmlight
from maxmargin.data.kernel_design import KernelDesign
from maxmargin.data.kmers import KmerDesign
from maxmargin.data.manifest import DatasetError
from maxmargin.data.parts import commit, write, write_part
from maxmargin.data.sequence_writer import write_sequences
from maxmargin.data.sharded import ShardedDesign
from maxmargin.data.stack import hstack
from maxmargin.data.tokens.conll import read_conll
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.data.typed_rows import Quantized

__all__ = [
    "CSRDesign",
    "Dataset",
    "DatasetError",
    "DenseDesign",
    "Design",
    "KernelDesign",
    "KmerDesign",
    "LazyColumn",
    "Quantized",
    "ShardedDesign",
    "TokenVectorizer",
    "as_design",
    "commit",
    "convert",
    "hstack",
    "is_design",
    "open",
    "read_arrow",
    "read_conll",
    "read_parquet",
    "read_svmlight",
    "shard_bounds",
    "write",
    "write_part",
    "write_sequences",
]
