"""Every input format is read as another program or plain code reads it, and wrong files are refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

import maxmargin
from maxmargin.command_line.examples import ReaderOptions
from maxmargin.command_line.reading import find_format, read_examples
from maxmargin.command_line.report import CommandError
from maxmargin.data.tokens.templates import parse_templates


def read(path, **options):
    return read_examples(str(path), ReaderOptions(**options)).examples


# -- svmlight --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_svmlight_files_plain_and_compressed(files, tmp_path, ending):
    raw, path = files["queries"].read_bytes(), tmp_path / f"data.svm{ending}"
    if ending == ".zst":
        zstandard = pytest.importorskip("zstandard")
        path.write_bytes(zstandard.compress(raw))
    else:
        packers = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
        path.write_bytes(packers[ending](raw))
    rows = read(path)
    X, y, qid = load_svmlight_file(str(files["queries"]), query_id=True)
    assert (rows.X != X).nnz == 0
    assert (rows.y == y).all()
    assert rows.y.dtype == np.int64
    assert (rows.group == qid).all()


PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda raw: pytest.importorskip("zstandard").compress(raw),
}


@pytest.mark.parametrize("ending", PACKERS)
def test_damaged_compressed_files_are_the_users(refused, files, tmp_path, ending):
    raw = PACKERS[ending](files["queries"].read_bytes() * 50)
    path = tmp_path / f"data.svm{ending}"
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 255
    for damaged in (raw[: len(raw) // 2], raw[:-1], bytes(flipped), b"some text\n" * 9):
        path.write_bytes(damaged)
        assert f"{path}: this compressed file is damaged or incomplete" in refused("fit", path)


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_files_may_be_concatenated(files, tmp_path, ending):
    """As the programs that decompress them read them."""
    packed, path = PACKERS[ending](files["queries"].read_bytes()), tmp_path / f"data.svm{ending}"
    path.write_bytes(packed * 3)
    assert len(read(path).y) == 360


def test_queries_by_their_sizes(files, tmp_path):
    sizes = tmp_path / "sizes"
    sizes.write_text("\n".join(["20"] * 6) + "\n")
    rows = read(files["two classes"], group_sizes=str(sizes))
    assert np.bincount(rows.group).tolist() == [20] * 6
    sizes.write_text("1\n2\n")
    with pytest.raises(CommandError, match=r"add up to 3, but .* has 120 samples"):
        read(files["two classes"], group_sizes=str(sizes))


def test_zero_based_files_need_the_option(refused, run, tmp_path):
    path = tmp_path / "zero.svm"
    path.write_text("1 0:1 2:1\n-1 1:1\n")
    assert "--zero-based" in refused("fit", path)
    assert run("fit", path, "--zero-based", "--json").json["n_features"] == 3


def test_svm_hmm_files_are_sequences(files, problems):
    found = read(files["sequences"], format="svm-hmm")
    assert found.are_sequences
    assert [x.shape for x in found.X] == [(10, 6)] * 12
    assert [label for labels in found.y for label in labels] == problems["queries"][0].tolist()


def test_a_sequence_in_two_places_is_refused(refused, tmp_path):
    path = tmp_path / "torn.svm"
    path.write_text("1 qid:1 1:1\n2 qid:2 1:1\n1 qid:1 1:1\n")
    assert "must follow each other" in refused("fit", path, "--format", "svm-hmm")


# -- columns ---------------------------------------------------------------------------------------


def crfutils_features(sentence, templates):
    """The features of CRFsuite's script crfutils.py, without its __BOS__ and __EOS__."""
    out = []
    for t in range(len(sentence)):
        found = []
        for template in templates:
            values = []
            for field, offset in template:
                p = t + offset
                if p not in range(len(sentence)):
                    values = []
                    break
                values.append(sentence[p][field])
            if values:
                name = "|".join(f"{f}[{o}]" for f, o in template)
                found.append(f"{name}={'|'.join(values)}")
        out.append(found)
    return out


def test_templates_give_the_features_of_crfsuites_scripts(tmp_path):
    lines = ["the DT B", "old JJ I", "cat NN I", "", "it PRP B", "sleeps VBZ O"]
    path = tmp_path / "data.conll"
    path.write_text("\n".join(lines) + "\n")
    text = "w[-2] w[0] w[1]\nw[-1]|w[0]\npos[-1]|pos[0]|pos[1]"
    found = read(path, fields="w pos y", template=text)
    templates = [
        *([("w", -2)], [("w", 0)], [("w", 1)], [("w", -1), ("w", 0)]),
        [("pos", -1), ("pos", 0), ("pos", 1)],
    ]
    rows = [
        [dict(zip(("w", "pos"), r.split(), strict=False)) for r in part]
        for part in (lines[:3], lines[4:])
    ]
    assert [crfutils_features(part, templates) for part in rows] == found.X
    assert found.y == [["B", "I", "I"], ["B", "O"]]


def crfpp_value(columns, row, column):
    """CRF++'s rule for positions outside of the sequence."""
    n = len(columns[0])
    if row < 0:
        return f"_B{row}"
    return f"_B+{row - n + 1}" if row >= n else columns[column][row]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 4])
def test_templates_of_crfpp(n, offset):
    columns = [[f"a{k}" for k in range(n)], [f"b{k}" for k in range(n)]]
    text = f"# comment\nU01:%x[{offset},0]/%x[0,1]\nU02:%x[0,0]x\nB\n"
    first, second = parse_templates(text, ["c0", "c1"], "test")
    expected = [f"U01:{crfpp_value(columns, t + offset, 0)}/b{t}" for t in range(n)]
    assert first.features(columns) == expected
    assert second.features(columns) == [f"U02:a{t}x" for t in range(n)]


def test_functions_of_values():
    (columns,) = [[["Walking", "X-15", "a"]]]
    text = "w[0].lower w[0].suffix3 w[0].prefix2 w[0].shape w[-1].lower|w[0]"
    found = [template.features(columns) for template in parse_templates(text, ["w"], "test")]
    assert [f[0] for f in found] == [
        "w[0].lower=walking", "w[0].suffix3=ing", "w[0].prefix2=Wa", "w[0].shape=Xxx", None,
    ]  # fmt: skip
    assert found[3][1] == "w[0].shape=X-00"
    assert found[4][1] == "w[-1].lower|w[0]=walking|X-15"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("v[0]", "no column 'v'; the columns are w, y"),
        ("w[0", "is no template"),
        ("w[0].middle", "no function 'middle'"),
        ("w[0].suffix0", "no function"),
        ("U1:%x[0,5]", "no column 5"),
        ("B1:%x[0,0]", "order 2"),
        ("y[0]", "the label that is to be predicted"),
        ("# nothing", "holds no templates"),
    ],
)
def test_wrong_templates_are_refused(refused, files, template, message):
    assert message in refused("fit", files["columns"], "--features", template)


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("torn.conll", "a b c\nd e\n", [], "line 2: 2 columns, but the first line has 3"),
        ("torn.conll", "a b c\n", ["--fields", "w,y"], "has 3 columns, but 2 are named"),
        ("data.crfsuite", "B\ttime=12:30 h\n", [], "line 1: '30 h' is not a number"),
        ("data.crfsuite", "@heavy:1\nB\tx\n", [], "only @weight"),
    ],
)
def test_wrong_files_of_sequences_are_refused(refused, tmp_path, name, text, options, message):
    path = tmp_path / name
    path.write_text(text)
    assert message in refused("fit", path, *options)


CONLLU = """\
# sent_id = 1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# sent_id = 2
1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_
"""


def test_conllu_words_only(tmp_path):
    path = tmp_path / "small.conllu"
    path.write_text(CONLLU)
    found = read(path, template="form[0]")
    assert found.X == [[["form[0]=do"], ["form[0]=n't"]], [["form[0]=New York"]]]
    assert found.y == [["AUX", "PART"], ["PROPN"]]
    assert read(path, label="xpos").y == [["VBP", "RB"], ["NNP"]]
    features = {name for x in read(path).X for token in x for name in token}
    assert all(name.startswith("form[") for name in features)  # no other annotation is used


# -- crfsuite --------------------------------------------------------------------------------------


def test_crfsuite_files(tmp_path):
    path = tmp_path / "data.crfsuite"
    path.write_text("B\tw=a\\:b\tx:0.5\tx:0.25\nO\tw=\\\\\n\n@weight:2\nO\n")
    found = read(path)
    assert found.X == [[{"w=a:b": 1.0, "x": 0.75}, ["w=\\"]], [[]]]
    assert found.y == [["B", "O"], ["O"]]
    assert found.weight.tolist() == [1.0, 2.0]


def test_columns_become_a_file_that_crfsuite_learns_from(run, files, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    target = tmp_path / "words.crfsuite"
    assert run("convert", files["columns"], target).code == 0
    columns, written = read(files["columns"]), read(target)
    assert written.X == columns.X
    assert written.y == columns.y
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, y in zip(written.X, written.y, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    assert tagger.tag(columns.X[0]) == columns.y[0]


# -- tables ----------------------------------------------------------------------------------------


@pytest.fixture
def table(problems, tmp_path):
    path = tmp_path / "table.csv"
    X, y = problems["X"], problems["two classes"]
    lines = ["a,b,c,d,e,f,label,w,q"]
    for k, row in enumerate(X.tolist()):
        word = "yes" if y[k] > 0 else "no"
        lines.append(",".join([*map(repr, row), word, str(1 + k % 3), f"q{k // 10}"]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_csv_tables(table, problems):
    rows = read(table, weight="w", group="q")
    np.testing.assert_array_equal(rows.X, problems["X"])
    assert rows.names == list("abcdef")
    assert (rows.y == np.where(problems["two classes"] > 0, "yes", "no")).all()
    assert rows.weight.tolist()[:4] == [1.0, 2.0, 3.0, 1.0]
    assert len(np.unique(rows.group)) == 12


def test_csv_columns_are_found_by_name(run, table, tmp_path):
    model, other = tmp_path / "m.safetensors", tmp_path / "other.csv"
    drop = ["--weight", "w", "--group", "q"]
    outcome = run("fit", table, "-o", model, "--estimator", "LinearSVC", *drop)
    assert outcome.code == 0, outcome
    names, *lines = [line.split(",") for line in table.read_text().splitlines()]
    order = [names.index(name) for name in ("f", "a", "c", "b", "e", "d")]
    other.write_text("\n".join(",".join(line[k] for k in order) for line in [names, *lines]) + "\n")
    first, second = run("predict", model, table), run("predict", model, other)
    assert (second.code, second.out) == (0, first.out)
    assert set(second.out.split()) == {"yes", "no"}
    assert maxmargin.load(model).feature_names_in_.tolist() == list("abcdef")


def test_csv_without_names(run, tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("0.5,1,3\n-0.5,2,4\n0.25,1,3\n-1,2,4\n")
    found = run("fit", path, "--no-header", "--label", "f2", "--json").json
    assert (found["n_samples"], found["n_features"]) == (4, 2)


def test_wrong_tables_are_refused(refused, table, tmp_path):
    path = tmp_path / "wrong.csv"
    path.write_text("a,b,y\n1,red,0\n2,blue,1\n")
    assert "column 'b' has type string: expected numbers" in refused("fit", path)
    path.write_text("a,b,y\n1,2,0\n1,,0\n")
    assert "column 'b' has missing values" in refused("fit", path)
    path.write_text("a,b,y\n1,2\n")
    assert "Expected 3 columns, got 2: 1,2" in refused("fit", path)
    path.write_text("a,b,c\n1,2,0\n")
    assert "which column is the label" in refused("fit", path)
    message = refused("fit", path, "--label", "z")  # and not an error of another column
    assert f"--label z: {path} has no column 'z'; its columns are a, b, c." in message
    assert "no column 'z'" in refused("fit", table, "--group", "z")
    path.write_text("")
    assert "Empty CSV file" in refused("fit", path)


def test_tables_of_other_spellings(tmp_path):
    path = tmp_path / "t.tsv.gz"
    text = '\ufeffa\tb\ty\r\n1\t1e-3\t"u, ""v"""\r\n2\tinf\t"x\ny"\r\n'
    path.write_bytes(gzip.compress(text.encode()))
    rows = read(path)
    assert rows.names == ["a", "b"]
    np.testing.assert_array_equal(rows.X, [[1.0, 1e-3], [2.0, np.inf]])
    assert rows.y.tolist() == ['u, "v"', "x\ny"]


def test_a_table_in_many_batches(run, table, tmp_path, monkeypatch):
    whole = read(table, weight="w", drop="q")
    monkeypatch.setattr("maxmargin.command_line.tables.BLOCK", 2000)
    parts = read(table, weight="w", drop="q")
    for name in ("X", "y", "weight", "names"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert run("convert", table, tmp_path / "rows", "--weight", "w", "--drop", "q").code == 0
    rows = maxmargin.data.open(tmp_path / "rows")
    np.testing.assert_array_equal(rows.load()[0], whole.X)
    assert rows.load()[1].tolist() == whole.y.tolist()


def test_a_wrong_label_is_named_even_if_another_column_has_strings(refused, table):
    message = refused("fit", table, "--label", "lable")  # the columns label and q are strings
    assert "no column 'lable'; its columns are a, b, c, d, e, f, label, w, q." in message


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_string_columns_are_left_out_on_request(run, refused, table, tmp_path, ending):
    path, model = table, tmp_path / "m.safetensors"
    if ending == "parquet":
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        path = tmp_path / "table.parquet"
        pandas.read_csv(table).to_parquet(path)
    message = refused("fit", path)
    assert "column 'q'" in message
    assert "--drop NAMES" in message
    assert run("fit", path, "--drop", "q,w", "--json", "-o", model).json["n_features"] == 6
    labels = run("predict", model, path).out  # the model remembers what is left out
    assert set(labels.split()) == {"yes", "no"}
    assert run("fit", path, "--columns", "c, a", "--json", "-o", model).json["n_features"] == 2
    assert maxmargin.load(model).feature_names_in_.tolist() == ["c", "a"]
    assert run("evaluate", model, path, "--json").json["n_examples"] == 120
    assert "--drop z" in refused("fit", path, "--drop", "z")
    assert "--columns z" in refused("fit", path, "--columns", "a,z")


def test_what_was_left_out_may_be_missing_from_new_data(run, table, tmp_path):
    model, other = tmp_path / "m.safetensors", tmp_path / "other.csv"
    assert run("fit", table, "--drop", "q,w", "-o", model).code == 0
    other.write_text("\n".join(",".join(line.split(",")[:6]) for line in table.open()) + "\n")
    assert run("predict", model, other).out == run("predict", model, table).out


def test_parquet_files(run, table, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    pandas.read_csv(table).to_parquet(path)
    drop = {"weight": "w", "label": "label"}
    pandas.read_csv(table).drop(columns="q").to_parquet(path)
    rows, same = read(path, **drop), read(table, group="q", **drop)
    np.testing.assert_array_equal(rows.X, same.X)
    assert (rows.y == same.y).all()
    assert rows.names == same.names
    assert run("fit", path, "--weight", "w", "--json").json["n_features"] == 6


# -- folders and other places ------------------------------------------------------------------------


def test_folders_are_read_in_parts_and_give_the_same_model(run, files, tmp_path):
    for kind in ("two classes", "queries"):
        folder = tmp_path / kind.replace(" ", "_")
        assert run("convert", files[kind], folder).code == 0
        assert read(folder).on_disk
        one = run("fit", files[kind], "--json").json
        two = run("fit", folder, "--json").json
        same = ("estimator", "n_samples", "n_features", "certified")
        assert [one[name] for name in same] == [two[name] for name in same]
        assert max(one["lower_bound"], two["lower_bound"]) <= min(
            one["objective"], two["objective"]
        )
        back = tmp_path / f"{kind}.svm"
        assert run("convert", folder, back).code == 0
        assert (read(back).X != read(files[kind]).X).nnz == 0
        assert (read(back).y == read(files[kind]).y).all()


def test_a_data_set_at_a_url_is_copied_once(run, files, tmp_path):
    pytest.importorskip("fsspec")
    url, copies, model = "memory://command-line/rows", tmp_path / "copies", tmp_path / "model"
    assert run("convert", files["two classes"], url).code == 0
    assert run("fit", url, "--cache", copies, "--output", model).code == 0
    made = {path: path.stat().st_mtime_ns for path in copies.glob("*.bin")}
    assert len(made) == 4  # data, indices, indptr, label
    with_cache = run("evaluate", model, url, "--cache", copies, "--json").json
    assert with_cache["accuracy"] == run("evaluate", model, url, "--json").json["accuracy"]
    predicted = run("predict", model, url, "--cache", copies).out
    assert predicted == run("predict", model, url).out
    assert made == {path: path.stat().st_mtime_ns for path in copies.glob("*.bin")}


def test_sequences_in_folders(run, refused, files, tmp_path):
    folder = tmp_path / "sequences"
    assert run("convert", files["sequences"], folder, "--format", "svm-hmm").code == 0
    one = run("fit", files["sequences"], "--format", "svm-hmm", "--json").json
    two = run("fit", folder, "--json", "--output", tmp_path / "m").json
    assert one["objective"] == two["objective"]
    assert run("evaluate", tmp_path / "m", folder).code == 0
    assert run("cv", folder, "--Cs", "1", "--folds", 3).code == 0
    assert run("convert", files["two classes"], tmp_path / "samples").code == 0
    assert "holds no sequences" in refused("evaluate", tmp_path / "m", tmp_path / "samples")
    assert run("convert", folder, tmp_path / "back.svm").code == 0
    back = read(tmp_path / "back.svm", format="svm-hmm")
    assert back.y == read(files["sequences"], format="svm-hmm").y


def test_a_data_set_is_not_replaced_by_accident(run, refused, files, tmp_path):
    folder = tmp_path / "data"
    assert run("convert", files["two classes"], folder).code == 0
    assert "already holds a data set" in refused("convert", files["two classes"], folder)
    assert run("convert", files["several classes"], folder, "--overwrite").code == 0


def test_tables_are_converted_by_several_workers(run, refused, table, tmp_path):
    pandas = pytest.importorskip("pandas")
    one, two = tmp_path / "one", tmp_path / "two"
    frame = pandas.read_csv(table)
    frame["q"] = frame["q"].str[1:].astype(int)
    table = tmp_path / "table.parquet"
    frame.to_parquet(table)
    roles = ["--weight", "w", "--group", "q", "--drop", "a"]
    assert run("convert", table, one, *roles).code == 0
    assert run("convert", table, two, *roles, "--n-jobs", 2, "--engine", "threads").code == 0
    assert maxmargin.data.open(one).fingerprint == maxmargin.data.open(two).fingerprint
    rows, expected = read(one), read(table, weight="w", group="q", drop="a")
    part = rows.part(0, len(rows))
    np.testing.assert_array_equal(part.X, expected.X)
    np.testing.assert_array_equal(part.group, expected.group)
    assert part.y.tolist() == expected.y.tolist()
    assert part.names == expected.names == list("bcdef")
    message = refused("convert", table, tmp_path / "three", "--label", "f")
    assert "column 'label' has type" in message
    assert "--drop NAMES" in message


def test_sparse_parquet_files(run, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    columns = [[0], [4], [0, 1], [4, 2]] * 5
    lists = {"i": columns, "v": [[1.0] * len(row) for row in columns], "y": [1, 2] * 10}
    pq.write_table(pa.table(lists), path)
    assert read(path).X.shape == (20, 5)
    assert run("convert", path, tmp_path / "rows").code == 0
    found = read(tmp_path / "rows").part(0, 20)
    assert (found.X != read(path).X).nnz == 0
    assert found.y.tolist() == read(path).y.tolist()
    assert run("fit", path, "--json").json["certified"]


@pytest.mark.slow
def test_files_and_data_sets_in_an_object_store(run, files, tmp_path, monkeypatch):
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("s3fs")
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="data")
        client.upload_file(str(files["two classes"]), "data", "train.svm")
        local = run("fit", files["two classes"], "--json").json
        outcome = run("fit", "s3://data/train.svm", "--json")
        assert outcome.code == 0, outcome
        assert outcome.json["objective"] == local["objective"]
        assert run("convert", files["two classes"], "s3://data/folder").code == 0
        stored = run("fit", "s3://data/folder", "--json").json
        assert stored["certified"]
        assert local["lower_bound"] <= stored["objective"]
        assert stored["lower_bound"] <= local["objective"]
    finally:
        server.stop()


# -- the choice of the format -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("a.svm", "svmlight"), ("a.t.bz2", "svmlight"), ("a.conll.xz", "columns")),
        *(("a.conllu", "conllu"), ("a.tsv.gz", "csv"), ("a.parquet", "parquet")),
        *(("s3://bucket/folder", "folder"), ("s3://bucket/a.svm.zst", "svmlight")),
    ],
)
def test_formats_by_name(name, expected):
    assert find_format(name) == expected


def test_formats_by_content(refused, tmp_path):
    path = tmp_path / "data"
    path.write_text("# comment\n+1 qid:3 1:0.5 7:-1e-3 # more\n")
    assert find_format(str(path)) == "svmlight"
    path.write_text("some words\n")
    assert "Use --format" in refused("fit", path)
    path.write_text("")
    assert "Use --format" in refused("fit", path)
    os.mkfifo(tmp_path / "pipe")
    assert "Use --format" in refused("fit", tmp_path / "pipe")  # and nothing is read from it
    (tmp_path / "empty.svm").write_text("\n")
    assert "holds no samples" in refused("fit", tmp_path / "empty.svm")


def test_written_svmlight_is_exact(run, files, tmp_path):
    target = tmp_path / "copy.svm.gz"
    for kind in ("numbers", "queries"):
        assert run("convert", files[kind], target).code == 0
        X, y, qid = load_svmlight_file(str(target), query_id=True, zero_based=False)
        original = load_svmlight_file(str(files[kind]), query_id=True, zero_based=False)
        assert (sp.csr_matrix(X) != original[0]).nnz == 0
        assert (y == original[1]).all()
        assert (qid == original[2]).all()
