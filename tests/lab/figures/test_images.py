"""Pictures of what a model makes of test images."""

from io import BytesIO

import torch
from matplotlib.image import imread

from carms.lab.figures.images import _in_rows, _mosaic, _with_text
from carms.lab.figures.labels import PICTURES
from carms.lab.figures.png import is_whole


def test_a_mosaic_has_eight_images_in_each_of_four_rows():
    images = torch.arange(1, 33).float().view(32, 1).expand(32, 9)
    mosaic = _mosaic(images, 3)
    scale = 800 // (8 * (3 + 2))
    assert mosaic.shape == (4 * 5 * scale, 8 * 5 * scale)
    inner = mosaic.view(4, 5, scale, 8, 5, scale)[:, 1:4, :, :, 1:4]
    assert torch.equal(inner[:, 0, 0, :, 0, 0].flatten(), images[:, 0])
    assert (inner == inner[:, :1, :1, :, :1, :1]).all()


def test_originals_stand_above_what_the_model_makes_of_them():
    pairs = torch.stack((torch.zeros(16), torch.ones(16)), 1).view(32, 1)
    rows = _in_rows(pairs, PICTURES["reconstructions"]).view(4, 8)
    assert rows.mean(1).tolist() == [0, 1, 0, 1]
    numbers = torch.arange(32).view(32, 1)
    assert _in_rows(numbers, PICTURES["reconstructions"])[8, 0] == 1
    assert torch.equal(_in_rows(numbers, PICTURES["samples"]), numbers)


def test_rows_have_names_beside_them():
    black = torch.ones(400, 800)
    for name, left in (("reconstructions", 110), ("samples", 0)):
        contents = _with_text(black, PICTURES[name])
        assert is_whole(contents)
        pixels = imread(BytesIO(contents))[..., 0]
        assert pixels.shape == (444, 800 + left)
        assert (pixels[44:, left:] == 0).all()
        assert (pixels[:44] < 0.5).any()
        for row in range(4 if left else 0):
            assert (pixels[44 + 100 * row : 144 + 100 * row, :left] < 0.5).any()
