# SPDX-License-Identifier: Apache-2.0
"""`python -m tf_sfctr.demo`: the report."""

import re

import pytest

from tf_sfctr import demo


def test_demo_ends_with_auc_speed_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--rows=5000", "--batch_size=256", "--epochs=1", "--hidden=8"]) == 0
    *_, auc, speed, size = capsys.readouterr().out.strip().splitlines()
    found = re.fullmatch(r"AUC +(0\.\d+) +\(ceiling (0\.\d+), log loss 0\.\d+\)", auc)
    assert found
    assert float(found[1]) < float(found[2])
    assert re.fullmatch(r"samples/s +[\d,]+ +\(18 steps of 256 rows\)", speed)
    assert re.fullmatch(r"table size +[\d,]+ rows, [\d.]+ MiB +\(\d+ bytes a row\)", size)


def test_demo_of_no_rows_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as stopped:
        demo.main(["--rows=1"])
    assert stopped.value.code == 2
