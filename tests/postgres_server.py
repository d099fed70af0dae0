"""A throw-away PostgreSQL server for tests of exports."""

import importlib
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import pytest


@contextmanager
def postgres_server():
    """A server on a socket of its own, as a function that runs psql; skips the test where there is none to start."""
    initdb = max(glob("/usr/lib/postgresql/*/bin/initdb"), default=None) or shutil.which("initdb")
    psql = shutil.which("psql")
    if initdb is None or psql is None:
        pytest.skip("no PostgreSQL server found (initdb, psql)")
    with tempfile.TemporaryDirectory(prefix="pbdn-") as folder:
        options = {"cwd": folder, "check": True}
        if os.geteuid() == 0:  # the server refuses to run as root
            pwd = importlib.import_module("pwd")
            if "postgres" not in {account.pw_name for account in pwd.getpwall()}:
                pytest.skip("running as root, and no account named postgres to run the server")
            shutil.chown(folder, "postgres")
            options["user"] = "postgres"
        quiet = {"stdout": subprocess.DEVNULL, **options}
        subprocess.run([initdb, "-D", f"{folder}/data", "-U", "test", "-A", "trust"], **quiet)
        server = [Path(initdb).with_name("pg_ctl"), "-D", f"{folder}/data", "-l", f"{folder}/log", "-w"]
        socket_only = f"-k {folder} -c listen_addresses=''"
        subprocess.run([*server, "-o", socket_only, "start"], **quiet)

        def query(script):
            command = [psql, "-h", folder, "-U", "test", "-d", "postgres", "-v", "ON_ERROR_STOP=1"]
            command += ["-q", "-A", "-t", "-F", "\x1f"]
            done = subprocess.run(command, input=script, capture_output=True, text=True, **options)
            return [line.split("\x1f") for line in done.stdout.splitlines()]

        try:
            yield query
        finally:
            subprocess.run([*server, "-m", "immediate", "stop"], **quiet)
