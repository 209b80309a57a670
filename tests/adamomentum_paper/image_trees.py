"""Random images in files."""

import numpy as np
from PIL import Image


def write_image(file, size=(64, 64), mode="RGB", seed=0):
    file.parent.mkdir(parents=True, exist_ok=True)
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], bands), np.uint8)
    Image.fromarray(pixels.squeeze(), mode if mode == "CMYK" else None).save(file)
    return file
