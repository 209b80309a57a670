"""What Keras demands of an optimizer, in rows: a keyword or a sentence each.

The backend is fixed when Keras is imported: here it is torch, and the last tests run this file
again on the others that are installed.
"""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose as close
from numpy.testing import assert_array_equal as same

from tests.oracle import Oracle

keras = pytest.importorskip("keras")

from adamomentum.keras import AdaMomentum  # noqa: E402

BACKEND = keras.backend.backend()
OTHERS = ["jax", "numpy", "tensorflow"]
TRAINS = ("torch", "jax", "tensorflow")
if BACKEND == "tensorflow":  # two devices, before the first is used
    import tensorflow

    tensorflow.config.set_logical_device_configuration(
        tensorflow.config.list_physical_devices("CPU")[0],
        [tensorflow.config.LogicalDeviceConfiguration()] * 2,
    )
ops = keras.ops


def value(x):
    """Of a variable or tensor, in a dtype of NumPy's own."""
    return np.array(ops.convert_to_numpy(ops.cast(x, "float32")), np.float64)


def variables(*, dtype="float32"):
    shapes = {"kernel": (3, 2), "bias": (2,), "scale": ()}
    random = np.random.default_rng(0)
    return [
        keras.Variable(random.normal(size=shape), dtype=dtype, name=name)
        for name, shape in shapes.items()
    ]


def walk(owners, steps=7):
    """Gradients, some of them long, for each step and variable."""
    random = np.random.default_rng(1)
    return [[random.normal(size=v.shape) * 2 for v in owners] for _ in range(steps)]


def tensors(arrays, dtype="float32"):
    return [ops.convert_to_tensor(a, dtype) for a in arrays]


def apply(optimizer, owners, gradients):
    for each in gradients:
        optimizer.apply(tensors(each), owners)


# --- Keywords -------------------------------------------------------------------------------------


class Reference:
    """What Keras does around a step, in float64, and the oracle's step."""

    def __init__(self, owners, excluded=(), **options):
        take = options.pop
        self.lr, self.decay = take("learning_rate", 1e-2), take("weight_decay", None) or 0.0
        self.clips = {key: take(key, None) for key in ("clipvalue", "clipnorm", "global_clipnorm")}
        self.loss_scale = take("loss_scale_factor", None) or 1.0
        self.every = take("gradient_accumulation_steps", None) or 1
        self.ema = take("ema_momentum", 0.99) if take("use_ema", False) else None
        self.overwrite = take("ema_overwrite_frequency", None)
        betas = take("beta_1", 0.9), take("beta_2", 0.999)
        eps = take("epsilon", 1e-16)
        self.oracles = [
            Oracle(
                value(v),
                betas=betas,
                eps=eps,
                weight_decay=0.0 if v.name in excluded else self.decay,
                **options,
            )
            for v in owners
        ]
        self.calls = 0
        self.waiting = []
        self.averages = [np.zeros_like(oracle.theta) for oracle in self.oracles]

    def apply(self, gradients):
        self.waiting.append([g / self.loss_scale for g in gradients])
        if (self.calls + 1) % self.every == 0:
            means = [sum(each) / self.every for each in zip(*self.waiting, strict=True)]
            for oracle, g in zip(self.oracles, self.clip(means), strict=True):
                oracle.lr = self.lr(self.calls) if callable(self.lr) else self.lr
                oracle.step(g)
            self.waiting = []
        if self.ema is not None:
            momentum = self.ema if self.calls // self.every else 0.0
            for i, oracle in enumerate(self.oracles):
                self.averages[i] = momentum * self.averages[i] + (1 - momentum) * oracle.theta
                if self.overwrite and (self.calls // self.every + 1) % self.overwrite == 0:
                    oracle.theta = self.averages[i]
        self.calls += 1

    def clip(self, gradients):
        limit, norm, over_all = self.clips.values()
        if limit:
            return [np.clip(g, -limit, limit) for g in gradients]
        norms = [np.sqrt(np.sum(g**2)) for g in gradients]
        if over_all:
            norms = [np.sqrt(sum(n**2 for n in norms))] * len(norms)
        norm = norm or over_all
        return [g * min(1, norm / n) if norm else g for g, n in zip(gradients, norms, strict=True)]


def halving(step):
    return 1e-2 * 0.5 ** (step / 4)


SCHEDULE = keras.optimizers.schedules.ExponentialDecay(1e-2, 4, 0.5)
# Every keyword of Adam and AdamW, our own, and those that meet in the code.
KEYWORDS = [
    {"learning_rate": 3e-2},
    {"learning_rate": SCHEDULE},
    {"learning_rate": lambda: 2e-2},
    {"beta_1": 0.5},
    {"beta_2": 0.9},
    {"epsilon": 1e-2},
    {"amsgrad": True, "beta_2": 0.5},
    {"nesterov": True},
    {"rectify": True, "beta_2": 0.9},
    {"debias_momentum": True},
    {"weight_decay": 0.5},
    {"weight_decay": 0.0},
    {"clipnorm": 1.0},
    {"clipvalue": 0.5},
    {"global_clipnorm": 1.5},
    {"use_ema": True},
    {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 3},
    {"loss_scale_factor": 128.0, "epsilon": 1e-2},
    {"gradient_accumulation_steps": 3},
    {"name": "mine"},
    {"weight_decay": 0.5, "excluded": "by name"},
    {"weight_decay": 0.5, "excluded": "by variable"},
    {"weight_decay": 0.5, "learning_rate": SCHEDULE, "excluded": "by name", "clipnorm": 0.5},
    {
        "weight_decay": 0.5,
        "gradient_accumulation_steps": 2,
        "global_clipnorm": 0.5,
        "learning_rate": SCHEDULE,
        "loss_scale_factor": 4.0,
        "use_ema": True,
        "ema_momentum": 0.5,
        "ema_overwrite_frequency": 2,
        "excluded": "by variable",
        "amsgrad": True,
        "nesterov": True,
    },
]


def words(row):
    return ", ".join(
        key
        if value is True
        else f"{key}={'schedule' if value is SCHEDULE else value}"
        if not callable(value) or value is SCHEDULE
        else f"{key}=callable"
        for key, value in row.items()
    )


@pytest.mark.parametrize("row", KEYWORDS, ids=words)
def test_keyword(row):
    owners = variables()
    options = {"learning_rate": 1e-2, **row}
    excluded = options.pop("excluded", None)
    optimizer = AdaMomentum(**options)
    if excluded == "by name":
        optimizer.exclude_from_weight_decay(var_names=["bias", "sca"])
    elif excluded:
        optimizer.exclude_from_weight_decay(var_list=owners[1:])
    rate = options["learning_rate"]
    if callable(rate):
        options["learning_rate"] = halving if rate is SCHEDULE else lambda step: 2e-2
    options.pop("name", None)
    reference = Reference(owners, ["bias", "scale"] if excluded else [], **options)
    for gradients in walk(owners):
        optimizer.apply(tensors(gradients), owners)
        reference.apply(gradients)
        for variable, oracle in zip(owners, reference.oracles, strict=True):
            close(value(variable), oracle.theta, rtol=1e-5, atol=1e-5)
    if row.get("use_ema"):
        averages = optimizer._model_variables_moving_average
        for average, expected in zip(averages, reference.averages, strict=True):
            close(value(average), expected, rtol=1e-5, atol=1e-5)
        optimizer.finalize_variable_values(owners)
        for variable, expected in zip(owners, reference.averages, strict=True):
            close(value(variable), expected, rtol=1e-5, atol=1e-5)


def arguments(kind):
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(kind.__init__).parameters.values()
    return [p.name for p in found if p.kind in kinds and p.name != "self"]


@pytest.mark.parametrize("host", [keras.optimizers.Adam, keras.optimizers.AdamW])
def test_every_keyword_of_the_host_has_a_row(host):
    assert set(arguments(host)) <= set(arguments(AdaMomentum))
    assert set(arguments(AdaMomentum)) <= {key for row in KEYWORDS for key in row}


# --- Sentences ------------------------------------------------------------------------------------

DEMANDS = {}


def demand(sentence, on=("torch", "jax", "numpy", "tensorflow")):
    def add(check):
        skip = pytest.mark.skipif(BACKEND not in on, reason=f"not on {BACKEND}")
        DEMANDS[sentence] = pytest.param(check, id=sentence, marks=skip)
        return check

    return add


@demand("names are numbered, as those of Keras' own")
def _(tmp_path):
    keras.utils.clear_session()
    assert [AdaMomentum().name for _ in range(3)] == [
        "ada_momentum",
        "ada_momentum_1",
        "ada_momentum_2",
    ]
    assert keras.optimizers.AdamW().name == "adam_w"
    again = keras.optimizers.deserialize(keras.optimizers.serialize(AdaMomentum(name="mine")))
    assert again.name == "mine"


@demand("positional arguments come in Adam's order")
def _(tmp_path):
    host = arguments(keras.optimizers.Adam)
    assert arguments(AdaMomentum)[: len(host)] == host


@demand("a config makes the same optimizer, and is JSON")
def _(tmp_path):
    for row in KEYWORDS:
        options = {key: value for key, value in row.items() if key != "excluded"}
        if callable(options.get("learning_rate")) and options["learning_rate"] is not SCHEDULE:
            continue
        optimizer = AdaMomentum(**options)
        config = json.loads(json.dumps(optimizer.get_config()))
        kept = json.dumps(config)
        for again in (
            AdaMomentum.from_config(config),
            keras.optimizers.deserialize(keras.optimizers.serialize(optimizer)),
            keras.optimizers.get(keras.optimizers.serialize(optimizer)),
        ):
            assert type(again) is AdaMomentum
            assert again.get_config() == optimizer.get_config()
        assert json.dumps(config) == kept


@keras.saving.register_keras_serializable(package="tests")
def fixed():
    return 3e-2


@demand("a config keeps a registered function as the learning rate")
def _(tmp_path):
    again = keras.optimizers.deserialize(keras.optimizers.serialize(AdaMomentum(fixed)))
    assert float(again.learning_rate) == 3e-2


@demand("a config and a pickle keep the names left out of weight decay")
def _(tmp_path):
    optimizer = AdaMomentum(weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    config = keras.optimizers.serialize(optimizer)
    for again in (keras.optimizers.deserialize(config), pickle.loads(pickle.dumps(optimizer))):
        kernel, bias, _ = variables()
        before = value(bias)
        again.apply(tensors([np.zeros((3, 2)), np.zeros(2)]), [kernel, bias])
        same(value(bias), before)
        assert np.all(value(kernel) != value(variables()[0]))


@demand("it is found by instance, config and registered name")
def _(tmp_path):
    optimizer = AdaMomentum()
    assert keras.optimizers.get(optimizer) is optimizer
    assert type(keras.optimizers.get("adamomentum>AdaMomentum")) is AdaMomentum


@demand("a pickle has the same config")
def _(tmp_path):
    optimizer = AdaMomentum(1e-2, amsgrad=True, weight_decay=0.1)
    assert pickle.loads(pickle.dumps(optimizer)).get_config() == optimizer.get_config()


@demand("the first step is learning_rate / (1 - beta_1) against the gradient's sign")
def _(tmp_path):
    variable = keras.Variable([1.0, 2.0, 3.0])
    AdaMomentum(1e-2).apply(tensors([[0.1, -0.5, 7.0]]), [variable])
    close(value(variable), [0.9, 2.1, 2.9], rtol=1e-6)


@demand("build makes the iteration, the rate and the moments, once")
def _(tmp_path):
    for options, moments in (({}, 2), ({"amsgrad": True}, 3)):
        owners = variables()
        optimizer = AdaMomentum(**options)
        assert len(optimizer.variables) == 2
        optimizer.build(owners)
        optimizer.build(owners)
        made = optimizer.variables[2:]
        assert [tuple(v.shape) for v in made] == [tuple(v.shape) for v in owners] * moments
        assert {v.dtype for v in made} == {"float32"}
        assert all(optimizer.name in v.path and not v.trainable for v in made)


@demand("variables it was not built with are refused")
def _(tmp_path):
    optimizer = AdaMomentum()
    optimizer.build(variables())
    other = keras.Variable([1.0])
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.apply(tensors([[1.0]]), [other])
    with pytest.raises(ValueError, match="Received a list of 1 gradients"):
        optimizer.apply(tensors([[1.0]]))
    with pytest.raises(ValueError, match="must already be built"):
        AdaMomentum().apply(tensors([[1.0]]))


@demand("iterations count steps, and steps of the mean where gradients accumulate")
def _(tmp_path):
    owners = variables()
    for every, expected in ((None, [1, 2, 3, 4]), (2, [0, 1, 1, 2])):
        optimizer = AdaMomentum(gradient_accumulation_steps=every)
        counts = []
        for count, gradients in enumerate(walk(owners, 4), 1):
            returned = optimizer.apply_gradients(zip(tensors(gradients), owners, strict=True))
            assert int(returned) == count
            counts.append(int(optimizer.iterations))
        assert counts == expected


@demand("while gradients accumulate, variables and moments stay")
def _(tmp_path):
    owners = variables()
    optimizer = AdaMomentum(gradient_accumulation_steps=2, weight_decay=0.5)
    gradients = walk(owners)[0]
    optimizer.build(owners)
    apply(optimizer, owners, [gradients])
    for variable, start in zip(owners, variables(), strict=True):
        same(value(variable), value(start))
    for m, v, waiting, g in zip(
        optimizer._m, optimizer._v, optimizer._accumulated_gradients, gradients, strict=True
    ):
        same(value(m), 0)
        same(value(v), 0)
        close(value(waiting), g, rtol=1e-6)
    apply(optimizer, owners, [gradients])
    same(value(optimizer._accumulated_gradients[0]), 0)


@demand("a variable without gradient is left alone, with a warning")
def _(tmp_path):
    owners = variables()
    optimizer = AdaMomentum(1e-2, weight_decay=0.5)
    gradients = tensors(walk(owners)[0])
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([gradients[0], None, gradients[2]], owners)
    same(value(owners[1]), value(variables()[1]))
    same(value(optimizer._v[1]), 0)
    assert np.all(value(owners[0]) != value(variables()[0]))
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.apply([None] * 3, owners)


@demand("no gradients at all is no step")
def _(tmp_path):
    optimizer = AdaMomentum()
    optimizer.apply([])
    assert int(optimizer.iterations) == 0


REFUSALS = [
    {"clipnorm": 1.0, "clipvalue": 1.0},
    {"clipnorm": 1.0, "global_clipnorm": 1.0},
    {"use_ema": True, "ema_momentum": 2.0},
    {"use_ema": True, "ema_overwrite_frequency": 0.5},
    {"gradient_accumulation_steps": 1},
    {"learning_rate": 1},
    {"learning_rate": "1e-3"},
    {"momentum": 0.9},
]


@demand("what Keras' Adam refuses is refused")
def _(tmp_path):
    for options in REFUSALS:
        errors = []
        for kind in (AdaMomentum, keras.optimizers.Adam):
            with pytest.raises(ValueError, match=r".") as caught:
                kind(**options)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


@demand("the learning rate can be set, but not over a schedule")
def _(tmp_path):
    variable = keras.Variable([0.0])
    optimizer = AdaMomentum(1e-2)
    optimizer.learning_rate = 1e-1
    assert float(optimizer.learning_rate) == pytest.approx(1e-1)
    optimizer.apply(tensors([[1.0]]), [variable])
    close(value(variable), [-1.0], rtol=1e-6)
    scheduled = AdaMomentum(SCHEDULE)
    with pytest.raises(TypeError, match="not settable"):
        scheduled.learning_rate = 0.1


@demand("a schedule in the place of a rate takes the rate out of the variables")
def _(tmp_path):
    optimizer = AdaMomentum(1e-2)
    assert len(optimizer.variables) == 2
    optimizer.learning_rate = SCHEDULE
    assert len(optimizer.variables) == 1
    assert float(optimizer.learning_rate) == pytest.approx(1e-2)


@demand("a schedule is asked with the number of the call")
def _(tmp_path):
    owners = variables()
    optimizer = AdaMomentum(SCHEDULE, gradient_accumulation_steps=2)
    apply(optimizer, owners, walk(owners, 4))
    assert float(optimizer.learning_rate) == pytest.approx(halving(4))


@demand("weights are set only once there are any")
def _(tmp_path):
    owners = variables()
    first, second = AdaMomentum(amsgrad=True), AdaMomentum(amsgrad=True)
    apply(first, owners, walk(owners, 2))
    with pytest.raises(ValueError, match="not yet been built"):
        second.set_weights(first.variables)
    second.build(owners)
    second.set_weights(first.variables)
    for a, b in zip(first.variables, second.variables, strict=True):
        same(value(a), value(b))


@demand("its own variables are saved and loaded, and a count that differs is told")
def _(tmp_path):
    owners = variables()
    first, second = AdaMomentum(), AdaMomentum()
    apply(first, owners, walk(owners, 2))
    store = {}
    first.save_own_variables(store)
    second.build(owners)
    second.load_own_variables(store)
    for a, b in zip(first.variables, second.variables, strict=True):
        same(value(a), value(b))
    with pytest.warns(UserWarning, match="Skipping variable loading"):
        AdaMomentum().load_own_variables(store)


@demand("constraints hold after a step")
def _(tmp_path):
    variable = keras.Variable([-1.0, 1.0])
    variable.constraint = keras.constraints.NonNeg()
    AdaMomentum(1e-2).apply(tensors([[0.0, 0.0]]), [variable])
    same(value(variable), [0, 1])


@demand("a fixed scale of the loss is taken out of the gradients")
def _(tmp_path):
    assert float(AdaMomentum(loss_scale_factor=1024.0).scale_loss(2.0)) == 2048
    assert float(AdaMomentum().scale_loss(2.0)) == 2


@demand("variables that are overwritten with their gradient have no moments")
def _(tmp_path):
    first, second = keras.Variable([1.0, 2.0]), keras.Variable([1.0, 2.0])
    first.overwrite_with_gradient = True
    optimizer = AdaMomentum(1e-2, weight_decay=0.5, amsgrad=True, use_ema=False)
    optimizer.apply(tensors([[5.0, 6.0], [1.0, -1.0]]), [first, second])
    same(value(first), [5, 6])
    close(value(second), [0.895, 2.09], rtol=1e-6)
    assert len(optimizer.variables) == 5


@demand("variables that are overwritten accumulate their largest gradient")
def _(tmp_path):
    first, second = keras.Variable([1.0, 2.0]), keras.Variable([1.0, 2.0])
    first.overwrite_with_gradient = True
    optimizer = AdaMomentum(1e-2, gradient_accumulation_steps=2)
    optimizer.build([first, second])
    optimizer.apply(tensors([[5.0, 6.0], [1.0, -3.0]]))
    same(value(first), [1, 2])
    optimizer.apply(tensors([[7.0, 4.0], [1.0, 1.0]]))
    same(value(first), [7, 6])
    close(value(second), [0.9, 2.1], rtol=1e-6)


def sparse(rows, shape, at=(0, 2, 4)):
    if BACKEND == "jax":
        from jax.experimental.sparse import BCOO

        return BCOO((rows, np.array(at)[:, None]), shape=shape)
    import tensorflow as tf

    return tf.IndexedSlices(rows, at, shape)


@demand("a sparse gradient is the dense one", on=("jax", "tensorflow"))
def _(tmp_path):
    for options in ({}, {"clipnorm": 0.5} if BACKEND == "tensorflow" else {"amsgrad": True}):
        thin, full = (keras.Variable(np.ones((5, 2)), dtype="float32") for _ in range(2))
        ours = [AdaMomentum(1e-2, weight_decay=0.5, **options) for _ in range(2)]
        for scale in (1.0, -0.5, 2.0):
            rows = ops.convert_to_tensor(scale * np.arange(6).reshape(3, 2), "float32")
            gradient = sparse(rows, (5, 2))
            ours[0].apply([gradient], [thin])
            dense = np.zeros((5, 2))
            dense[[0, 2, 4]] = scale * np.arange(6).reshape(3, 2)
            ours[1].apply(tensors([dense]), [full])
        close(value(thin), value(full), rtol=1e-6)


@demand("variables in half precision keep their dtype, and moments in float32")
def _(tmp_path):
    for dtype, digits in (("float16", 1e-3), ("bfloat16", 1e-2)):
        for given in (dtype, "float32"):
            owners = variables(dtype=dtype)
            optimizer = AdaMomentum(1e-2, weight_decay=0.5, amsgrad=True)
            reference = Reference(owners, weight_decay=0.5, amsgrad=True)
            for gradients in walk(owners):
                optimizer.apply(tensors(gradients, given), owners)
                reference.apply(gradients)
            assert {v.dtype for v in owners} == {dtype}
            assert {v.dtype for v in optimizer._m + optimizer._v} == {"float32"}
            for variable, oracle in zip(owners, reference.oracles, strict=True):
                close(value(variable), oracle.theta, rtol=3 * digits, atol=3 * digits)


@demand("variables of several dtypes share an optimizer")
def _(tmp_path):
    wide, half = variables(), variables(dtype="bfloat16")
    optimizer = AdaMomentum(1e-2, weight_decay=0.5, global_clipnorm=1.0)
    for gradients in walk(wide, 3):
        optimizer.apply(tensors(gradients) + tensors(gradients), wide + half)
    for a, b in zip(wide, half, strict=True):
        close(value(a), value(b), atol=2e-2)


@demand("gradients are not changed")
def _(tmp_path):
    owners = variables()
    gradients = tensors(walk(owners)[0])
    before = [value(g) for g in gradients]
    optimizer = AdaMomentum(1e-2, weight_decay=0.5, nesterov=True)
    for _ in range(2):
        optimizer.apply(gradients, owners)
    for g, start in zip(gradients, before, strict=True):
        same(value(g), start)


def transposed(x):
    """The same numbers, in another order of memory where the backend lets us choose."""
    return ops.transpose(ops.convert_to_tensor(np.ascontiguousarray(np.transpose(x)), "float32"))


@demand("gradients in any order of memory do")
def _(tmp_path):
    a, b = variables()[:1], variables()[:1]
    first, second = AdaMomentum(1e-2), AdaMomentum(1e-2)
    for gradients in walk(a, 3):
        first.apply(tensors(gradients), a)
        second.apply([transposed(g) for g in gradients], b)
    close(value(a[0]), value(b[0]), rtol=1e-6)


STATELESS = [
    {},
    {"amsgrad": True, "weight_decay": 0.5},
    {"use_ema": True, "ema_overwrite_frequency": 2, "clipnorm": 1.0},
    {"gradient_accumulation_steps": 2, "weight_decay": 0.5},
]


@demand("stateless_apply is apply, and leaves alone what it is given", on=("torch", "jax", "numpy"))
def _(tmp_path):
    for options in STATELESS:
        owners, others = variables(), variables()
        stateful, optimizer = (AdaMomentum(1e-2, **options) for _ in range(2))
        optimizer.build(others)
        params, state = ([v.value for v in each] for each in (others, optimizer.variables))
        untouched = [value(v) for v in [*others, *optimizer.variables]]
        for gradients in walk(owners, 5):
            stateful.apply(tensors(gradients), owners)
            given = [*params, *state]
            before = [value(x) for x in given]
            params, state = optimizer.stateless_apply(state, tensors(gradients), params)
            for x, start in zip(given, before, strict=True):
                same(value(x), start)
        for a, b in zip([*owners, *stateful.variables], [*params, *state], strict=True):
            close(value(a), value(b), rtol=1e-6, atol=1e-7)
        for v, start in zip([*others, *optimizer.variables], untouched, strict=True):
            same(value(v), start)


@demand("stateless_apply refuses what does not fit", on=("torch", "jax", "numpy"))
def _(tmp_path):
    owners = variables()
    values = [v.value for v in owners]
    optimizer = AdaMomentum()
    with pytest.raises(ValueError, match="must be built"):
        optimizer.stateless_apply([], values, values)
    optimizer.build(owners)
    with pytest.raises(ValueError, match="Received list with length 1"):
        optimizer.stateless_apply(values[:1], values, values)
    with pytest.raises(ValueError, match="was built with 3 variables"):
        optimizer.stateless_apply([v.value for v in optimizer.variables], values, values[:1])


# --- Models ---------------------------------------------------------------------------------------


def model_and_data(policy=None):
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
    layers = [keras.Input((4,)), keras.layers.Dense(4, "tanh", dtype=policy)]
    model = keras.Sequential([*layers, keras.layers.Dense(1, dtype=policy)])
    return model, x, x[:, :1] * x[:, 1:2]


FIT = {"epochs": 3, "batch_size": 8, "shuffle": False, "verbose": 0}


@demand("a model is compiled with it, by instance or config, and learns", on=TRAINS)
def _(tmp_path):
    for given in (AdaMomentum(1e-2), keras.optimizers.serialize(AdaMomentum(1e-2))):
        model, x, y = model_and_data()
        model.compile(given, "mse")
        losses = model.fit(x, y, **FIT).history["loss"]
        assert losses[-1] < losses[0]
        assert int(model.optimizer.iterations) == 6
        before = model.evaluate(x, y, verbose=0)
        assert model.train_on_batch(x, y) == pytest.approx(before, rel=1e-4)
        assert int(model.optimizer.iterations) == 7


@demand("fit ends with the averaged weights where an average is kept", on=TRAINS)
def _(tmp_path):
    model, x, y = model_and_data()
    optimizer = AdaMomentum(1e-2, use_ema=True, ema_momentum=0.5)
    model.compile(optimizer, "mse")
    model.fit(x, y, **FIT)
    averages = optimizer._model_variables_moving_average
    for variable, average in zip(model.trainable_variables, averages, strict=True):
        same(value(variable), value(average))


@demand("callbacks set the learning rate", on=TRAINS)
def _(tmp_path):
    model, x, y = model_and_data()
    model.compile(AdaMomentum(1e-2), "mse")
    callback = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    model.fit(x, y, callbacks=[callback], **FIT)
    assert float(model.optimizer.learning_rate) == pytest.approx(1e-2 / 8)


@demand("a frozen layer stays, and gets no moments", on=TRAINS)
def _(tmp_path):
    model, x, y = model_and_data()
    model.layers[0].trainable = False
    before = model.layers[0].get_weights()
    model.compile(AdaMomentum(1e-2, weight_decay=0.5), "mse")
    model.fit(x, y, **FIT)
    for a, b in zip(before, model.layers[0].get_weights(), strict=True):
        same(a, b)
    assert len(model.optimizer.variables) == 2 + 2 * 2


@demand("a .keras file and a weights file continue where they were saved", on=TRAINS)
def _(tmp_path):
    model, x, y = model_and_data()
    options = {"weight_decay": 0.5, "amsgrad": True, "use_ema": True, "clipnorm": 1.0}
    optimizer = AdaMomentum(SCHEDULE, ema_momentum=0.5, **options)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, "mse")
    model.fit(x, y, **FIT)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.optimizer) is AdaMomentum
    assert again.optimizer.get_config() == optimizer.get_config()
    for a, b in zip(optimizer.variables, again.optimizer.variables, strict=True):
        same(value(a), value(b))
    model.fit(x, y, **FIT)
    again.fit(x, y, **FIT)
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        same(a, b)


# --- Mixed precision and several optimizers -------------------------------------------------------


@demand("float16 is trained with a scale of the loss, unless one asks for none", on=TRAINS)
def _(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        for asked in (True, False):
            model, x, y = model_and_data()
            model.compile(AdaMomentum(1e-2), "mse", auto_scale_loss=asked)
            wrapped = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
            assert wrapped == asked
            losses = model.fit(x, y, **FIT).history["loss"]
            assert losses[-1] < losses[0]
    finally:
        keras.config.set_dtype_policy("float32")


def scaled(optimizer, owners, gradients):
    """One step; on JAX without state, as its trainer takes it."""
    if not optimizer.built:
        optimizer.build(owners)
    if BACKEND != "jax":
        optimizer.apply(gradients, owners)
        return
    state, params = ([v.value for v in each] for each in (optimizer.variables, owners))
    params, state = optimizer.stateless_apply(state, gradients, params)
    for v, x in zip([*owners, *optimizer.variables], [*params, *state], strict=True):
        v.assign(x)


@demand("LossScaleOptimizer takes its scale out of the gradients")
def _(tmp_path):
    owners, plain = variables(), variables()
    optimizer = keras.optimizers.LossScaleOptimizer(AdaMomentum(1e-2), initial_scale=8.0)
    reference = AdaMomentum(1e-2)
    for gradients in walk(owners, 3):
        scaled(optimizer, owners, tensors(8 * g for g in gradients))
        scaled(reference, plain, tensors(gradients))
    for a, b in zip(owners, plain, strict=True):
        close(value(a), value(b), rtol=1e-6)
    assert int(optimizer.inner_optimizer.iterations) == 3


@demand("LossScaleOptimizer skips a step that overflowed, and halves its scale")
def _(tmp_path):
    owners = variables()
    inner = AdaMomentum(1e-2, weight_decay=0.5)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)
    scaled(optimizer, owners, tensors(np.full(v.shape, np.inf) for v in owners))
    for variable, start in zip(owners, variables(), strict=True):
        same(value(variable), value(start))
    assert float(optimizer.scale_loss(1.0)) == 4
    assert int(inner.iterations) == 0
    assert all(np.all(value(m) == 0) for m in inner._m)


@demand("LossScaleOptimizer doubles its scale after steps that went well")
def _(tmp_path):
    owners = variables()
    optimizer = keras.optimizers.LossScaleOptimizer(
        AdaMomentum(1e-2), initial_scale=8.0, dynamic_growth_steps=2
    )
    for gradients in walk(owners, 2):
        scaled(optimizer, owners, tensors(gradients))
    assert float(optimizer.scale_loss(1.0)) == 16


@demand("LossScaleOptimizer counts as it counts around Adam, also where gradients accumulate")
def _(tmp_path):
    counts = []
    for kind in (AdaMomentum, keras.optimizers.Adam):
        owners = variables()
        inner = kind(1e-2, gradient_accumulation_steps=2)
        optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)
        counts.append([])
        for gradients in walk(owners, 5):
            scaled(optimizer, owners, tensors(gradients))
            counts[-1].append((int(optimizer.iterations), int(inner.iterations)))
    assert counts[0] == counts[1]


# On JAX Keras' own Adam raises UnexpectedTracerError here, too.
@demand("LossScaleOptimizer may have no variables", on=("torch", "numpy", "tensorflow"))
def _(tmp_path):
    inner = AdaMomentum(1e-2)
    optimizer = keras.optimizers.LossScaleOptimizer(inner)
    optimizer.build([])
    optimizer.apply([])
    assert optimizer.built
    assert int(inner.iterations) == 0


@demand("LossScaleOptimizer's config holds ours")
def _(tmp_path):
    inner = AdaMomentum(SCHEDULE, amsgrad=True, weight_decay=0.5)
    optimizer = keras.optimizers.LossScaleOptimizer(inner)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again.inner_optimizer) is AdaMomentum
    assert again.inner_optimizer.get_config() == inner.get_config()


@demand("MultiOptimizer gives each variable to its optimizer", on=TRAINS)
def _(tmp_path):
    if not hasattr(keras.optimizers, "MultiOptimizer"):
        pytest.skip("of newer versions of Keras")
    model, x, y = model_and_data()
    mapping = keras.optimizers.OptimizerMap(AdaMomentum(1e-2, weight_decay=0.5))
    mapping[".*bias"] = keras.optimizers.SGD(1e-2)
    model.compile(keras.optimizers.MultiOptimizer(mapping), "mse")
    losses = model.fit(x, y, **FIT).history["loss"]
    assert losses[-1] < losses[0]


# --- One backend each -----------------------------------------------------------------------------


@demand("a compiled step may reuse the memory of its arguments", on=("jax",))
def _(tmp_path):
    import jax

    for options in STATELESS:
        owners, others = variables(), variables()
        eager, optimizer = (AdaMomentum(1e-2, **options) for _ in range(2))
        optimizer.build(others)
        carry = [[v.value + 0 for v in each] for each in (others, optimizer.variables)]
        step = jax.jit(
            lambda p, s, g, o=optimizer: o.stateless_apply(s, g, p), donate_argnums=(0, 1)
        )
        for gradients in walk(owners, 3):
            eager.apply(tensors(gradients), owners)
            carry = step(*carry, tensors(gradients))
        for a, b in zip(owners, carry[0], strict=True):
            close(value(a), value(b), rtol=1e-5, atol=1e-6)


@demand("moments are laid out over devices as their variables", on=("jax",))
def _(tmp_path):
    distribution = keras.distribution
    mesh = distribution.DeviceMesh((1, 1), ["batch", "model"], distribution.list_devices()[:1])
    layouts = distribution.LayoutMap(mesh)
    layouts["kernel"] = (None, "model")
    with distribution.ModelParallel(layout_map=layouts).scope():
        for dtype in ("float32", "bfloat16"):
            owners = variables(dtype=dtype)
            optimizer = AdaMomentum(1e-2, amsgrad=True)
            apply(optimizer, owners, walk(owners, 2))
            for variable, m, v in zip(owners, optimizer._m, optimizer._v, strict=True):
                assert m._layout == v._layout == variable._layout
            assert owners[0]._layout is not None


@demand("variables of TensorFlow's own mix with those of Keras", on=("tensorflow",))
def _(tmp_path):
    import tensorflow as tf

    for dtype in ("float32", "bfloat16"):
        ours = keras.Variable([1.0, 2.0], dtype=dtype)
        theirs = tf.Variable([1.0, 2.0], dtype=dtype)
        g = ops.convert_to_tensor([1.0, -1.0], dtype)
        optimizer = AdaMomentum(1e-1, weight_decay=0.5)
        optimizer.apply_gradients([(g, ours), (g, theirs)])
        same(value(ours), value(theirs))
        with pytest.warns(UserWarning, match="Gradients do not exist"):
            optimizer.apply_gradients([(g, ours), (None, theirs)])
        assert int(optimizer.iterations) == 2


@demand("TensorFlow's checkpoints restore it", on=("tensorflow",))
def _(tmp_path):
    import tensorflow as tf

    model, x, y = model_and_data()
    optimizer = AdaMomentum(1e-2, amsgrad=True)
    model.compile(optimizer, "mse")
    model.fit(x, y, **FIT)
    before = [value(v) for v in optimizer.variables]
    path = tf.train.Checkpoint(model, optimizer=optimizer).save(str(tmp_path / "checkpoint"))
    model.fit(x, y, **FIT)
    tf.train.Checkpoint(model, optimizer=optimizer).restore(path)
    for v, start in zip(optimizer.variables, before, strict=True):
        same(value(v), start)


@demand("two replicas of TensorFlow's take the step of one", on=("tensorflow",))
def _(tmp_path):
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    weights = []
    for policy in ("float32", "bfloat16"):
        for scope in (strategy.scope(), tf.distribute.get_strategy().scope()):
            with scope:
                model, x, y = model_and_data(policy)
                optimizer = AdaMomentum(1e-2, weight_decay=0.5)
                optimizer.exclude_from_weight_decay(var_names=["bias"])
                model.compile(optimizer, "mse")
            model.fit(x, y, **FIT)
            weights.append(model.get_weights())
    for a, b in zip(weights[0], weights[1], strict=True):
        close(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(weights[2], weights[3], strict=True):
        close(np.asarray(a, float), np.asarray(b, float), atol=5e-2)


@pytest.mark.parametrize("check", DEMANDS.values())
def test_demand(check, tmp_path):
    check(tmp_path)


# --- Across backends ------------------------------------------------------------------------------

CONTINUE = """
import sys
import numpy as np
import keras
import adamomentum.keras
model = keras.saving.load_model(sys.argv[1])
data = np.load(sys.argv[2])
model.fit(data["x"], data["y"], epochs=3, batch_size=8, shuffle=False, verbose=0)
model.save(sys.argv[3])
"""


def other_python(backend, *arguments):
    pytest.importorskip(backend)
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "torch", reason="starts from torch")
@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_a_file_goes_to_another_backend_and_back(backend, tmp_path):
    pytest.importorskip(backend)
    model, x, y = model_and_data()
    options = {"weight_decay": 0.5, "amsgrad": True, "use_ema": True, "clipnorm": 1.0}
    optimizer = AdaMomentum(SCHEDULE, ema_momentum=0.5, **options)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, "mse")
    model.fit(x, y, **FIT)
    here, data, there = (tmp_path / name for name in ("here.keras", "data.npz", "there.keras"))
    model.save(here)
    np.savez(data, x=x, y=y)
    other_python(backend, "-c", CONTINUE, here, data, there)
    model.fit(x, y, **FIT)
    again = keras.saving.load_model(there)
    assert int(again.optimizer.iterations) == 12
    for a, b in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
        close(value(a), value(b), rtol=1e-5, atol=1e-6)
    model.fit(x, y, **FIT)
    again.fit(x, y, **FIT)
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "torch", reason="is that run")
@pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=[pytest.mark.full] if name == "jax" else []) for name in OTHERS],
)
def test_all_of_it_on(backend):
    other_python(backend, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__)
