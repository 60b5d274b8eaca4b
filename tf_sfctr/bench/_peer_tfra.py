# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Recommenders Addons' dynamic embedding. Runs in its own Python: imports nothing of this project.

Arguments: trace file, dim, steps, threads. Prints one JSON object.
"""

import json
import sys
import time

import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding

trace, dim, steps, threads = sys.argv[1], *map(int, sys.argv[2:5])
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
with np.load(trace) as file:
    columns, sizes = file["columns"], file["sizes"]
keys = columns + np.concatenate([[0], np.cumsum(sizes)[:-1]])
arguments = {"key_dtype": tf.int64, "value_dtype": tf.float32, "dim": dim, "devices": ["CPU:0"], "init_size": 1 << 22}
table = dynamic_embedding.get_variable("table", initializer=0.0, **arguments)
accumulator = dynamic_embedding.get_variable("accumulator", initializer=0.1, **arguments)
gradient = tf.random.normal((keys[0].size, dim), stddev=0.01)


@tf.function
def step(ids: tf.Tensor) -> tf.Tensor:
    """Lookup, sum per unique id, Adagrad: the rows are read once and written once."""
    unique_ids, inverse = tf.unique(tf.reshape(ids, [-1]))
    rows = table.lookup(unique_ids)
    values = tf.gather(rows, inverse)
    with tf.control_dependencies([values]):
        summed = tf.math.unsorted_segment_sum(gradient, inverse, tf.shape(unique_ids)[0])
        squares = accumulator.lookup(unique_ids) + summed * summed
        table.upsert(unique_ids, rows - 0.01 * summed * tf.math.rsqrt(squares + 1e-7))
        accumulator.upsert(unique_ids, squares)
    return values


batches = [tf.constant(ids) for ids in keys]
# All ids are inserted before time is taken: ours has a full table too.
for ids in batches:
    step(ids)
seconds = []
for number in range(steps):
    begin = time.perf_counter()
    step(batches[number % len(batches)])[0, 0].numpy()
    seconds.append(time.perf_counter() - begin)
print(json.dumps({"name": "tfra", "seconds": seconds, "tfra_tensorflow": tf.__version__}), flush=True)
