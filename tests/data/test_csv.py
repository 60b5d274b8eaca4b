# SPDX-License-Identifier: Apache-2.0
"""The CSV reader against Python's csv module."""

from __future__ import annotations

import bisect
import csv
import gzip
import math
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reader_oracle import integer_id, read_all, text_id

import tf_sfctr.data as data

CENSUS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"),
    *("race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"),
)

TEXT = 'click,city,price,user\r\n1,"a, b",2.5,7\r\n0,,,8\r\n1,"say ""hi""",-1e3,7\r\n'


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "a.csv").write_text(TEXT)
    return tmp_path / "a.csv"


def test_reads_quoted_and_missing_values(path: pathlib.Path) -> None:
    numbers, ids, labels, _ = read_all(data.csv(path, 2, label="click", numeric=["price"]))
    rows = list(csv.DictReader(TEXT.splitlines(keepends=True)))
    assert numbers.tolist() == [[float(row["price"] or 0)] for row in rows]
    assert ids.tolist() == [[text_id(row["city"], "city"), text_id(row["user"], "user")] for row in rows]
    assert labels.tolist() == [[float(row["click"])] for row in rows]


def test_reads_real_file_with_header(real_file: Callable[[str], str]) -> None:
    path = real_file("deepctr_samples/avazu_sample.txt")
    numbers, ids, labels, _ = read_all(data.csv(path, 32, label="click", numeric=["C15", "C16"]))
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("click", "C15", "C16")]
    assert ids.tolist() == [[text_id(row[name], name) for name in names] for row in rows]
    assert numbers.tolist() == [[float(row["C15"]), float(row["C16"])] for row in rows]
    assert labels[:, 0].tolist() == [float(row["click"]) for row in rows]


@pytest.mark.parametrize(("name", "num_rows"), [("adult.train.csv.gz", 32561), ("adult.test.csv.gz", 16281)])
def test_reads_census(real_file: Callable[[str], str], name: str, num_rows: int) -> None:
    path = real_file(f"census_adult/{name}")
    numeric = ["age", "hours_per_week"]
    dataset = data.csv(
        path, 1000, label="income", numeric=numeric, header=CENSUS, positive=">50K", strip=True, missing=["?"]
    )
    numbers, ids, labels, _ = read_all(dataset)
    with gzip.open(path, "rt", newline="") as file:
        rows = [dict(zip(CENSUS, map(str.strip, row), strict=True)) for row in csv.reader(file) if row]
    assert len(rows) == num_rows
    assert labels[:, 0].tolist() == [float(row["income"].rstrip(".") == ">50K") for row in rows]
    assert numbers.tolist() == [[float(row[name]) for name in numeric] for row in rows]
    index = [name for name in CENSUS if name not in (*numeric, "income")].index("workclass")
    known = {text: text_id("" if text == "?" else text, "workclass") for text in {row["workclass"] for row in rows}}
    assert ids[:, index].tolist() == [known[row["workclass"]] for row in rows]


def test_reads_comma_separated_criteo_with_crlf(real_file: Callable[[str], str]) -> None:
    path = real_file("criteo_ycjuan/train.tiny.csv")
    numeric = [f"I{i}" for i in range(1, 14)]
    numbers, _, labels, _ = read_all(data.csv(path, 100, label="Label", numeric=numeric, transform="log"))
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [[math.log1p(max(float(row[name] or 0), 0)) for name in numeric] for row in rows]
    np.testing.assert_allclose(numbers, expected, rtol=1e-6, atol=1e-7)
    assert labels.sum() == sum(row["Label"] == "1" for row in rows)


def test_header_option_delimiter_and_column_order(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("a;1;0\nb;2;1\n")
    dataset = data.csv(tmp_path / "a.txt", 4, label="y", categorical=["n", "s"], header=["s", "n", "y"], delimiter=";")
    numbers, ids, labels, _ = read_all(dataset)
    assert numbers.shape == (2, 0)
    assert ids.tolist() == [[text_id("1", "n"), text_id("a", "s")], [text_id("2", "n"), text_id("b", "s")]]
    assert labels.tolist() == [[0.0], [1.0]]


def test_numeric_only_has_no_categorical_entry(path: pathlib.Path) -> None:
    features, _ = next(iter(data.csv(path, 4, label="click", categorical=[], numeric=["price"])))
    assert list(features) == ["numeric"]


def test_column_may_be_number_and_category(path: pathlib.Path) -> None:
    dataset = data.csv(path, 4, label="click", categorical=["user"], numeric=["user"])
    numbers, ids, _, _ = read_all(dataset)
    assert numbers.tolist() == [[7.0], [8.0], [7.0]]
    assert ids.tolist() == [[text_id(text, "user")] for text in "787"]
    both, _ = next(iter(data.csv(path, 4, label="click", categorical=["user"], numeric=["user"], dict_features=True)))
    assert sorted(both) == ["user", "user_id"]


def test_positive_label_without_strip_is_exact(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("y,c\nyes,1\nno,1\n yes,1\nyes.,1\n")
    for strip, expected in ((False, [1, 0, 0, 0]), (True, [1, 0, 1, 1])):
        _, _, labels, _ = read_all(data.csv(tmp_path / "a.csv", 4, label="y", positive="yes", strip=strip))
        assert labels[:, 0].tolist() == expected


def test_bucketize_by_boundaries(tmp_path: pathlib.Path) -> None:
    values = ["", "-5", "0", "1", "2.5", "9", "100"]
    (tmp_path / "a.csv").write_text("y,v,c\n" + "".join(f"0,{value},x\n" for value in values))
    dataset = data.csv(tmp_path / "a.csv", 3, label="y", numeric=["v"], bucketize_numeric={"v": [0, 2.5, 9.5]})
    _, ids, _, _ = read_all(dataset)
    buckets = [-(1 << 63) if not value else bisect.bisect_right([0, 2.5, 9.5], float(value)) for value in values]
    assert ids.tolist() == [[text_id("x", "c"), integer_id(bucket, "v")] for bucket in buckets]


def test_quantile_boundaries_even_out_the_buckets(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("y,v,w\n" + "".join(f"0,{i * i},{i % 2}\n" for i in range(1000)))
    options: dict[str, Any] = {"label": "y", "numeric": ["v", "w"], "categorical": []}
    bounds = data.quantile_boundaries(data.csv(tmp_path / "a.csv", 100, **options), ["v", "w"], 10)
    assert len(bounds["v"]) == 9
    assert len(bounds["w"]) <= 2
    _, ids, _, _ = read_all(data.csv(tmp_path / "a.csv", 100, bucketize_numeric=bounds, **options))
    counts = np.unique(ids[:, 0], return_counts=True)[1]
    assert counts.min() >= 99
    assert counts.max() <= 101
    assert len(np.unique(ids[:, 1])) == 2


def test_integers_pass_through(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("y,c\n1,-7\n0,\n0,9223372036854775807\n")
    _, ids, _, _ = read_all(data.csv(tmp_path / "a.csv", 4, label="y", hash_ids=False))
    assert ids.tolist() == [[-7], [-1], [(1 << 63) - 1]]


def test_byte_order_mark_is_no_part_of_the_header(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfy,c\n1,a\n")
    _, ids, _, _ = read_all(data.csv(tmp_path / "a.csv", 4, label="y"))
    assert ids.tolist() == [[text_id("a", "c")]]


def test_header_only_and_blank_lines(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("y,c\n")
    assert list(data.csv(tmp_path / "a.csv", 4, label="y")) == []
    (tmp_path / "a.csv").write_text("y,c\n\n1,a\n\n\n0,b\n\n")
    assert read_all(data.csv(tmp_path / "a.csv", 4, label="y"))[2].tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"label": "nope"}, "csv: label must name columns of {path}; got 'nope'. It has: click, city, price, user."),
        ({"label": "click", "categorical": ["cty"]}, "csv: categorical must name columns of {path}; got 'cty'."),
        ({"label": "click", "numeric": ["cost"]}, "csv: numeric must name columns of {path}; got 'cost'."),
        (
            {"label": "click", "categorical": []},
            "csv: categorical and numeric must name a column between them;",
        ),
        ({"label": "click", "delimiter": "||"}, "csv: delimiter must be one character; got '||'."),
        (
            {"label": "click", "bucketize_numeric": {"price": [1.0]}},
            "csv: bucketize_numeric must name numeric columns; got 'price'. Add it to numeric.",
        ),
    ],
)
def test_bad_column_is_named(path: pathlib.Path, options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text.format(path=path))):
        data.csv(path, 4, **options)


def test_files_with_different_headers_are_named(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "b.csv").write_text("click,price,city,user\n")
    with pytest.raises(ValueError, match=r"csv: files must have the same header; got .* in .*b\.csv"):
        data.csv([path, tmp_path / "b.csv"], 4, label="click")


def test_file_without_header_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"csv: files must begin with a line of column names; got none in .*a\.csv"):
        data.csv(tmp_path / "a.csv", 4, label="y")
    assert list(data.csv(tmp_path / "a.csv", 4, label="y", header=["y", "c"])) == []
