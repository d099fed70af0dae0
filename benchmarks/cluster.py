"""Gibbs sampling on a local Dask cluster beside the same fit in memory: bits, bytes, seconds, and a slow network.

    python -m benchmarks.cluster [messages] [delays] [sweep] [bytes] [--rows 1000000] [--no-profile] [--quick]

Seconds are those of the clock and of the processors: on a machine that does other work only the latter say what a fit costs.
A sweep is measured after the first of its chain; the start counts apart. A network delay is simulated: the driver sleeps for a round trip wherever it waits for workers.
"""

import argparse
import os
import time
import warnings
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks import record
from pbdn import GibbsConfig, PBDNClassifier
from pbdn.dask import DaskPBDNClassifier, cluster
from pbdn.dask.rows import make_shards, read_lazily, read_rows
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.row_source import Block
from pbdn.gibbs import chain
from pbdn.gibbs.rows import BLOCK_ROWS, group_blocks
from pbdn.gibbs.rows import make_rows as rows_of_a_side
from pbdn.gibbs.state import initial_state, prior_values
from pbdn.gibbs.sweep import Workers, single_blas_thread, sweep
from pbdn.model.priors import GIBBS_PRIORS
from pbdn.model.scaling import standard_scaling
from pbdn.variates.random_stream import stream_key

PARTS = ("messages", "delays", "sweep", "bytes")
EXPERTS = 20
IDLE_SECONDS = 5.0
ROUNDS = 2  # in which all workers are asked at the same time, per sweep; then one message to each in turn


def make_rows(n: int, d: int) -> tuple[Any, Any]:
    """Two classes that no plane divides."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(n) > 0).astype(int)


def options(n_sweeps: int) -> dict[str, Any]:
    """One layer, no expert pruned, so that every sweep costs the same."""
    sampling = GibbsConfig(n_sweeps=n_sweeps, prediction="point", pruning="none")
    return {"inference": "gibbs", "max_depth": 1, "max_experts": EXPERTS, "gibbs_config": sampling, "random_state": 0}


def processor_seconds() -> float:
    """Of this process, or of the worker that is asked."""
    return time.process_time()


class Cost:
    """Seconds of the clock and of all processors between two moments."""

    def __init__(self, client: Client | None = None) -> None:
        self.client, self.began, self.used = client, time.perf_counter(), self._used(client)

    def _used(self, client: Client | None) -> float:
        others = 0.0 if client is None else sum(client.run(processor_seconds).values())
        return time.process_time() + others

    def __call__(self) -> tuple[float, float]:
        """Clock, processors."""
        return time.perf_counter() - self.began, self._used(self.client) - self.used


def local_cost(X: Any, y: Any, n_sweeps: int, n_jobs: int) -> tuple[tuple[float, float], Any]:
    cost = Cost()
    model = PBDNClassifier(**options(n_sweeps), n_jobs=n_jobs).fit(X, y)
    return cost(), model


def cluster_cost(
    X: Any, y: Any, n_sweeps: int, client: Client, chunk: int
) -> tuple[tuple[float, float], Any, list[Any]]:
    """The same on the cluster, with the bytes that each side's chain sent and received."""
    counted: list[Any] = []
    close = cluster.Group.close

    def closing(self: cluster.Group) -> None:
        close(self)
        counted.append(self.n_bytes)

    cluster.Group.close = closing  # type: ignore[method-assign]
    rows, labels = (da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk))
    cost = Cost(client)
    try:
        model = DaskPBDNClassifier(**options(n_sweeps), client=client).fit(rows, labels)
    finally:
        cluster.Group.close = close  # type: ignore[method-assign]
    return cost(), model, counted


def same_bits(one: Any, other: Any) -> bool:
    """Whether two networks are equal to the last bit."""
    sides = zip(one.network_.top.sides, other.network_.top.sides, strict=True)
    return all(
        np.array_equal(a.hyperplanes, b.hyperplanes) and np.array_equal(a.expert_weights, b.expert_weights)
        for a, b in sides
    )


def predicted_bytes(n_rows: int, n_features: int, n_workers: int) -> tuple[int, int]:
    """Per sweep, from and to the driver: see docs/scaling.md."""
    D, K = n_features + 1, EXPERTS
    n_groups = -(-n_rows // (group_blocks(n_rows) * BLOCK_ROWS))
    n_workers = min(n_workers, n_groups)
    statistics = 8 * K * (D * (D + 1) // 2 + D)
    down = n_workers * 8 * K * (D + 2) + (n_workers - 1) * statistics
    return down, n_groups * 8 * (2 * K + 1) + n_workers * statistics


class SlowNetwork:
    """Within, the driver waits for a round trip of so many seconds wherever it waits for workers."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.ask, self.relay = seconds, cluster.Group.ask, cluster.Group.relay

    def __enter__(self) -> None:
        def ask(group: Any, *arguments: Any, **values: Any) -> Any:
            time.sleep(self.seconds)
            return self.ask(group, *arguments, **values)

        def relay(group: Any, word: str) -> Any:
            time.sleep(self.seconds * len(group.held))
            return self.relay(group, word)

        cluster.Group.ask, cluster.Group.relay = ask, relay  # type: ignore[method-assign]

    def __exit__(self, *exception: Any) -> None:
        cluster.Group.ask, cluster.Group.relay = self.ask, self.relay  # type: ignore[method-assign]


def bits_and_bytes(n_rows: int, n_features: int, clients: dict[int, Client]) -> list[dict[str, Any]]:
    """Workers 1, 2 and 4: the same network, and messages as predicted."""
    X, y = make_rows(n_rows, n_features)
    n_sweeps, found = 10, []
    _, expected = local_cost(X, y, n_sweeps, 1)
    for n_workers, client in clients.items():
        _, model, counted = cluster_cost(X, y, n_sweeps, client, n_rows // 3 + 1)
        down, up = predicted_bytes(n_rows, n_features, n_workers)
        sent, received = (float(np.mean([own[j] for own in counted])) / n_sweeps for j in (0, 1))
        found.append(
            {
                "workers": n_workers,
                "same": same_bits(model, expected),
                "sent": sent,
                "received": received,
                "down": down,
                "up": up,
            }
        )
        print(
            f"| {n_workers} | {'yes' if found[-1]['same'] else 'NO'} | {sent / 1e3:.1f} | {down / 1e3:.1f} "
            f"| {received / 1e3:.1f} | {up / 1e3:.1f} |", flush=True,
        )  # fmt: skip
    return found


class SweepClock:
    """Within, takes the time of every sweep; ``least`` is what a machine that does other work says of one that does not."""

    def __init__(self) -> None:
        self.sweep, self.least = chain.response_sweep, np.inf

    def __enter__(self) -> "SweepClock":
        def measured(*arguments: Any) -> Any:
            began = time.perf_counter()
            out = self.sweep(*arguments)
            self.least = min(self.least, time.perf_counter() - began)
            return out

        chain.response_sweep = measured
        return self

    def __exit__(self, *exception: Any) -> None:
        chain.response_sweep = self.sweep


def overhead(n_rows: int, n_features: int, client: Client, n_sweeps: int) -> dict[str, Any]:
    """Seconds of processors of a sweep of one side, in memory on one thread and on the workers, in turn; and of the start of each.

    Both sample the same chain, sweep after sweep, so that other work on the machine slows both alike.
    """
    X, y = make_rows(n_rows, n_features)
    out: dict[str, Any] = {"rows": n_rows, "features": n_features, "workers": len(client.nthreads())}
    for size in (2000, n_rows):  # compiles, then measures
        cost = Cost()
        rows = LabelledRows(X[:size], y[:size]).in_content_order()
        rows = rows.scaled(standard_scaling(rows.inputs))
        here = rows_of_a_side(rows.inputs, rows.codes == 1, single_events=True)
        out["local_start"] = cost()
        cost = Cost(client)
        tasks = cluster.Cluster(client)
        read = read_lazily(
            da.from_array(X[:size], chunks=(size // 4, -1)), da.from_array(y[:size], chunks=size // 4), None
        )
        shards = make_shards(read_rows(tasks, tasks.start(read), repeats=True), True, True)
        there, group = shards.scaled(shards.scaling(True)).side(1, True, False)
        out["cluster_start"] = cost()
        assert group is not None
        states, used = [initial_state(EXPERTS, n_features + 1)] * 2, np.empty((n_sweeps, 2, 2))
        with single_blas_thread():
            for index in range(n_sweeps):
                for place, where in enumerate((here, there)):
                    asked = client if place else None
                    cost, free = Cost(asked), Cost(asked)
                    fixed = None, np.ones(EXPERTS, bool), prior_values(GIBBS_PRIORS), stream_key(0), index, Workers(1)
                    states[place] = sweep("first_events", where, states[place], *fixed)[0]
                    used[index, place] = np.subtract(cost(), (0.0, free.used - cost.used))
                assert np.array_equal(states[0].hyperplanes, states[1].hyperplanes)
        group.close()
    cost, free = Cost(client), Cost(client)
    time.sleep(IDLE_SECONDS)
    clock, idle = np.subtract(cost(), (0.0, free.used - cost.used))
    out["idle"] = idle / clock
    for place, name in enumerate(("local", "cluster")):
        clock, sweeps = np.median(used[1:, place], axis=0)
        out[f"{name}_sweep"], start = [clock, sweeps], out[f"{name}_start"]
        print(f"| {name} | {clock:.3f} | {sweeps:.3f} | {start[0]:.1f} | {start[1]:.1f} |", flush=True)
    out["overhead"] = float(used[1:, 1, 1].sum() / used[1:, 0, 1].sum() - 1)
    print(
        f"overhead of a sweep: {out['overhead']:.1%} of processor time. Driver, scheduler and workers that do nothing take "
        f"{out['idle']:.3f} s of processors per second.", flush=True,
    )  # fmt: skip
    return out


def delays(n_rows: int, n_features: int, client: Client, n_sweeps: int = 40) -> list[dict[str, Any]]:
    """Seconds of the quickest sweep of one side when a round trip takes long."""
    X, y = make_rows(n_rows, n_features)
    rounds, found = ROUNDS + len(client.nthreads()), []
    for delay in (0.0, 0.005, 0.02):
        with SlowNetwork(delay), SweepClock() as sweeps:
            cluster_cost(X, y, n_sweeps, client, n_rows // 2)
        found.append({"delay": delay, "sweep": sweeps.least, "rounds": rounds})
        print(
            f"| {1e3 * delay:.0f} | {1e3 * sweeps.least:.1f} | {1e3 * (found[0]['sweep'] + rounds * delay):.1f} |",
            flush=True,
        )
    return found


class Echo:
    """An actor of Dask."""

    def same(self, values: Any) -> Any:
        return values


def messages(client: Client, repeats: int = 40) -> dict[str, float]:
    """Milliseconds (median) for 80 kB to a worker and back, by a channel and by Dask."""
    values = np.zeros((100, 100))
    block = client.submit(Block, np.zeros((1, 98)), np.zeros(1, np.int64), np.ones(1))
    group = cluster.Group(cluster.Cluster(client), [block])
    group.open()
    whole = np.arange(2) * 100  # one side of 100 experts; no row is asked for
    actor = client.submit(Echo, actor=True).result()
    ways = {
        "channel": lambda: group.ask("gradient", [values, whole, np.ones(1, np.int64), whole[:0]], scale=1.0),
        "Dask actor": lambda: actor.same(values).result(),
        "Dask future": lambda: client.submit(np.copy, values, pure=False).result(),
    }
    found = {}
    for name, way in ways.items():
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            way()
            times.append(time.perf_counter() - began)
        found[name] = 1e3 * float(np.median(times))
        print(f"| {name} | {found[name]:.2f} | {1e3 * min(times):.2f} |", flush=True)
    group.close()
    return found


def resize(local: LocalCluster, client: Client, n_workers: int) -> None:
    local.scale(n_workers)
    while len(client.nthreads()) != n_workers:
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="what to measure; all by default")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=6)
    parser.add_argument("--no-profile", action="store_true", help="workers without Dask's own profiler")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing recorded")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, parts = 20_000 if given.quick else given.rows, given.parts or PARTS
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    found: dict[str, Any] = {}
    with (
        dask.config.set({"distributed.worker.profile.enabled": not given.no_profile}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as two,
        Client(two) as client,
    ):
        if "messages" in parts:
            print("\n## A message of 80 kB there and back\n")
            print("| way | median, ms | least, ms |\n|---|---|---|")
            found["messages"] = messages(client)
        if "delays" in parts:
            print("\n## The quickest sweep of one side when the network is slow, 20000 x 5, two workers\n")
            print("| round trip, ms | sweep, ms | predicted, ms |\n|---|---|---|")
            found["delays"] = delays(20_000, 5, client)
        if "sweep" in parts:
            print(f"\n## A sweep of one side, {rows} x {given.features}, {EXPERTS} experts\n")
            print("| | seconds | of processors | start, seconds | of processors |\n|---|---|---|---|---|")
            found["sweep"] = overhead(rows, given.features, client, given.sweeps)
        if "bytes" in parts:
            print("\n## Bits and bytes, 20000 x 20\n")
            print(
                "| workers | same bits | sent, kB | predicted | received, kB | predicted |\n|---|---|---|---|---|---|"
            )
            found["bytes"] = []
            for n_workers in (1, 2, 4):
                resize(two, client, n_workers)
                found["bytes"] += bits_and_bytes(20_000, 20, {n_workers: client})
    if not given.quick:
        config = {
            "rows": rows,
            "features": given.features,
            "experts": EXPERTS,
            "sweeps": given.sweeps,
            "profile": not given.no_profile,
        }
        load = os.getloadavg()[0]
        for part, results in found.items():
            line = {"method": "cluster", "case": part, "seed": 0, "config": config, "load": load, "results": results}
            record.append("speed", line)


if __name__ == "__main__":
    main()
