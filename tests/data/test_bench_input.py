# SPDX-License-Identifier: Apache-2.0
"""The form of the benchmarks' report, and a small run of `bench input`."""

from __future__ import annotations

import io
import json

import pytest

from tf_sfctr.bench import __main__ as bench
from tf_sfctr.bench._report import Report, measure


def lines_of(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_report_lines_and_ratios() -> None:
    stream = io.StringIO()
    report = Report("input", json=True, stream=stream)
    report.add("tf_sfctr", {"rows": 10}, [4.0, 2.0, 3.0], "rows/s", note="x")
    report.add("other", {"rows": 10}, [1.5], "rows/s")
    report.summary(peak_bytes=7)
    ours, other, summary = lines_of(stream)
    assert (ours["bench"], ours["variant"], ours["rows"], ours["unit"]) == ("input", "tf_sfctr", 10, "rows/s")
    assert (ours["median"], ours["spread"], ours["note"]) == (3.0, 2.0, "x")
    assert {"python", "tensorflow", "keras"} <= set(ours)
    assert (other["median"], other["spread"]) == (1.5, 0.0)
    assert summary["summary"] is True
    assert summary["ratios"] == {"other": 2.0}
    assert summary["peak_bytes"] == 7


def test_ratios_compare_equal_axes_and_times_the_other_way_round() -> None:
    report = Report("deepfm", json=True, stream=io.StringIO())
    for rows, ours, other in ((1, 2.0, 8.0), (2, 2.0, 3.0)):
        report.add("tf_sfctr", {"rows": rows}, [ours], "ms")
        report.add("other", {"rows": rows}, [other], "ms")
    report.add("alone", {"rows": 3}, [1.0], "ms")
    assert report.ratios() == {"other rows=1": 4.0, "other rows=2": 1.5}


def test_report_as_table() -> None:
    stream = io.StringIO()
    report = Report("input", stream=stream)
    report.add("tf_sfctr", {"rows": 10}, [1234567.0], "rows/s")
    report.add("other", {"rows": 10}, [123456.7], "rows/s")
    report.summary()
    assert "1,234,567 rows/s" in stream.getvalue()
    assert "10.00 x  other" in stream.getvalue()


def test_measure_warms_up_first() -> None:
    calls: list[int] = []
    rates = measure(lambda: calls.append(1) or 5.0, repeats=3, warmup=2)  # type: ignore[func-returns-value]
    assert len(calls) == 5
    assert len(rates) == 3
    assert min(rates) > 0


def test_input_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["input", "--json", "--rows=3000", "--baseline_rows=300", "--batch_size=256", "--repeats=1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    ours = [line["format"] for line in lines if line.get("variant") == "tf_sfctr"]
    assert ours == ["tsv", "parquet_int64", "parquet_string", "tfrecord"]
    assert all(line["median"] > 0 for line in lines[:-1])
    assert lines[-1]["summary"] is True
    assert lines[-1]["ratios"]["tf.data decode_csv"] > 0


def test_unknown_benchmark_exits_with_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["nonsense"])
    assert "invalid choice: 'nonsense'" in capsys.readouterr().err
