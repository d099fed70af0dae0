"""What goes between a driver and those who hold rows: arrays, and a key."""

import socket
import threading

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs Dask (extra `dask`)")


from pbdn.dask.channel import Channel, LostError, listen


def connected(driver_key, holder_key):
    """Both ends of a channel, or the errors that they end in."""
    server, ends = listen("127.0.0.1"), {}

    def accept():
        try:
            ends["holder"] = Channel.accept(server, holder_key)
        except LostError as error:
            ends["holder"] = error

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        ends["driver"] = Channel.to(*server.getsockname()[:2], driver_key)
    except LostError as error:
        ends["driver"] = error
    thread.join()
    return ends["driver"], ends["holder"]


def test_channels_carry_arrays_and_end():
    driver, holder = connected(b"key", b"key")
    sent = [np.arange(6.0).reshape(2, 3), np.array(7), np.array([True, False])]
    driver.send("word", sent, number=1)
    word, arrays, values = holder.receive()
    assert (word, values) == ("word", {"number": 1})
    for one, two in zip(sent, arrays, strict=True):
        np.testing.assert_array_equal(one, two)
    assert holder.n_received == driver.n_sent
    driver.send("objects", [np.array([1 + 2j])])
    with pytest.raises(LostError, match="numbers of the kind"):
        holder.receive()
    holder.close()
    with pytest.raises(LostError):
        driver.receive()
    driver.close()


def test_channels_refuse_those_without_the_key():
    for end in connected(b"key", b"other"):
        assert isinstance(end, LostError)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(LostError, match="nobody answers"):
            Channel.to(*unused.getsockname(), b"key")
