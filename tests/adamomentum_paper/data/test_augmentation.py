"""Batched augmentation against one image at a time."""

import pytest
import torch
from torch.nn import functional

from adamomentum_paper.data.augmentation import (
    crop_and_flip,
    cutout,
    draw_boxes,
    draw_centres,
    draw_coins,
    draw_crops,
    normalise,
    redrawn_box,
    resized_crop,
)

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def images(n=50, height=32, width=32):
    return torch.randint(256, (n, 3, height, width), dtype=torch.uint8)


def test_normalise():
    x = images(3)
    mean, std = (0.5, 0.25, 0.1), (0.2, 0.3, 0.4)
    result = normalise(x, mean, std)
    assert result.dtype == torch.float32
    for channel in range(3):
        expected = (x[:, channel].double() / 255 - mean[channel]) / std[channel]
        torch.testing.assert_close(result[:, channel].double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(32, 32), (20, 28)])
def test_crop_and_flip(shape):
    x = images(50, *shape)
    corners, flipped = draw_crops(50, 4, CPU), draw_coins(50, 0.5, CPU)
    result = crop_and_flip(x, corners, flipped, 4)
    assert (result.dtype, result.shape) == (torch.uint8, x.shape)
    assert set(corners.flatten().tolist()) == set(range(9))
    assert 10 < flipped.sum() < 40
    for i in range(50):
        top, left = corners[i].tolist()
        padded = functional.pad(x[i], (4, 4, 4, 4))
        cut = padded[:, top : top + shape[0], left : left + shape[1]]
        assert torch.equal(result[i], cut.flip(-1) if flipped[i] else cut)


def test_cutout():
    x = torch.randn(200, 3, 32, 32)
    centres, which = draw_centres(200, 32, 32, CPU), draw_coins(200, 0.5, CPU)
    result = cutout(x, centres, which, 16)
    for i in range(200):
        y, z = centres[i].tolist()
        expected = x[i].clone()
        if which[i]:
            expected[:, max(0, y - 8) : y + 8, max(0, z - 8) : z + 8] = 0
        assert torch.equal(result[i], expected)
    assert centres.min() == 0
    assert centres.max() == 31


@pytest.mark.parametrize("size", [16, 48])
def test_resized_crop(size):
    x = torch.randn(40, 3, 64, 56)
    boxes, flipped = draw_boxes(40, 64, 56, CPU), draw_coins(40, 0.5, CPU)
    result = resized_crop(x, boxes, flipped, size)
    assert result.shape == (40, 3, size, size)
    for i in range(40):
        top, left, h, w = (int(value) for value in boxes[i])
        # Sampling may reach one pixel over the edge of a box, into the image around it: compare
        # with the whole image sampled at the same places, one pixel at a time.
        rows = top + (torch.arange(size) + 0.5) * h / size - 0.5
        columns = left + (torch.arange(size) + 0.5) * w / size - 0.5
        expected = bilinear(x[i], rows, columns)
        expected = expected.flip(-1) if flipped[i] else expected
        torch.testing.assert_close(result[i], expected, rtol=1e-4, atol=1e-4)


def bilinear(image, rows, columns):
    """Values between pixels, those outside taken from the border."""
    height, width = image.shape[-2:]
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    y, x = rows.floor().long().clamp(max=height - 2), columns.floor().long().clamp(max=width - 2)
    a, b = (rows - y)[:, None], (columns - x)[None, :]

    def corner(dy, dx):
        return image[:, y + dy][:, :, x + dx]

    top = (1 - b) * corner(0, 0) + b * corner(0, 1)
    bottom = (1 - b) * corner(1, 0) + b * corner(1, 1)
    return (1 - a) * top + a * bottom


def test_boxes_are_inside_and_of_all_sizes():
    boxes = draw_boxes(5000, 64, 64, CPU)
    top, left, h, w = boxes.unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + h <= 64).all()
    assert (left + w <= 64).all()
    part = h * w / 64**2
    assert part.min() < 0.12
    assert part.max() > 0.9
    assert part.mean().item() == pytest.approx(0.53, abs=0.03)
    assert (w / h).log().mean().item() == pytest.approx(0.0, abs=0.02)


def test_crops_of_imagenet_are_drawn_again_until_they_fit():
    drawn = [redrawn_box(seed, 40, 120) for seed in range(4000)]
    for top, left, height, width in drawn:
        assert 0 <= top <= top + height <= 40
        assert 0 <= left <= left + width <= 120
        assert height * width / 4800 > 0.07
        assert 0.7 < width / height < 1.4
    # Nothing is cut off at the border: few crops are as high as the image, as areas above 40 %
    # never fit, and then another is drawn.
    assert sum(height == 40 for _, _, height, _ in drawn) < 400
    areas = sorted(height * width / 4800 for _, _, height, width in drawn)
    assert areas[0] < 0.1
    assert areas[-1] > 0.35
    # A strip in which no draw fits gives its middle.
    assert redrawn_box(1, 10, 1000) == (0, 493, 10, 13)
