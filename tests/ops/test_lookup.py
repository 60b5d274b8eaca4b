# SPDX-License-Identifier: Apache-2.0
"""`ops.lookup`, the op under the layers, and its update."""

import numpy as np
import pytest
import tensorflow as tf

import tf_sfctr as sf
from tf_sfctr._loader import load_library


def table(**kwargs):
    return sf.EmbeddingTable(2, optimizer=sf.optimizers.SGD(1.0), seed=1, name="t", **kwargs)


def test_static_shapes():
    t = table()

    @tf.function(input_signature=[tf.TensorSpec([None, 26], tf.int64), tf.TensorSpec([5], tf.int64)])
    def run(ids, splits):
        plain, bags = sf.ops.lookup(
            [sf.ops.Use(t, ids, "a"), sf.ops.Use(t, tf.reshape(ids, [-1]), "b", combiner="sum", splits=splits)],
            tf.constant(0.0),
            training=False,
        )
        assert plain[0].shape.as_list() == [None, 26, 2]
        assert bags[0].shape.as_list() == [4, 2]
        return plain[0], bags[0]

    plain, bags = run(np.zeros((1, 26), np.int64), [0, 1, 1, 20, 26])
    np.testing.assert_allclose(bags[:, 0], plain[0, 0, 0] * np.array([1, 0, 19, 6]), rtol=1e-6)


def test_lookup_in_a_dataset_reads():
    t = table()
    t.assign([7], [[1.0, 2.0]])
    data = tf.data.Dataset.from_tensors(tf.constant([7], tf.int64)).map(lambda ids: t.read(ids))
    np.testing.assert_array_equal(next(iter(data)), [[1, 2]])


@pytest.mark.parametrize(
    ("splits", "text"),
    [
        ([0, 3], r"f, table 't': row_splits must go from 0 to the number of ids, 2; got 0 to 3"),
        ([1, 2], r"row_splits must go from 0 to the number of ids, 2; got 1 to 2"),
        ([0, 2, 1, 2], r"row_splits must not fall; got 2 then 1 at bag 1"),
        ([[0, 2]], r"f: row_splits must be a vector"),
    ],
)
def test_wrong_splits(splits, text):
    use = sf.ops.Use(table(), tf.constant([1, 2], tf.int64), "f", combiner="sum", splits=tf.constant(splits, tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        sf.ops.lookup([use], tf.constant(0.0), training=False)


def test_weights_that_are_not_finite():
    use = sf.ops.Use(
        table(),
        tf.constant([1, 2], tf.int64),
        "f",
        combiner="sum",
        splits=tf.constant([0, 2], tf.int64),
        weights=tf.constant([1.0, np.nan]),
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"weights must be finite; got nan at position 1"):
        sf.ops.lookup([use], tf.constant(0.0), training=False)


def test_gradients_of_another_shape():
    t = table()
    library = load_library()
    shared = {"features": ["f"], "combiners": ["none"], "has_weights": [False]}
    virtual_ids, batches = sf.ops.virtualize([[tf.constant([1, 2], tf.int64)]], [None])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"f, table 't': gradients must have 4 elements"):
        library.sfctr_apply_gradients(
            handles=[t.handle],
            batches=batches,
            virtual_ids=virtual_ids[0],
            splits=[],
            weights=[],
            gradients=[tf.ones((2, 3))],
            learning_rates=[tf.constant([1.0])],
            **shared,
        )
    assert len(t) == 0


def test_a_handle_that_is_no_table():
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.NotFoundError)):
        load_library().sfctr_table_stats(tf.Variable(1.0).handle)


def test_results_do_not_depend_on_the_number_of_features_at_once():
    # Many uses run beside each other, few with all threads each.
    ids = [np.random.default_rng(i).integers(0, 1000, 300) for i in range(12)]

    def run(per_call):
        t = table()
        anchor = tf.Variable(0.0)
        with tf.GradientTape() as tape:
            loss = 0.0
            for begin in range(0, len(ids), per_call):
                uses = [sf.ops.Use(t, tf.constant(i, tf.int64), "f") for i in ids[begin : begin + per_call]]
                for values in sf.ops.lookup(uses, tf.convert_to_tensor(anchor), training=True):
                    loss += tf.reduce_sum(values[0] ** 2)
        tape.gradient(loss, anchor)
        assert t.stats().step == 1
        return t.read(np.arange(1000)).numpy()

    np.testing.assert_allclose(run(12), run(1), rtol=1e-5, atol=1e-6)
