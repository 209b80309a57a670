"""The networks of the GANs: parameter counts, attention by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from adamomentum_paper.models.biggan import BigGANGenerator
from adamomentum_paper.models.dcgan import DCGANDiscriminator, DCGANGenerator
from adamomentum_paper.models.gan_blocks import PixelAttention, ProjectionDiscriminator, orthogonal
from adamomentum_paper.models.sngan import SNGANGenerator

# Each layer as weights + biases, from the widths of the notes on the paper (section 3).
_BIG_NORM, _BIG_CONV = 2 * 148 * 384, 384 * 384 * 9 + 384


_BIG_BLOCK = 2 * _BIG_NORM + 2 * _BIG_CONV + 384 * 384 + 384


_SN_BLOCK = 2 * 2 * 10 * 256 + 2 * (256 * 256 * 9 + 256) + 256 * 256 + 256


def _residual(width):
    conv, short = width * width * 9 + width, width * width + width
    first = 3 * 9 * width + width + conv + 3 * width + width
    return first + 2 * conv + short + 4 * conv + width + 1 + 10 * width


COUNTS = {
    "DCGAN G": (
        DCGANGenerator,
        128 * 8192 + 8192 + 1024
        + 512 * 256 * 16 + 256 + 512
        + 256 * 128 * 16 + 128 + 256
        + 128 * 64 * 16 + 64 + 128
        + 64 * 3 * 9 + 3,
    ),
    "DCGAN D": (
        DCGANDiscriminator,
        3 * 64 * 9 + 64
        + 64 * 128 * 16 + 128 + 256
        + 128 * 256 * 16 + 256 + 512
        + 256 * 512 * 16 + 512 + 1024
        + 512 * 16 + 1,
    ),
    "SNGAN G": (
        SNGANGenerator,
        128 * 4096 + 4096 + 3 * _SN_BLOCK + 512 + 256 * 3 * 9 + 3,
    ),
    "SNGAN D": (lambda: ProjectionDiscriminator(128, 10), _residual(128)),
    "BigGAN G": (
        BigGANGenerator,
        10 * 128 + 20 * 6144 + 6144 + 3 * _BIG_BLOCK
        + 2 * 384 * 48 + 2 * 384 * 192 + 1  # attention
        + 2 * 384 + 384 * 3 * 9 + 3,
    ),
    "BigGAN D": (
        lambda: ProjectionDiscriminator(192, 10, attention=True),
        _residual(192) + 2 * 192 * 24 + 2 * 192 * 96 + 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts(name):
    build, count = COUNTS[name]
    assert sum(param.numel() for param in build().parameters()) == count


def test_counts_in_millions():
    """The sums above, for the documentation."""
    millions = {name: round(count / 1e6, 2) for name, (_, count) in COUNTS.items()}
    assert millions == {
        "DCGAN G": 3.81,
        "DCGAN D": 2.77,
        "SNGAN G": 4.3,
        "SNGAN D": 1.06,
        "BigGAN G": 9.42,
        "BigGAN D": 2.42,
    }


def test_attention_by_hand():
    torch.manual_seed(0)
    attention = PixelAttention(8, orthogonal)
    x = torch.randn(2, 8, 4, 4)
    assert torch.equal(attention(x), x)  # it starts as the identity
    nn.init.constant_(attention.gain, 0.5)
    query = attention.query(x).reshape(2, 1, 16)
    key = functional.max_pool2d(attention.key(x), 2).reshape(2, 1, 4)
    value = functional.max_pool2d(attention.value(x), 2).reshape(2, 4, 4)
    weights = (query.transpose(1, 2) @ key).softmax(-1)
    seen = (weights @ value.transpose(1, 2)).transpose(1, 2).reshape(2, 4, 4, 4)
    torch.testing.assert_close(attention(x), x + 0.5 * attention.out(seen))
