# SPDX-License-Identifier: Apache-2.0
"""`python -m tf_sfctr.train`: what scripts may rely on."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import keras
import pytest

import tf_sfctr as sf
from tf_sfctr import models, train

SHARED = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
SMALL = ("--dim=4", "--hidden=8", "--batch_size=64")
CRITEO: tuple[str, ...] = (
    *("--bucketize", "--hidden=256", "--dropout=0.7", "--dim=4", "--batch_size=128", "--epochs=8"),
    *("--learning_rate=0.003", "--weight_decay=1", "--embedding_learning_rate=0.05", "--l2=0.03"),
)
CENSUS_HEADER = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,"
    "capital_gain,capital_loss,hours_per_week,native_country,income"
)
CENSUS = (
    *("--format=csv", f"--header={CENSUS_HEADER}", "--label=income", "--positive=>50K", "--strip", "--missing=?"),
    "--numeric=age,education_num,capital_gain,capital_loss,hours_per_week",
    "--categorical=workclass,education,marital_status,occupation,relationship,race,sex,native_country",
    *("--bucketize", "--dim=8", "--hidden=64,32", "--batch_size=256", "--epochs=4"),
    *("--learning_rate=0.003", "--embedding_learning_rate=0.05"),
)


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"real data is not there: {SHARED}")
    return SHARED


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A file of 500 rows in Criteo's format."""
    path = tmp_path_factory.mktemp("data") / "clicks.tsv"
    sf.data.write_criteo_tsv(path, 500, sf.data.Synthetic(scale=1e-4))
    return path


@pytest.fixture
def people(tmp_path: pathlib.Path) -> pathlib.Path:
    """A CSV file with a header."""
    path = tmp_path / "people.csv"
    rows = [f"{i % 2},{i},city{i % 3},{'m' if i % 5 else 'f'}" for i in range(100)]
    path.write_text("\n".join(["click,age,city,sex", *rows]) + "\n")
    return path


def result_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON object of a run that succeeds."""
    assert train.main(arguments) == 0, capsys.readouterr().err
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    return dict(json.loads(lines[0]))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """The one line on standard error of a run that fails."""
    assert train.main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("tf_sfctr.train: ")]
    assert len(lines) == 1
    return lines[0].removeprefix("tf_sfctr.train: ")


@pytest.mark.parametrize("model", ["deepfm", "widedeep"])
def test_result_has_the_figures_and_output_the_files(
    model: str, clicks: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    arguments = (f"--model={model}", f"--train={clicks}", "--epochs=2", f"--output={output}", *SMALL)
    result = result_of(capsys, *arguments)
    assert 0 <= result["auc"] <= 1
    assert result["log_loss"] > 0
    assert result["samples_per_s"] > 0
    assert result["steps"] == 2 * 7
    assert result["samples"] == 2 * 400
    assert result["eval_samples"] == 100
    loaded = keras.models.load_model(output / "model.keras")
    assert type(loaded) is {"deepfm": models.DeepFM, "widedeep": models.WideDeep}[model]
    assert len(loaded.table) == result["rows"]
    assert json.loads((output / "metrics.json").read_text()) == result
    for part in ("train", "validation"):
        assert list((output / "logs" / part).glob("events.out.tfevents.*"))


def test_the_last_line_of_standard_output_is_json_in_a_process_of_its_own(clicks: pathlib.Path) -> None:
    done = _python("-m", "tf_sfctr.train", f"--train={clicks}", *SMALL)
    assert done.returncode == 0, done.stderr
    assert {"auc", "log_loss", "samples_per_s", "rows", "steps"} <= set(json.loads(done.stdout.splitlines()[-1]))
    assert "loss" in done.stderr, "progress is on standard error"


def test_the_same_seed_gives_the_same_figures(clicks: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [result_of(capsys, f"--train={clicks}", "--seed=5", "--dropout=0.1", *SMALL) for _ in range(2)]
    assert runs[0]["auc"] == pytest.approx(runs[1]["auc"], abs=2e-3)
    assert runs[0]["rows"] == runs[1]["rows"]


def test_csv_with_header_crosses_and_a_file_to_measure_on(
    people: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = result_of(
        capsys,
        *("--model=widedeep", "--format=csv", f"--train={people}", f"--eval={people}", "--label=click"),
        *("--numeric=age", "--categorical=city,sex", "--crosses=city:sex", "--bucketize", *SMALL),
    )
    assert result["eval_samples"] == result["samples"] == 100
    assert result["rows"] > 3 + 2 + 6, "cities, sexes, crosses and buckets of age"


@pytest.mark.parametrize("form", ["parquet", "tfrecord"])
def test_other_formats(form: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"clicks.{form}"
    getattr(sf.data, f"write_{form}")(path, 200, sf.data.Synthetic(scale=1e-4))
    result = result_of(capsys, f"--format={form}", f"--train={path}", "--label=label", *SMALL)
    assert result["samples"] == 160
    assert result["eval_samples"] == 40


def test_without_held_out_rows_auc_is_null(clicks: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = result_of(capsys, f"--train={clicks}", "--eval_fraction=0", *SMALL)
    assert result["auc"] is None
    assert result["samples"] == 500


def test_a_malformed_line_is_named_or_skipped(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("click,age\n" + "1,5\n0,6\n" * 20 + "1,2,3\n" + "0,7\n1,8\n" * 20)
    arguments = ("--format=csv", f"--train={path}", "--label=click", "--categorical=age", *SMALL)
    text = refusal(capsys, *arguments, code=1)
    assert f"line 42 of {path} must have 2 columns; got 3" in text
    assert "--on_error=skip" in text
    result = result_of(capsys, *arguments, "--on_error=skip")
    assert result["skipped_lines"] == 1
    assert result["samples"] + result["eval_samples"] == 80


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--train must name at least one file"),
        (["--train=/nowhere.tsv"], "files must exist; got '/nowhere.tsv'"),
        (["--train=x", "--model=tree"], "--model=tree: value should be one of <deepfm|widedeep>"),
        (["--train=x", "--dim=0"], "--dim=0"),
        (["--train=x", "--epochs=many"], "--epochs=many"),
        (["--train=x", "--epoch=1"], "Did you mean: epochs"),
        (["--train=x", "--hidden=a"], "--hidden must be widths"),
        (["--train=x", "--dropout=1"], "--dropout must be in [0, 1); got 1.0"),
        (["--train=x", "--eval_fraction=1"], "--eval_fraction must be in [0, 1); got 1.0"),
        (["--train=x", "--eval=y", "--eval_fraction=0.1"], "--eval_fraction must stand without --eval"),
        (["--train=x", "--strip"], "--strip must go with --format=csv; got --format=criteo"),
        (["--train=x", "--crosses=C1:C2"], "--crosses must go with --model=widedeep"),
        (["--train=x", "--model=widedeep", "--crosses=C1"], "--crosses must be pairs"),
        (["--train=x", "--format=csv"], "--label must name a column"),
        (["x"], "arguments must be flags; got 'x'"),
    ],
)
def test_a_bad_command_line_is_one_clear_line(
    arguments: Sequence[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in refusal(capsys, *arguments)


def test_a_missing_column_is_named_with_those_there_are(
    people: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--format=csv", f"--train={people}", *SMALL)
    for role in ("label", "numeric", "categorical"):
        given = {"label": "click", "categorical": "city", role: "nope"}
        text = refusal(capsys, *arguments, *(f"--{name}={value}" for name, value in given.items()))
        assert f"{role} must name columns of {people}; got 'nope'. It has: click, age, city, sex" in text


def test_a_cross_of_an_unknown_column_is_named(people: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = refusal(
        capsys,
        *("--model=widedeep", "--format=csv", f"--train={people}", "--label=click", "--categorical=city,sex"),
        "--crosses=city:age",
    )
    assert "--crosses must name categorical columns; got 'age'. There are: city, sex" in text


def test_an_output_that_is_no_folder_is_refused(
    clicks: pathlib.Path, people: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--output must be a folder" in refusal(capsys, f"--train={clicks}", f"--output={people}")


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in ("model", "train", "eval_fraction", "format", "label", "header", "crosses", "l2", "[no]strip", "seed"):
        assert f"  --{name} " in text
    assert max(map(len, text.splitlines())) <= 120


def test_exit_codes_reach_the_shell() -> None:
    done = _python("-m", "tf_sfctr.train", "--train=/nowhere.tsv")
    assert done.returncode == 2
    assert done.stdout == ""


@pytest.mark.parametrize("model", ["deepfm", "widedeep"])
def test_census_reaches_an_auc_of_0_9(
    model: str, shared_data: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared_data / "census_adult"
    files = (f"--train={folder / 'adult.train.csv.gz'}", f"--eval={folder / 'adult.test.csv.gz'}")
    result = result_of(capsys, f"--model={model}", *files, *CENSUS)
    assert result["eval_samples"] == 16281
    assert result["auc"] > 0.90


@pytest.mark.parametrize("model", ["deepfm", "widedeep"])
def test_criteo_sample_beats_logistic_regression(
    model: str, shared_data: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_data / "criteo_wide_resdnn" / "train.tsv"
    result = result_of(capsys, f"--model={model}", f"--train={path}", *CRITEO)
    assert result["eval_samples"] == 1440
    assert result["auc"] > 0.73, "an untuned logistic regression has 0.71"


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False)
