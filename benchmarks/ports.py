"""The step of each port beside its host's own Adam: Optax, Keras on JAX, Keras on torch.

30 million float32 parameters in the shapes of a Transformer, on two threads. The two optimizers
take turns. A time is CPU time of all threads. How fast a step is depends on where its arrays happen
to lie in memory, up to a quarter: so every round allocates them anew, the optimizers change places,
and the ratio is the median of the rounds, with the lowest and the highest.

Of compiled JAX steps the bytes that XLA counts are compared too. They are the same at every run.

    python benchmarks/ports.py
"""

import os
import statistics
import subprocess
import sys
import time

THREADS = 2
ROUNDS, REPEATS = 8, 6
WIDTH = 512
LAYER = [(WIDTH, WIDTH)] * 4 + [(WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH), (4 * WIDTH,)]
SHAPES = [(20_000, WIDTH)] + 6 * (LAYER + [(WIDTH,)] * 9)
OPTIONS = [{}, {"amsgrad": True}, {"weight_decay": 1e-2}]
# Optax has the first as nadam; beside the others stands the plain step of Adam.
OURS = [{"nesterov": True}, {"rectify": True}, {"debias_momentum": True}]


def optax_steps(options, turned):
    """Yield a function that takes one step, for ours and for Adam, or the other way round."""
    import jax
    import optax

    from adamomentum.optax import adamomentum

    if "amsgrad" in options:
        host = optax.amsgrad(1e-3)
    elif "weight_decay" in options:
        host = optax.adamw(1e-3, **options)
    elif "nesterov" in options:
        host = optax.nadam(1e-3)
    else:
        host = optax.adam(1e-3)
    for optimizer in turn((adamomentum(1e-3, **options), host), turned):
        params = {str(i): jax.numpy.ones(shape) for i, shape in enumerate(SHAPES)}
        grads = jax.tree.map(lambda x: 0.1 * x, params)

        def update(params, state, grads, optimizer=optimizer):
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        yield in_place(update, params, optimizer.init(params), grads)


def in_place(update, params, state, grads):
    """A compiled step that reuses the memory of its arguments: they stand in the results' order."""
    import jax

    jitted = jax.jit(update, donate_argnums=(0, 1))
    carry = [params, state]

    def step():
        carry[:] = jitted(*carry, grads)
        jax.block_until_ready(carry)

    step.bytes = jitted.lower(*carry, grads).compile().cost_analysis()["bytes accessed"]
    return step


# What every optimizer of Keras takes.
EVERY = [
    {"clipnorm": 1.0},
    {"clipvalue": 0.05},
    {"global_clipnorm": 1.0},
    {"use_ema": True},
    {"loss_scale_factor": 2.0},
    {"gradient_accumulation_steps": 2},
]


def keras_steps(options, turned):
    """The same for Keras."""
    import keras

    from adamomentum.keras import AdaMomentum

    own = {name for each in OURS for name in each}
    hosts = {"weight_decay": keras.optimizers.AdamW, "nesterov": keras.optimizers.Nadam}
    host = next((hosts[name] for name in options if name in hosts), keras.optimizers.Adam)
    for kind in turn((AdaMomentum, host), turned):
        taken = {k: v for k, v in options.items() if kind is AdaMomentum or k not in own}
        optimizer = kind(1e-3, **taken)
        variables = [keras.Variable(keras.ops.ones(shape)) for shape in SHAPES]
        grads = [keras.ops.full(shape, 0.1) for shape in SHAPES]
        optimizer.build(variables)
        if keras.backend.backend() == "torch":
            yield in_turn(lambda o=optimizer, grads=grads: o.apply(grads), options)
            continue

        def update(params, state, grads, optimizer=optimizer):
            return optimizer.stateless_apply(state, grads, params)

        values = [[v.value for v in each] for each in (variables, optimizer.variables)]
        yield in_turn(in_place(update, *values, grads), options)


def in_turn(step, options):
    """The step, or as many of them as gradients accumulate: the last is the long one."""
    times = options.get("gradient_accumulation_steps", 1)

    def steps():
        for _ in range(times):
            step()

    steps.bytes = getattr(step, "bytes", 0)
    return steps


PORTS = {
    "optax": (optax_steps, "jax", OPTIONS + OURS),
    "keras on jax": (keras_steps, "jax", OPTIONS + OURS + EVERY),
    "keras on torch": (keras_steps, "torch", OPTIONS + OURS + EVERY),
}


def measure(port):
    """Print a row for each choice of options."""
    make, _, choices = PORTS[port]
    for options in choices:
        rounds = [one_round(make, options, turned=i % 2 == 1) for i in range(ROUNDS)]
        ours, host = (statistics.median(times) * 1e3 for times in zip(*rounds, strict=True))
        ratios = sorted(one / other for one, other in rounds)
        line = f"{port:16}{', '.join(options) or 'plain':29}{ours:9.1f}{host:9.1f}"
        line += f"{statistics.median(ratios):8.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        if port != "keras on torch":
            one, other = (step.bytes for step in make(options, False))
            line += f"{one / other:9.3f}"
        print(line, flush=True)


def one_round(make, options, turned):
    """The median time of our step and of Adam's; the first two repetitions do not count."""
    steps = list(make(options, turned))
    seconds = [[] for _ in steps]
    for repeat in range(REPEATS + 2):
        for step, times in zip(steps, seconds, strict=True):
            start = time.process_time()
            step()
            if repeat > 1:
                times.append(time.process_time() - start)
    return turn([statistics.median(times) for times in seconds], turned)


def turn(pair, turned):
    """The pair, or the other way round."""
    return pair[::-1] if turned else pair


def main():
    if len(sys.argv) > 1:
        return measure(sys.argv[1])
    print(
        f"{'port':16}{'options':29}{'ours, ms':>9}{'Adam, ms':>9}{'ratio':>8}{'bytes':>24}",
        flush=True,
    )
    for port, (_, backend, _) in PORTS.items():
        environment = {"KERAS_BACKEND": backend, "OMP_NUM_THREADS": str(THREADS)}
        done = subprocess.run([sys.executable, __file__, port], env={**os.environ, **environment})
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
