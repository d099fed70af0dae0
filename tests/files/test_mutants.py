"""Damaged and hostile files: one error type, bounded memory, no changed byte accepted."""

import hashlib
import tracemalloc

import numpy as np
import pytest

from networks import random_committee, random_curve, random_network
from pbdn.errors import FileFormatError
from pbdn.files import container_bytes, network_from_arrays, network_to_arrays, read_container

SLACK = 1 << 21  # bytes that a refusal may take whatever the size of the file (parsed header, messages)


def a_model(rng, bent=False):
    """A network with draws, or a curved committee whose zeros are not stored."""
    if bent:
        network, _ = random_committee(rng, [((2, 1), (2, 1), (1, 2))] * 5, curve=random_curve(rng, 4, 3))
    part, arrays = network_to_arrays(network if bent else random_network(rng, n_draws=3))
    header = {"kind": "model", "network": part, "classes": np.array(["no", "yes"]), "scale": float("nan")}
    return container_bytes(header, arrays)


def mutant(rng, data):
    """A copy of ``data`` with one to three random injuries."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(changed) + 1)) if rng.random() < 0.6 else int(rng.integers(0, 200))
        at = min(at, len(changed))
        length = int(rng.integers(1, 40))
        match rng.integers(0, 8):
            case 0:
                del changed[at:]
            case 1:
                if at < len(changed):
                    changed[at] ^= 1 << int(rng.integers(0, 8))
            case 2:
                changed[at : at + length] = rng.bytes(length)
            case 3:
                changed[at:at] = rng.bytes(length)
            case 4:
                del changed[at : at + length]
            case 5:  # huge or odd numbers where lengths are declared
                field = int(rng.choice([8, 12, 16, 20, 24]))
                changed[field : field + 4] = int(rng.choice([0, 1, 2**31, 2**32 - 1])).to_bytes(4, "little")
            case 6:
                changed[at:at] = changed[at : at + length]
            case 7:  # other digits: sizes, shapes and offsets in the two headers
                digits = [i for i in range(min(len(changed), 2000)) if 48 <= changed[i] < 58]
                if digits:
                    place = int(rng.choice(digits))
                    changed[place : place + 1] = rng.choice([b"0", b"9", b"-1", b"99999999999999999999", b"1e9"])
    return bytes(changed)


def peak_and_outcome(path):
    tracemalloc.start()
    try:
        header, arrays = read_container(path, kind="model")
        network_from_arrays(header.get("network"), arrays)
        outcome = "accepted"
    except FileFormatError as error:
        outcome = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, outcome


def check(rng, path, n_mutants):
    original = a_model(rng)
    path.write_bytes(original)
    assert peak_and_outcome(path)[1] == "accepted"
    tried = 0
    while tried < n_mutants:
        data = mutant(rng, original)
        if data == original:
            continue
        tried += 1
        path.write_bytes(data)
        peak, outcome = peak_and_outcome(path)
        assert outcome != "accepted"
        assert "damaged" in outcome or "not a pbdn file" in outcome or "empty" in outcome or "short" in outcome
        assert peak <= 4 * len(data) + SLACK


def test_mutants(rng, tmp_path):
    check(rng, tmp_path / "model.pbdn", 2000)


@pytest.mark.statistical
@pytest.mark.slow
def test_many_mutants(rng, tmp_path):
    check(rng, tmp_path / "model.pbdn", 10_000)


def resealed(data):
    """Repair lengths and checksum, as an attacker would, so that the parsers behind them are reached."""
    body = bytearray(data[:-32])
    if len(body) >= 24:
        header_length = min(int.from_bytes(body[12:16], "little"), len(body) - 24)
        body[12:16] = header_length.to_bytes(4, "little")
        body[16:24] = (len(body) - 24 - header_length).to_bytes(8, "little")
    return bytes(body) + hashlib.sha256(body).digest()


@pytest.mark.parametrize("bent", [False, True])
def test_resealed_mutants_give_a_network_or_the_same_error(rng, tmp_path, bent):
    path = tmp_path / "model.pbdn"
    original = a_model(rng, bent)
    outcomes = []
    for _ in range(1000 if bent else 1500):
        data = resealed(mutant(rng, original))
        path.write_bytes(data)
        peak, outcome = peak_and_outcome(path)
        outcomes.append(outcome)
        assert peak <= 4 * len(data) + SLACK
    text = " ".join(outcomes)  # the mutants got through to each of the inner checks
    for part in ("malformed header", "malformed arrays", "does not hold a usable network", "accepted"):
        assert part in text
