# SPDX-License-Identifier: Apache-2.0
"""A two-tower model in a training loop of one's own: `EmbeddingCollection`, bags of ids, `tf.GradientTape`."""

import argparse
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tf_sfctr as sf


class Towers(keras.Model):
    """Scores a user, known by the items clicked before, and an item by the product of two vectors."""

    def __init__(self, dim: int) -> None:
        """Two features share the table of items; the user has one alone."""
        super().__init__()
        self.embed = sf.layers.EmbeddingCollection(
            tables=[
                sf.TableConfig(dim, name="item", optimizer=sf.optimizers.Adam(0.01)),
                sf.TableConfig(
                    dim, name="user", optimizer=sf.optimizers.RowWiseAdagrad(0.1, initial_accumulator_value=1e-6)
                ),
            ],
            features={
                "clicked": sf.FeatureConfig("item", combiner="mean"),
                "candidate": sf.FeatureConfig("item"),
                "user": sf.FeatureConfig("user"),
            },
        )
        self.user_tower = keras.layers.Dense(dim)
        self.item_tower = keras.layers.Dense(dim)

    def call(self, inputs: dict[str, tf.Tensor], training: bool | None = None) -> tf.Tensor:
        """Returns logits [B]."""
        vectors = self.embed(inputs, training=training)
        user = self.user_tower(tf.concat([vectors["clicked"], vectors["user"]], axis=1))
        return tf.reduce_sum(user * self.item_tower(vectors["candidate"]), axis=1)


def batches(num_batches: int, batch_size: int, seed: int) -> tf.data.Dataset:
    """Made-up clicks: users like items of their own group, with so much chance that the best AUC is near 0.74."""
    rng = np.random.default_rng(seed)

    def generate() -> Iterator[tuple[dict[str, Any], np.ndarray]]:
        for _ in range(num_batches):
            group = rng.integers(0, 10, batch_size)
            lengths = rng.integers(0, 9, batch_size)
            clicked = np.repeat(group, lengths) + 10 * rng.integers(0, 20, lengths.sum())
            candidate = rng.integers(0, 200, batch_size)
            chance = np.where(candidate % 10 == group, 0.9, 0.1)
            features = {
                "user": group + 10 * rng.integers(0, 50, batch_size),
                "clicked": tf.RaggedTensor.from_row_lengths(clicked, lengths),
                "candidate": candidate,
            }
            yield features, (rng.random(batch_size) < chance).astype(np.float32)

    ids = tf.TensorSpec([None], tf.int64)
    features = {"user": ids, "clicked": tf.RaggedTensorSpec([None, None], tf.int64), "candidate": ids}
    return tf.data.Dataset.from_generator(generate, output_signature=(features, tf.TensorSpec([None], tf.float32)))


def main() -> None:
    """Trains and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=256)
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    model = Towers(dim=16)
    optimizer = keras.optimizers.Adam(0.003)
    loss_function = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(features: dict[str, tf.Tensor], label: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_function(label[:, None], model(features, training=True)[:, None])
        # The tables update themselves while the gradients are computed; the rest is the optimizer's.
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    for number, (features, label) in enumerate(batches(args.steps, args.batch_size, seed=0)):
        loss = step(features, label)
        if number % 100 == 0:
            print(f"step {number}: loss {float(loss):.4f}")

    auc = keras.metrics.AUC(from_logits=True)
    for features, label in batches(10, args.batch_size, seed=1):
        auc.update_state(label, model(features, training=False))
    rows = {name: len(table) for name, table in model.embed.tables.items()}
    print(f"held-out AUC {float(auc.result()):.4f}, rows {rows}")


if __name__ == "__main__":
    main()
