"""Keras: `fit` on scikit-learn's digits, on the torch backend or on JAX.

pip install -c constraints.txt '.[keras]' torch scikit-learn
python examples/keras_fit.py
KERAS_BACKEND=jax python examples/keras_fit.py  # with jax in the place of torch above

Seconds on one core.
"""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")  # before Keras is imported

import keras
from sklearn.datasets import load_digits

from adamomentum.keras import AdaMomentum

EPOCHS, BATCH = 10, 32


def main(path="digits.keras"):
    keras.utils.set_random_seed(0)
    x, y = load_digits(return_X_y=True)  # 1,797 images of 8 x 8 pixels; 297 are for the test
    x = x.astype("float32") / 16
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(128),
            keras.layers.LayerNormalization(),
            keras.layers.ReLU(),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(10),
        ]
    )
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        warmup_steps=50,  # the first step is ten times the learning rate
        # AdamW does well at 5e-3 here; where noise dominates, steps are 4.36 times as long.
        warmup_target=5e-3 / 4.36,
        decay_steps=EPOCHS * (1500 // BATCH) - 50,
    )
    # Weight decay is AdamW's 0.01 times that, since it acts as learning rate * weight_decay; biases
    # and norms are left out of it.
    optimizer = AdaMomentum(schedule, weight_decay=0.04)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.fit(x[:1500], y[:1500], batch_size=BATCH, epochs=EPOCHS, verbose=2)

    model.save(path)  # with the optimizer's state; load_model(path).fit(...) trains on
    _, accuracy = keras.saving.load_model(path).evaluate(x[1500:], y[1500:], verbose=0)
    print(f"test accuracy {100 * accuracy:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
