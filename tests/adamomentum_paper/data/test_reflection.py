"""Images moved, with their borders reflected, and mirrored."""

import torch

from adamomentum_paper.data import reflection


def test_translation_is_reflected():
    image = torch.arange(16.0).view(1, 1, 4, 4)
    (moved,) = reflection.translate(image, torch.tensor([[1, -2]]), 2)
    rows, columns = [1, 0, 1, 2], [2, 3, 2, 1]
    assert torch.equal(moved[0], image[0, 0][rows][:, columns])
    assert torch.equal(reflection.translate(image, torch.zeros(1, 2).long(), 2), image)
    torch.manual_seed(0)
    shifts = reflection.draw_shifts(500, 4, torch.device("cpu"))
    assert (shifts.min(), shifts.max()) == (-4, 4)
    both = torch.cat([image, image])
    mirrored = reflection.mirror(both, torch.tensor([True, False]))
    assert torch.equal(mirrored, torch.cat([image.flip(-1), image]))
