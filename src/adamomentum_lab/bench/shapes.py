"""Parameter shapes of the paper's models: what an optimizer's step time depends on."""

from __future__ import annotations

import math

Shapes = list[tuple[int, ...]]


def resnet34() -> Shapes:
    """ResNet-34 for CIFAR-10: BasicBlocks [3, 4, 6, 3], 3x3 stem."""
    shapes: Shapes = [(64, 3, 3, 3), (64,), (64,)]
    before = 64
    for width, blocks in zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True):
        for _ in range(blocks):
            shapes += [(width, before, 3, 3), (width,), (width,)]
            shapes += [(width, width, 3, 3), (width,), (width,)]
            if before != width:
                shapes += [(width, before, 1, 1), (width,), (width,)]
            before = width
    return [*shapes, (10, 512), (10,)]


def densenet121(growth: int = 12) -> Shapes:
    """DenseNet-121 for CIFAR-10, with the growth of 12 that the authors ran."""
    width = 2 * growth
    shapes: Shapes = [(width, 3, 3, 3)]
    for block, layers in enumerate((6, 12, 24, 16)):
        for _ in range(layers):
            shapes += [(width,), (width,), (4 * growth, width, 1, 1)]
            shapes += [(4 * growth,), (4 * growth,), (growth, 4 * growth, 3, 3)]
            width += growth
        if block < 3:
            shapes += [(width,), (width,), (width // 2, width, 1, 1)]
            width //= 2
    return [*shapes, (width,), (width,), (10, width), (10,)]


def vgg16() -> Shapes:
    """VGG-16 for CIFAR-10 with batch norm and a 512-512 classifier."""
    shapes: Shapes = []
    before = 3
    for width in (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512):
        shapes += [(width, before, 3, 3), (width,), (width,), (width,)]
        before = width
    for width in (512, 512, 10):
        shapes += [(width, 512), (width,)]
    return shapes


def lstm3() -> Shapes:
    """The 3-layer LSTM for Penn Treebank: tied embedding 400, hidden 1150, last 400."""
    shapes: Shapes = [(10_000, 400), (10_000,)]
    for before, hidden in ((400, 1150), (1150, 1150), (1150, 400)):
        shapes += [(4 * hidden, before), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)]
    return shapes


def transformer(vocabulary: int = 10_000, width: int = 512, inner: int = 1024) -> Shapes:
    """The small Transformer for IWSLT'14: 6+6 layers, all embeddings shared, pre-norm."""
    norm: Shapes = [(width,), (width,)]
    attention: Shapes = [(width, width), (width,)] * 4
    feed_forward: Shapes = [(inner, width), (inner,), (width, inner), (width,)]
    encoder = attention + norm + feed_forward + norm
    decoder = attention + norm + attention + norm + feed_forward + norm
    return [(vocabulary, width), *(encoder * 6), *norm, *(decoder * 6), *norm]


def biggan(width: int = 96, shared: int = 128, noise: int = 20) -> Shapes:
    """Generator and discriminator of a 32x32 BigGAN, the noise split into four chunks."""
    g, d, label = 4 * width, 2 * width, shared + noise
    norm: Shapes = [(g, label), (g, label)]
    up: Shapes = [*norm, *norm, *([(g, g, 3, 3), (g,)] * 2), (g, g, 1, 1), (g,)]
    generator: Shapes = [(10, shared), (16 * g, noise), (16 * g,), *(up * 3)]
    generator += [*attention(g), (g,), (g,), (3, g, 3, 3), (3,)]
    down: Shapes = [(d, d, 3, 3), (d,)] * 2
    first: Shapes = [(d, 3, 3, 3), (d,), (d, d, 3, 3), (d,), (d, 3, 1, 1), (d,)]
    discriminator = [*first, *attention(d), *down, (d, d, 1, 1), (d,), *(down * 2), (1, d), (1,)]
    return [*generator, *discriminator, (10, d)]


def attention(width: int) -> Shapes:
    """Self-attention over pixels: three projections, one back, and a gain."""
    narrow, half = (width // 8, width, 1, 1), (width // 2, width, 1, 1)
    return [narrow, narrow, half, (width, width // 2, 1, 1), (1,)]


def count(shapes: Shapes) -> int:
    """The number of parameters."""
    return sum(map(math.prod, shapes))


MODELS: dict[str, Shapes] = {
    "ResNet-34": resnet34(),
    "DenseNet-121": densenet121(),
    "VGG-16": vgg16(),
    "LSTM, 3 layers": lstm3(),
    "Transformer": transformer(),
    "BigGAN": biggan(),
    "one of 64 Mi": [(64 * 2**20,)],
    "1,000 x 64": [(64,)] * 1000,
}
