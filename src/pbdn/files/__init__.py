"""Files that hold data and nothing else: models, checkpoints, and how they are written."""

from pbdn.files.atomic import atomic_stream, atomic_write, atomic_write_all
from pbdn.files.container import (
    FORMAT_VERSION,
    MAX_HEADER,
    container_bytes,
    from_json,
    pack_strings,
    read_container,
    to_json,
    unpack_strings,
    write_container,
)
from pbdn.files.network import (
    OLDEST_SCHEMA,
    SCHEMA_VERSION,
    check_schema,
    network_from_arrays,
    network_to_arrays,
)

__all__ = [
    "FORMAT_VERSION",
    "MAX_HEADER",
    "OLDEST_SCHEMA",
    "SCHEMA_VERSION",
    "atomic_stream",
    "atomic_write",
    "atomic_write_all",
    "check_schema",
    "container_bytes",
    "from_json",
    "network_from_arrays",
    "network_to_arrays",
    "pack_strings",
    "read_container",
    "to_json",
    "unpack_strings",
    "write_container",
]
