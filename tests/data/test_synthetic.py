# SPDX-License-Identifier: Apache-2.0
"""The synthetic data: reproducible, of the promised distribution, with a ceiling that holds."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from reader_oracle import CATEGORICAL, NUMERIC, integer_id, read_all

import tf_sfctr.data as data
from tf_sfctr.data._synthetic import auc

SMALL = data.Synthetic(seed=3, scale=0.001)


def test_rows_do_not_depend_on_how_they_are_cut() -> None:
    whole = SMALL.rows(0, 500)
    for begin, end in ((0, 1), (17, 300), (499, 500), (5, 5)):
        part = SMALL.rows(begin, end)
        np.testing.assert_array_equal(part.ranks, whole.ranks[begin:end])
        np.testing.assert_array_equal(part.counts, whole.counts[begin:end])
        np.testing.assert_array_equal(part.label, whole.label[begin:end])


def test_seed_changes_everything() -> None:
    one, two = SMALL.rows(0, 1000), data.Synthetic(seed=4, scale=0.001).rows(0, 1000)
    assert (one.ranks != two.ranks).mean() > 0.3
    assert (one.label != two.label).mean() > 0.1


def test_criteo_table_sizes() -> None:
    assert len(data.CRITEO_TABLE_SIZES) == 26
    assert sum(data.CRITEO_TABLE_SIZES) == 33_762_577


def test_ranks_follow_the_power_law() -> None:
    source = data.Synthetic(skew=1.2, table_sizes=(1000, 3))
    ranks = source.rows(0, 200_000).ranks
    assert ranks.min(0).tolist() == [0, 0]
    assert ranks.max(0).tolist() == [999, 2]
    share = np.bincount(ranks[:, 0]) / len(ranks)
    # The continuous law on [k, k + 1), integrated.
    edges = np.arange(1, 1002) ** -0.2
    expected = -np.diff(edges) / (1 - edges[-1])
    np.testing.assert_allclose(share[:20], expected[:20], rtol=0.05)


def test_labels_have_the_rate_and_the_teachers_odds() -> None:
    rows = SMALL.rows(0, 100_000)
    assert rows.label.mean() == pytest.approx(0.25, abs=0.01)
    chance = 1 / (1 + np.exp(-rows.logit))
    for low in (0.05, 0.3, 0.6):
        inside = (chance > low) & (chance < low + 0.1)
        assert rows.label[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.02)


def test_counts_are_whole_and_some_are_missing() -> None:
    counts = SMALL.rows(0, 20_000).counts
    assert np.isnan(counts).mean() == pytest.approx(0.2, abs=0.01)
    known = counts[~np.isnan(counts)]
    assert (known == np.floor(known)).all()
    assert (known >= 0).all()


def test_no_model_of_the_features_beats_the_teacher() -> None:
    ceiling = SMALL.teacher_auc(50_000)
    assert 0.75 < ceiling < 0.9
    rows = SMALL.rows(0, 50_000)
    assert auc(rows.label, rows.logit + np.random.default_rng(0).normal(0, 0.5, 50_000)) < ceiling
    assert auc(rows.label, rows.ranks[:, 0]) < ceiling


def test_auc_counts_ties_half() -> None:
    assert auc(np.array([0, 1, 1, 0]), np.array([0.1, 0.9, 0.5, 0.5])) == pytest.approx(0.875)
    assert np.isnan(auc(np.ones(3), np.arange(3)))


def test_dataset_holds_the_rows() -> None:
    rows = SMALL.rows(0, 1000)
    numbers, ids, labels, sizes = read_all(data.synthetic(1000, 300, source=SMALL, transform="none"))
    assert sizes == [300, 300, 300, 100]
    np.testing.assert_array_equal(numbers, np.nan_to_num(rows.counts))
    np.testing.assert_array_equal(labels[:, 0], rows.label)
    assert ids[7].tolist() == [
        integer_id(int(rank), name) for rank, name in zip(rows.ranks[7], CATEGORICAL, strict=True)
    ]
    _, ranks, _, _ = read_all(data.synthetic(1000, 300, source=SMALL, hash_ids=False))
    np.testing.assert_array_equal(ranks, rows.ranks)


def test_workers_share_the_rows() -> None:
    _, whole, _, _ = read_all(data.synthetic(1000, 30, source=SMALL, hash_ids=False))
    parts = [
        read_all(data.synthetic(1000, 30, source=SMALL, hash_ids=False, num_workers=3, worker_index=i))[1]
        for i in range(3)
    ]
    assert sorted(map(tuple, np.concatenate(parts))) == sorted(map(tuple, whole))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_written_files_hold_the_same_rows(tmp_path: pathlib.Path, suffix: str) -> None:
    named: dict[str, Any] = {"label": "label", "numeric": NUMERIC, "categorical": CATEGORICAL, "transform": "log"}
    data.write_criteo_tsv(tmp_path / f"a.tsv{suffix}", 300, SMALL)
    data.write_parquet(tmp_path / "s.parquet", 300, SMALL)
    data.write_parquet(tmp_path / "i.parquet", 300, SMALL, strings=False)
    data.write_tfrecord(tmp_path / f"a.tfrecord{suffix}", 300, SMALL)
    tsv = read_all(data.criteo(tmp_path / f"a.tsv{suffix}", 64))
    for other in (
        data.parquet(tmp_path / "s.parquet", 64, **named),
        data.tfrecord(tmp_path / f"a.tfrecord{suffix}", 64, **named),
    ):
        numbers, ids, labels, _ = read_all(other)
        np.testing.assert_allclose(numbers, tsv[0], rtol=1e-6)
        np.testing.assert_array_equal(ids, tsv[1])
        np.testing.assert_array_equal(labels, tsv[2])
    integers = read_all(data.parquet(tmp_path / "i.parquet", 64, **named))
    made = read_all(data.synthetic(300, 64, source=SMALL))
    for one, two in zip(integers[:3], made[:3], strict=True):
        np.testing.assert_array_equal(one, two)
    for column in range(26):  # Different ranks have different strings.
        assert len(np.unique(tsv[1][:, column])) == len(np.unique(made[1][:, column]))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"skew": 0}, "Synthetic: skew must be above 0; got 0."),
        ({"scale": -1}, "Synthetic: scale must be above 0; got -1."),
        ({"missing": 2}, "Synthetic: missing must be from 0 to 1; got 2."),
        ({"table_sizes": ()}, "Synthetic: table_sizes must be positive; got ()."),
    ],
)
def test_bad_law_is_named(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        data.Synthetic(**options)


def test_empty_data_set() -> None:
    assert list(data.synthetic(0, 8, source=SMALL)) == []
    with pytest.raises(ValueError, match="synthetic: num_rows must not be negative; got -1"):
        data.synthetic(-1, 8, source=SMALL)


def test_element_spec() -> None:
    features, _ = data.synthetic(10, 4, source=SMALL).element_spec
    assert features["categorical"] == tf.TensorSpec([None, 26], tf.int64)
