# SPDX-License-Identifier: Apache-2.0
"""The command line of `python -m tf_sfctr.train`, checked."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any

from absl import flags

FORMATS = ("criteo", "csv", "parquet", "tfrecord")
# Flags that only some formats take; those named here are given to the reader as they are.
_READER_FLAGS = {
    "label": ("csv", "parquet", "tfrecord"),
    "categorical": ("csv", "parquet", "tfrecord"),
    "numeric": ("csv", "parquet", "tfrecord"),
    "positive": ("csv", "parquet"),
    "missing": ("csv", "parquet"),
    "header": ("csv",),
    "delimiter": ("csv",),
    "strip": ("csv",),
    "bucketize": ("criteo", "csv", "parquet"),
}
_DEEPFM, _WIDEDEEP = "deepfm", "widedeep"
_MODEL_FLAGS = {"wide_learning_rate": _WIDEDEEP, "wide_l1": _WIDEDEEP, "crosses": _WIDEDEEP}


class UsageError(Exception):
    """The command line cannot be used; the text says why in one line."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the command line says.

    Attributes:
      values: flag -> value, defaults filled in.
      reader: keyword arguments of the format's reader.
    """

    values: dict[str, Any]
    reader: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """The value of a flag."""
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None


def parse(arguments: Sequence[str]) -> Settings | None:
    """Reads the command line; None if it asks for help.

    Raises:
      UsageError: a flag is unknown, is missing or has a bad value.
    """
    if any(argument in ("--help", "-h", "-help", "--helpfull", "--helpshort") for argument in arguments):
        return None
    table, _ = _define()
    try:
        rest = table(["train", *arguments])[1:]
    except flags.Error as error:
        raise UsageError(" ".join(str(error).split())) from None
    if rest:
        raise UsageError(f"arguments must be flags; got {rest[0]!r}. Name files with --train={rest[0]}")
    given = {name for name in table if table[name].present}
    values = {name: table[name].value for name in table}
    _check(values, given)
    reader = {
        {"bucketize": "bucketize_numeric"}.get(name, name): values[name]
        for name, formats in _READER_FLAGS.items()
        if values["format"] in formats and values[name] is not None
    }
    reader["transform"] = values["transform"]
    return Settings(values, reader)


def _check(values: dict[str, Any], given: set[str]) -> None:
    if not values["train"]:
        raise UsageError("--train must name at least one file; got none. Pass --train=FILE[,FILE]")
    for name, formats in _READER_FLAGS.items():
        if name in given and values["format"] not in formats:
            raise UsageError(
                f"--{name} must go with --format={' or '.join(formats)}; got --format={values['format']}. Leave it out"
            )
    for name, model in _MODEL_FLAGS.items():
        if name in given and values["model"] != model:
            raise UsageError(f"--{name} must go with --model={model}; got --model={values['model']}. Leave it out")
    if values["format"] != "criteo" and not values["label"]:
        raise UsageError(f"--label must name a column for --format={values['format']}; got none")
    if values["eval"] and "eval_fraction" in given:
        raise UsageError("--eval_fraction must stand without --eval; got both. Leave one out")
    if not 0 <= values["eval_fraction"] < 1:
        raise UsageError(f"--eval_fraction must be in [0, 1); got {values['eval_fraction']}. 0 holds nothing back")
    if not 0 <= values["dropout"] < 1:
        raise UsageError(f"--dropout must be in [0, 1); got {values['dropout']}. 0 is none")
    try:
        values["hidden"] = [int(width) for width in values["hidden"]]
    except ValueError:
        values["hidden"] = [0]
    if any(width < 1 for width in values["hidden"]):
        raise UsageError("--hidden must be widths such as 400,400; got something else. Correct it")
    if values["model"] == _WIDEDEEP and not values["hidden"]:
        raise UsageError("--hidden must name a layer for --model=widedeep; got none. Pass --hidden=64")
    pairs = [tuple(pair.split(":")) for pair in values["crosses"]]
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError("--crosses must be pairs such as education:occupation; got something else. Correct it")
    values["crosses"] = pairs


def help_text() -> str:
    """What `--help` prints."""
    table, sections = _define()
    lines = [
        "Trains DeepFM or Wide & Deep on files of clicks, and measures it on rows that were held out.",
        "",
        "  python -m tf_sfctr.train --model=deepfm --train=train.tsv --format=criteo --output=run1",
        "  python -m tf_sfctr.train --model=widedeep --train=a.csv,b.csv --eval=c.csv --format=csv --label=click \\",
        "      --numeric=price,age --categorical=user,item,shop",
        "",
        "Progress goes to standard error. The last line of standard output is one JSON object: auc and log_loss on the",
        "held-out rows, samples_per_s in training, rows (created in the table), steps, and more. Exit codes: 0 for",
        "success, 2 for a command line that cannot be used, 1 for anything else.",
    ]
    for section, names in sections.items():
        lines += ["", f"{section}:"]
        for name in names:
            flag = table[name]
            default = flag.default_as_str
            text = flag.help + (
                f" [{default.strip(chr(39))}]" if default not in (None, "''") and flag.default != [] else ""
            )
            head = f"  --[no]{name}" if flag.boolean else f"  --{name}"
            body = textwrap.wrap(text, 88)
            lines.append(f"{head:<28}{body[0]}")
            lines += [" " * 28 + line for line in body[1:]]
    return "\n".join(lines)


def _define() -> tuple[flags.FlagValues, dict[str, list[str]]]:
    """The flags, apart from absl's global ones, and their names by section of the help."""
    table = flags.FlagValues()
    sections: dict[str, list[str]] = {}
    where: dict[str, Any] = {"flag_values": table}
    seen: set[str] = set()

    def section(title: str) -> None:
        sections[title] = [name for name in table if name not in seen]
        seen.update(table)

    flags.DEFINE_enum("model", _DEEPFM, [_DEEPFM, _WIDEDEEP], "Model: deepfm or widedeep.", **where)
    flags.DEFINE_string(
        "output", "", "Folder for model.keras, metrics.json and TensorBoard's logs; none by default.", **where
    )
    flags.DEFINE_integer("seed", 0, "Seed of initial values, shuffling and dropout.", **where)
    section("What to do")

    flags.DEFINE_list("train", [], "Files to train on; patterns, .gz and remote paths are understood.", **where)
    flags.DEFINE_list("eval", [], "Files to measure on.", **where)
    flags.DEFINE_float(
        "eval_fraction", 0.2, "Without --eval: share of the rows, the last ones, to measure on.", **where
    )
    flags.DEFINE_enum("format", "criteo", FORMATS, f"Format of the files: {', '.join(FORMATS)}.", **where)
    flags.DEFINE_string("label", None, "Column of the label (csv, parquet, tfrecord).", **where)
    flags.DEFINE_list("categorical", None, "Columns that become ids; all that are left by default.", **where)
    flags.DEFINE_list("numeric", None, "Columns that become numbers.", **where)
    flags.DEFINE_list("header", None, "Names of all columns, for csv files without a first line of names.", **where)
    flags.DEFINE_string("delimiter", None, "Character between values (csv); a comma by default.", **where)
    flags.DEFINE_bool("strip", None, "Cut white space around values and a full stop after the label (csv).", **where)
    flags.DEFINE_string("positive", None, "Text of the label that counts as 1; by default it is a number.", **where)
    flags.DEFINE_list("missing", None, "Texts that mean 'no value', such as ?.", **where)
    flags.DEFINE_enum("transform", "log", ["log", "none"], "Of the numbers: log(1 + max(x, 0)), or none.", **where)
    flags.DEFINE_bool("bucketize", None, "Let numbers also become ids, by buckets that grow as log(x) ** 2.", **where)
    flags.DEFINE_enum("on_error", "fail", ["fail", "skip"], "At a malformed line: fail, or skip it.", **where)
    section("Data")

    flags.DEFINE_integer("dim", 16, "Width of the embedding vectors.", lower_bound=1, **where)
    flags.DEFINE_list("hidden", ["400", "400", "400"], "Widths of the perceptron's layers.", **where)
    flags.DEFINE_float("dropout", 0.0, "Share of each hidden layer that is dropped in training.", **where)
    flags.DEFINE_list(
        "crosses", [], "Pairs of categorical columns whose combinations get wide weights (widedeep): a:b,a:c.", **where
    )
    section("Model")

    flags.DEFINE_integer("epochs", 1, "Passes over the training rows.", lower_bound=1, **where)
    flags.DEFINE_integer("batch_size", 4096, "Rows in a step.", lower_bound=1, **where)
    flags.DEFINE_integer(
        "shuffle_buffer", 100_000, "Rows mixed with one another; 0 keeps the order.", lower_bound=0, **where
    )
    flags.DEFINE_enum("optimizer", "adam", ["adagrad", "adam", "sgd"], "Of the dense weights.", **where)
    flags.DEFINE_float("learning_rate", 0.001, "Of the dense weights.", lower_bound=0.0, **where)
    flags.DEFINE_float(
        "weight_decay",
        0.0,
        "Of the dense weights: each step shrinks them by this share of the learning rate.",
        lower_bound=0.0,
        **where,
    )
    flags.DEFINE_enum(
        "embedding_optimizer",
        "adagrad",
        ["adagrad", "row_wise_adagrad", "adam", "sgd", "ftrl"],
        "Of the table.",
        **where,
    )
    flags.DEFINE_float("embedding_learning_rate", 0.02, "Of the table.", lower_bound=0.0, **where)
    flags.DEFINE_float(
        "l2",
        0.0,
        "L2 penalty of the rows that a step touches: adds 2 * l2 * row to their gradients.",
        lower_bound=0.0,
        **where,
    )
    flags.DEFINE_float(
        "wide_learning_rate", 0.05, "Of the wide weights, trained by FTRL (widedeep).", lower_bound=0.0, **where
    )
    flags.DEFINE_float("wide_l1", 1e-5, "L1 of the wide weights (widedeep).", lower_bound=0.0, **where)
    section("Training")
    return table, sections
