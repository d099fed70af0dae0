import numpy as np
import pytest
import scipy.sparse as sp

from pbdn.data.arrow_parquet import ArrowSource
from pbdn.data.columns import Columns, column_moments
from pbdn.data.row_source import ArraySource, join
from pbdn.data.streams import BUFFER_BYTES, BatchSource, MemmapSource, StreamedSource, rows_within
from pbdn.errors import InvalidInputError
from pbdn.model.labelling import for_and_against_each_class, for_each_class
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.pruning import log_inactivity, log_likelihoods
from pbdn.sgd.side_kernels import side_log_likelihood
from pbdn.sgd.train_layer import fit_map

pa = pytest.importorskip("pyarrow", reason="Arrow sources need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, D = 1000, 4
LABELS = np.array(["no", "perhaps", "yes"])


@pytest.fixture
def table(rng):
    inputs = rng.normal(size=(N, D))
    return inputs, LABELS[rng.integers(0, 3, N)], rng.gamma(2.0, size=N)


def parquet(folder, table, row_group_size=130):
    inputs, target, weights = table
    columns = {f"x{j}": inputs[:, j] for j in range(D)} | {"label": target, "w": weights}
    half = N // 2
    whole = pa.table(columns)
    pq.write_table(whole.slice(0, half), folder / "part-0.parquet", row_group_size=row_group_size)
    pq.write_table(whole.slice(half), folder / "part-1.parquet", row_group_size=row_group_size)
    return folder


@pytest.fixture(params=["array", "csr", "memmap", "parquet", "table", "batches", "callable"])
def source(request, tmp_path, table):
    inputs, target, weights = table
    parts = [(inputs[a : a + 77], target[a : a + 77], weights[a : a + 77]) for a in range(0, N, 77)]
    if request.param == "array":
        return ArraySource(inputs, target, weights=weights)
    if request.param == "csr":
        return ArraySource(sp.csr_array(inputs), target, weights=weights)
    if request.param == "memmap":
        stored = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="w+", shape=(N, D))
        stored[:] = inputs
        stored.flush()
        readonly = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="r", shape=(N, D))
        return MemmapSource(readonly, target, weights=weights, buffer_rows=300, slab_rows=64)
    if request.param == "parquet":
        return ArrowSource(parquet(tmp_path, table), "label", weight="w", buffer_rows=300)
    if request.param == "table":
        columns = {f"x{j}": inputs[:, j] for j in range(D)} | {"label": target, "w": weights}
        return ArrowSource(pa.table(columns), "label", weight="w", buffer_rows=300)
    if request.param == "batches":
        return BatchSource(parts, buffer_rows=300)
    return BatchSource(lambda: iter(parts), buffer_rows=300)


def test_every_source_tells_the_same_story(source, table, problem):
    inputs, target, weights = table
    assert (source.n_rows, source.n_features) == (N, D)
    np.testing.assert_array_equal(source.classes, LABELS)
    assert source.total_weight == pytest.approx(weights.sum(), rel=1e-12)
    whole = join(list(source.blocks()))
    dense = whole.inputs.toarray() if sp.issparse(whole.inputs) else whole.inputs
    np.testing.assert_array_equal(dense, inputs)
    np.testing.assert_array_equal(LABELS[whole.codes], target)
    np.testing.assert_array_equal(whole.weights, weights)


def test_every_source_gives_the_same_objective(source, table, problem):
    inputs, target, weights = table
    p = problem(n_inputs=D, widths=(2, 3, 4))
    reference = ArraySource(inputs, target, weights=weights)
    for passes in (log_likelihoods, log_inactivity):
        np.testing.assert_allclose(passes(source, *p.sides), passes(reference, *p.sides), rtol=1e-11)
    mean, deviation = column_moments(source)
    expected = np.average(inputs, axis=0, weights=weights)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        deviation, np.sqrt(np.average((inputs - expected) ** 2, axis=0, weights=weights)), rtol=1e-9
    )


@pytest.mark.parametrize("source", ["memmap", "parquet", "table", "batches"], indirect=True)
def test_sums_over_a_standardised_and_weighted_stream_are_those_of_its_rows(source, problem):
    """Columns or rows, in windows or not: one objective."""
    p = problem(n_inputs=D, widths=(2, 3, 4))
    stream = source.standardised(np.array([1.0, -2.0, 0.0, 3.0]), np.array([2.0, 0.1, 1.0, 5.0]))
    stream = stream.weighted(np.array([1.0, 0.5, 3.0]))
    whole = join(list(stream.blocks()))
    rows = ArraySource(whole.inputs, LABELS[whole.codes], weights=whole.weights)
    for floor in (-np.inf, -50.0):
        streamed, held = (log_inactivity(s, *p.sides, floor=floor) for s in (stream, rows))
        np.testing.assert_allclose(np.maximum(streamed, floor), np.maximum(held, floor), rtol=1e-11)
    against = for_and_against_each_class(3).positive
    parameters, starts = np.tile(p.parameters, 2), np.concatenate([p.starts, p.starts[1:] + p.starts[-1]])
    for passes in (log_likelihoods, log_inactivity):
        streamed, held = (passes(s, parameters, starts, against) for s in (stream, rows))
        np.testing.assert_allclose(streamed, held, rtol=1e-11)
    for streamed, held in zip(column_moments(stream), column_moments(rows), strict=True):
        np.testing.assert_allclose(streamed, held, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [100, 70])
def test_minibatches_are_passes_without_replacement(source, table, rng, batch_size):
    """Over k passes every row comes between k - 1 and k + 1 times, and batches are full and mixed."""
    inputs = table[0]
    n_batches = 3 * N // batch_size
    seen, count, ordered = [], 0, 0
    for chunk in source.minibatches(rng, batch_size, n_batches):
        assert len(chunk.order) == chunk.n_batches * batch_size
        count += chunk.n_batches
        rows = chunk.block.inputs
        rows = (rows.toarray() if sp.issparse(rows) else rows)[chunk.order]
        seen.append(rows[:, 0])
        ordered += int((np.diff(chunk.order) == 1).sum())
    assert count == n_batches
    values, times = np.unique(np.concatenate(seen), return_counts=True)
    assert times.sum() == n_batches * batch_size
    assert times.min() >= 2 - (batch_size == 70)
    assert times.max() <= 4
    assert set(values) <= set(inputs[:, 0])
    assert ordered < 0.1 * times.sum()


def test_mapped_rows_are_transformed_on_the_way(source, table):
    def double_and_cube(rows):
        rows = rows.toarray() if sp.issparse(rows) else rows
        return np.concatenate([2 * rows, rows**3], axis=1)

    mapped = source.mapped(double_and_cube).mapped(lambda rows: rows[:, 1:])
    assert mapped.n_features == 2 * D - 1
    assert mapped.n_rows == N
    whole = join(list(mapped.blocks()))
    np.testing.assert_array_equal(whole.inputs, double_and_cube(table[0])[:, 1:])
    np.testing.assert_array_equal(LABELS[whole.codes], table[1])
    assert source.n_features == D


def test_fits_from_a_stream(source, seed):
    config = MapSettings(n_minibatches=60, prune_every=30, max_experts=3)
    results = [fit_map(source, for_each_class(3), depth=1, config=config, seed=seed) for _ in range(2)]
    assert results[0].log_likelihood.shape == (3,)
    for first, second in zip(results[0].sides, results[1].sides, strict=True):
        np.testing.assert_array_equal(first.hyperplanes, second.hyperplanes)
        np.testing.assert_array_equal(first.expert_weights, second.expert_weights)


def test_a_generator_is_refused():
    with pytest.raises(InvalidInputError, match="one-shot generator"):
        BatchSource((np.ones((2, 1)), [0, 1]) for _ in range(3))


def test_declared_classes_are_kept_and_strangers_refused(table):
    inputs, target, _ = table
    source = ArraySource(inputs, target, classes=["yes", "no", "perhaps", "never"])
    assert list(source.classes[source.block.codes[:20]]) == list(target[:20])
    with pytest.raises(InvalidInputError, match="perhaps"):
        ArraySource(inputs, target, classes=["yes", "no"])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(table, bad):
    inputs = table[0].copy()
    inputs[3, 1] = bad
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        ArraySource(inputs, table[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, None])
def test_no_pass_over_a_file_takes_values_that_are_not_finite(tmp_path, table, problem, bad):
    inputs, target, weights = table
    p = problem(n_inputs=D, widths=(2, 3, 4))
    column = list(inputs[:, 1])
    column[777] = bad
    columns = {"a": inputs[:, 0], "b": column, "c": inputs[:, 2], "d": inputs[:, 3], "label": target}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet", row_group_size=300)
    source = ArrowSource(tmp_path / "f.parquet", "label")
    for passes in (
        lambda: column_moments(source),
        lambda: log_likelihoods(source, *p.sides),
        lambda: log_inactivity(source, *p.sides),
        lambda: list(source.blocks()),
    ):
        with pytest.raises(InvalidInputError, match="NaN or infinity"):
            passes()


def test_finite_values_with_an_infinite_sum_are_taken(tmp_path, problem):
    p = problem(n_inputs=1, widths=(2, 2))
    x = np.tile([1e308, -1e308], 50)
    pq.write_table(pa.table({"x": np.sort(x), "y": np.arange(100) % 2}), tmp_path / "f.parquet")
    source = ArrowSource(tmp_path / "f.parquet", "y").standardised(np.zeros(1), np.full(1, 1e308))
    assert np.isfinite(log_likelihoods(source, *p.sides)).all()
    assert np.isfinite(next(iter(source.blocks())).inputs).all()


def test_files_whose_types_differ_are_read_in_the_types_of_the_dataset(tmp_path):
    pq.write_table(pa.table({"x": [0.5, 1.5], "y": [0, 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": [1, 0], "x": np.array([2, 3], np.int32)}), tmp_path / "b.parquet")
    source = ArrowSource(tmp_path, "y")
    for blocks in (source.blocks(), source.each(lambda block: block)):
        inputs = [block.inputs for block in blocks]
        values = [x.columns[0] if isinstance(x, Columns) else x[:, 0] for x in inputs]
        np.testing.assert_array_equal(np.concatenate(values), [0.5, 1.5, 2.0, 3.0])


def test_arrow_errors_name_the_column(tmp_path, table):
    folder = parquet(tmp_path, table)
    with pytest.raises(InvalidInputError, match="target='lable'"):
        ArrowSource(folder, "lable")
    with pytest.raises(InvalidInputError, match="'label' has type string"):
        ArrowSource(folder, None)
    chosen = ArrowSource(folder, "label", features=["x2", "x0"])
    assert chosen.feature_names == ("x2", "x0")
    np.testing.assert_array_equal(join(list(chosen.blocks())).inputs, table[0][:, [2, 0]])


def test_columns_of_every_numeric_type_are_taken_exactly(tmp_path, rng):
    columns = {
        "single": rng.normal(size=50).astype(np.float32),
        "whole": rng.integers(-(2**40), 2**40, 50),
        "flag": rng.random(50) < 0.5,
        "double": rng.normal(size=50),
        "y": np.arange(50) % 2,
    }
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    block = next(iter(ArrowSource(tmp_path / "f.parquet", "y").blocks()))
    for d, name in enumerate(["single", "whole", "flag", "double"]):
        np.testing.assert_array_equal(block.inputs[:, d], columns[name])


@pytest.mark.parametrize("source", ["memmap", "parquet", "table", "batches", "callable"], indirect=True)
def test_streams_are_standardised_as_they_are_read(source, table):
    inputs, center, scale = table[0], np.array([1.0, -2.0, 0.0, 3.0]), np.array([2.0, 0.1, 1.0, 5.0])
    assert isinstance(source, StreamedSource)
    part = source.standardised(center, scale)
    np.testing.assert_allclose(join(list(part.blocks())).inputs, (inputs - center) / scale, rtol=1e-12, atol=1e-15)
    squared = part.mapped(np.square)
    np.testing.assert_allclose(
        join(list(squared.blocks())).inputs, ((inputs - center) / scale) ** 2, rtol=1e-12, atol=1e-15
    )


def test_wide_rows_make_small_buffers():
    assert rows_within(65_536, 30) == 65_536
    assert 8 * 10_000 * rows_within(65_536, 10_000) <= BUFFER_BYTES
    assert rows_within(65_536, 10**9) == 1


def test_memory_map_is_read_in_slabs_only(rng):
    class Watched:
        shape = (10_000, 3)
        largest = 0

        def __getitem__(self, where):
            Watched.largest = max(Watched.largest, where.stop - where.start)
            return np.ones((where.stop - where.start, 3))

    source = MemmapSource(Watched(), np.arange(10_000) % 2, buffer_rows=1000, slab_rows=500)
    chunks = list(source.minibatches(rng, 100, 150))
    assert Watched.largest == 500
    assert max(len(chunk.block) for chunk in chunks) < 2000


def test_mostly_zero_dense_rows_are_held_as_csr_but_mapped_as_dense(rng, seed):
    inputs = rng.normal(size=(200, 10)) * (rng.random((200, 10)) < 0.1)
    codes = rng.integers(0, 2, 200)
    held, plain = ArraySource(inputs, codes), ArraySource(inputs, codes, sparse_below=0.0)
    assert sp.issparse(held.block.inputs)
    assert not sp.issparse(plain.block.inputs)
    seen = []
    held.mapped(lambda rows: seen.append(type(rows)) or rows + 1.0)
    assert seen == [np.ndarray]
    config = MapSettings(n_minibatches=30, max_experts=4, coef_rate=1.0)
    losses = [fit_map(s, for_each_class(2), depth=1, config=config, seed=seed).trace["loss"] for s in (held, plain)]
    np.testing.assert_allclose(*losses, rtol=1e-9)


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_read_only_rows_and_long_indices_need_no_kernels_of_their_own(problem, container):
    """A memory map, or the indices of a large matrix cut to a small one: the same numbers, nothing compiled."""
    p = problem(labelling=for_each_class(2))
    plain, frozen = container(p.inputs), container(p.inputs)
    codes, weights = p.codes.copy(), p.weights.copy()
    expected = log_likelihoods(ArraySource(plain, codes, weights=weights), *p.sides)
    known = list(side_log_likelihood.signatures)
    if sp.issparse(frozen):
        frozen.indices, frozen.indptr = frozen.indices.astype(np.int64), frozen.indptr.astype(np.int64)
    for array in (
        *((frozen.data, frozen.indices, frozen.indptr) if sp.issparse(frozen) else (frozen,)),
        codes,
        weights,
    ):
        array.flags.writeable = False
    source = ArraySource(frozen, codes, weights=weights)
    np.testing.assert_array_equal(log_likelihoods(source, *p.sides), expected)
    assert list(side_log_likelihood.signatures) == known
    assert not codes.flags.writeable
