"""Public homes of the datasets: fixed commits of public repositories, each with one SHA-256 over its files.

A set that is not listed here has no home whose contents could be verified; it is read from local copies only.
"""

from pbdn.datasets import convert
from pbdn.datasets.fetch import Source

ROWS = "Devn913/AGMR_entropy_sparse/7d5f7cfd8ca4c0f7130bfda3201084db5c093174/twin_datasets"
SPLITS = "fernando2393/Relevance-Vector-Machine/4692830b9a8cf938e6b319be4a42e2a3ddde5457/Classification/datasets"
TWONORM = "yzhang00/Python-ML-Project-2/3052697b406ebddce0f9c3032f7e1943e017b36e/Data"
IJCNN1 = "X-DataInitiative/tick-datasets/9d959b6e53e17145e93e9849ff1f9f6d2de8ae51/binary/ijcnn1"
A9A = "mingyuanzhou/PBDN/a6713e0938d51c7a105840fbe7ecc71b9a525ffc/data"
CODRNA = "g2clv7fwl945/convex_dataset/3d8f83c73359ab9fa28b0272dde94236cc26b7ec"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"

_IDA_DIGESTS = {
    "banana": "5bda42e10a8f2ae98d502abc6c92dcb00d25b9c1c3841ff4d8a32590407258a7",
    "breast_cancer": "9d5854b13b343944f77dfa6106c55db15bdbe04040244433c6285db6dca8ad5a",
    "titanic": "7d5f840bd9c6abaf6af5d270bca975fab0d80c5537464eb916f35168143d032e",
    "waveform": "81105607c94c162d4c68927d8a93569a13d6f91faf5d586f9452caf3d1a2827e",
    "german": "8b1c8aa734ebb14b21ea4ec5a33f64ede5ea752750ae10e14c07eddd9fe9fec2",
    "image": "055b43ceb40c2ce2b0c73a8f1aac24fd77988240256bd7eab4be68c21d90ba6d",
}


def _raw(folder: str, *files: str) -> tuple[str, ...]:
    return tuple(f"https://raw.githubusercontent.com/{folder}/{file}" for file in files)


def _ida(name: str, sha256: str) -> Source:
    stem = name.replace("_", "-")
    tables = [
        f"{stem}/{stem}_{part}_{kind}_{k}.asc"
        for k in range(1, 11)
        for part in ("train", "test")
        for kind in ("data", "labels")
    ]
    return Source(_raw(ROWS, f"{name}.mat") + _raw(SPLITS, *tables), sha256, convert.ida_with_splits)


SOURCES: dict[str, Source] = {
    **{name: _ida(name, sha256) for name, sha256 in _IDA_DIGESTS.items()},
    "flare_solar": Source(
        _raw(ROWS, "flare_solar.mat"),
        "3aff418ff82953890854803613eb9e04fd3730114bff8e1a8e98ff59e7bc430c",
        convert.ida_codes(666),
    ),
    "splice": Source(
        _raw(ROWS, "splice.mat"),
        "3ab9843787885143d61b6141c42d40e4b94b662637c2b6e14522bdb5dce2f8d1",
        convert.ida_codes(1000),
    ),
    "diabetis": Source(
        _raw(ROWS, "pimadiabetes.mat"),
        "6be5ba7095ffe5ae5e3381584f0753a89a9bc082b744f882c6e438bc28dfb139",
        convert.pima_as_diabetis,
    ),
    "twonorm": Source(
        _raw(
            TWONORM,
            *(f"twonorm_{part}_{kind}_1.asc" for part in ("train", "test") for kind in ("data", "labels")),
        ),
        "7c96a8c0a7a0c65b1e7afc220fddf309c0051e3404670f268c91510849a8a9e0",
        convert.twonorm,
    ),
    "ijcnn1": Source(
        _raw(IJCNN1, "ijcnn1.trn.bz2", "ijcnn1.tst.bz2"),
        "942bcf0ddf917bfed6953522d23564ba3176a1d89e6baa1a6900c7efe05a1ede",
        convert.ijcnn1,
    ),
    "a9a": Source(
        _raw(A9A, "a9a.mat"),
        "6413e580e7575ac8bb49652462c479fb462452e6cf1efa5434b1f25c4bdb121a",
        convert.a9a,
    ),
    "codrna": Source(
        _raw(CODRNA, "cor_rna_scaled.mat"),
        "16f63aba8339cdf7e8c2efe47a5c7ed5e983f1b99ad2f9afb3774ebf81877fbf",
        convert.codrna,
    ),
    "mnist": Source(
        tuple(
            f"{MNIST}/{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
        ),
        "b2d8f5bf39174ee5ffeefa97e42d673c35432b411bb5d1f74fbbeddae7f1690a",
        convert.mnist,
        gzipped=True,
    ),
}
