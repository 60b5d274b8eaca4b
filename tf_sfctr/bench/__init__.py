# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, each beside a baseline measured in the same run: `python -m tf_sfctr.bench --help`."""
