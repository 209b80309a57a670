"""How fast ImageNet's images are decoded, cropped and put into batches, beside plain Pillow.

    python benchmarks/image_loader.py [images] [workers ...]

Images are JPEG files of 500x375, ImageNet's usual size, with as many bytes as photographs. Plain
Pillow opens, crops and scales them one after the other, and makes no batches. Everything is
measured in turns, and the ratios are medians: the speed of a shared machine varies.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from adamomentum_lab.training.feed import cores, feed
from adamomentum_paper.data.augmentation import redrawn_box
from adamomentum_paper.data.images import Files, Names

ROUNDS, BATCH, SIZE = 5, 32, 224


def write_images(folder: Path, count: int) -> list[Path]:
    """Smooth random images with some detail, of about 100 kB as those of ImageNet."""
    chance = np.random.default_rng(0)
    files = []
    for i in range(count):
        coarse = Image.fromarray(chance.integers(0, 255, (24, 32, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC)).astype(float)
        pixels = pixels + chance.normal(0, 12, pixels.shape)
        file = folder / f"{i}.JPEG"
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, quality=90)
        files.append(file)
    return files


def plain(files: list[Path]) -> None:
    for i, file in enumerate(files):
        with Image.open(file) as image:
            top, left, height, width = redrawn_box(i, image.height, image.width)
            part = image.convert("RGB").crop((left, top, left + width, top + height))
            part.resize((SIZE, SIZE), Image.Resampling.BILINEAR)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    given = [int(word) for word in sys.argv[2:]] or sorted({0, 1, cores()})
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        files = write_images(Path(folder), count)
        mean = statistics.fmean(file.stat().st_size for file in files) / 1e3
        names, labels = Names(files), torch.zeros(count, dtype=torch.int64)
        sources = {
            f"{workers} workers": Files(names, labels, torch.arange(count), BATCH, SIZE, workers)
            for workers in given
        }
        rates: dict[str, list[float]] = {}
        for turn in range(ROUNDS + 1):  # the first starts the workers
            started = time.perf_counter()
            plain(files)
            base = count / (time.perf_counter() - started)
            if turn:
                rates.setdefault("plain Pillow", []).append(base)
            for name, source in sources.items():
                started = time.perf_counter()
                for _ in feed(source, 0, turn):
                    pass
                if turn:
                    rates.setdefault(name, []).append(count / (time.perf_counter() - started))
    print(f"{count} images of {mean:.0f} kB; {cores()} cores\n")
    print("| | images/s | to plain Pillow on one core |\n| --- | --- | --- |")
    for name, found in rates.items():
        ratios = [a / b for a, b in zip(found, rates["plain Pillow"], strict=True)]
        print(f"| {name} | {statistics.median(found):.0f} | {statistics.median(ratios):.2f} |")


if __name__ == "__main__":
    main()
