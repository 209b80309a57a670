"""The benchmark's shapes are those of the networks it names."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location(
    "shapes", Path(__file__).parents[2] / "benchmarks" / "shapes.py"
)
shapes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shapes)


@pytest.mark.parametrize(
    ("model", "tensors", "parameters"),
    [
        # Counts of the networks as the authors ran them.
        ("ResNet-34", 110, 21_282_122),
        ("DenseNet-121", 362, 1_000_618),
        ("VGG-16", 58, 15_253_578),
        ("1,000 x 64", 1000, 64_000),
    ],
)
def test_counts(model, tensors, parameters):
    assert len(shapes.MODELS[model]) == tensors
    assert shapes.count(shapes.MODELS[model]) == parameters
