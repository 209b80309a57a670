"""Parameter shapes of the paper's models, for `adamomentum bench`."""

from __future__ import annotations

import functools

import torch
from torch import nn

from adamomentum_lab.catalog import find_workload
from adamomentum_paper.data.parallel import PAD
from adamomentum_paper.models.transformer import Shape, Transformer

_WORKLOADS = {
    "ResNet-34": "cifar10_resnet34",
    "DenseNet-121": "cifar10_densenet121",
    "VGG-16": "cifar10_vgg16",
    "LSTM, 3 layers": "ptb_lstm3",
    "BigGAN": "cifar10_biggan",
}


@functools.cache
def models() -> dict[str, list[tuple[int, ...]]]:
    """Return the parameter shapes of each model. No memory is allocated for them."""
    with torch.device("meta"):
        found: dict[str, nn.Module] = {
            name: find_workload(workload).load()("full").model()
            for name, workload in _WORKLOADS.items()
        }
        found["Transformer"] = Transformer(10_000, PAD, Shape())
    return {
        name: [tuple(param.shape) for param in model.parameters()] for name, model in found.items()
    }
