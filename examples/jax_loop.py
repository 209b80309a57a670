"""Plain JAX and Optax: an MLP on scikit-learn's digits.

pip install -c constraints.txt '.[optax]' scikit-learn
python examples/jax_loop.py

Seconds on one core.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

from adamomentum.optax import adamomentum

EPOCHS, BATCH = 10, 32


def network(params, x):
    (w1, b1), (w2, b2) = params
    return jax.nn.relu(x @ w1 + b1) @ w2 + b2


def main():
    x, y = load_digits(return_X_y=True)  # 1,797 images of 8 x 8 pixels; 297 are for the test
    x, y = jnp.asarray(x, jnp.float32) / 16, jnp.asarray(y)
    keys = jax.random.split(jax.random.key(0))
    scaled = jax.nn.initializers.he_normal()
    params = [
        (scaled(keys[0], (64, 128)), jnp.zeros(128)),
        (scaled(keys[1], (128, 10)), jnp.zeros(10)),
    ]
    updates_per_epoch = 1500 // BATCH
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=0.0,
        # AdamW does well at 1e-2 here; where noise dominates, steps are 4.36 times as long.
        peak_value=1e-2 / 4.36,
        warmup_steps=50,  # the first step is ten times the learning rate
        decay_steps=EPOCHS * updates_per_epoch,
    )
    # Weight decay is AdamW's 0.01 times that, since it acts as learning rate * weight_decay; biases
    # are left out of it.
    optimizer = adamomentum(schedule, weight_decay=0.04, mask=[(True, False), (True, False)])
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, x, y):
        def loss_of(params):
            losses = optax.softmax_cross_entropy_with_integer_labels(network(params, x), y)
            return losses.mean()

        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    random = np.random.default_rng(0)
    for epoch in range(EPOCHS):
        for rows in random.permutation(1500)[: updates_per_epoch * BATCH].reshape(-1, BATCH):
            params, state, loss = step(params, state, x[rows], y[rows])
        print(f"epoch {epoch + 1}: loss {loss:.4f}")
    right = network(params, x[1500:]).argmax(1) == y[1500:]
    print(f"test accuracy {100 * right.mean():.1f}")


if __name__ == "__main__":
    main()
