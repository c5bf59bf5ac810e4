"""Tests of the Dockerfiles that need no engine; deploy/image/build builds and runs the image."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pgrelay.config import Config
from pgrelay.config.environment import find_overrides
from pgrelay.metrics import Metrics
from pgrelay.status.health import Health
from pgrelay.status.http import StatusServer
from tests.deploy.compose import ROOT

DOCKERFILES = ["Dockerfile", "deploy/compose/spark.Dockerfile"]
TEXT = (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_hadolint_finds_nothing(dockerfile: str) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    linted = subprocess.run([linter, ROOT / dockerfile], capture_output=True, text=True)
    assert (linted.returncode, linted.stdout) == (0, "")


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_has_what_the_package_is_built_from(dockerfile: str) -> None:
    [copied] = re.findall(r"^COPY (pyproject.*) \./$", (ROOT / dockerfile).read_text(), re.MULTILINE)
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    for file in ("pyproject.toml", "setup.py", "README.md", "config.example.yaml"):
        assert file in copied.split()
        assert f"!{file}" in sent


def environment() -> dict[str, str]:
    """The variables that ENV sets in the last stage."""
    [block] = re.findall(r"^ENV ((?:.*\\\n)*.*)$", TEXT.rpartition("\nFROM ")[2], re.MULTILINE)
    return dict(pair.split("=", 1) for pair in block.replace("\\\n", " ").split())


def test_the_images_variables_are_keys_of_the_configuration() -> None:
    overrides = find_overrides(environment(), Config)
    assert {override.path for override in overrides} == {("transactions", "spool_dir"), ("http", "listen")}


def test_the_spool_is_the_volume() -> None:
    spool = environment()["PGRELAY_TRANSACTIONS__SPOOL_DIR"]
    assert f"\nVOLUME {spool}\n" in TEXT


def test_pgrelay_is_on_the_path_in_the_image() -> None:
    """`kubectl exec pgrelay-0 -- pgrelay status` uses no ENTRYPOINT."""
    [program] = re.findall(r'^ENTRYPOINT \["(.*)"\]$', TEXT, re.MULTILINE)
    assert f" ln -s {program} /usr/local/bin/pgrelay\n" in TEXT


def healthcheck(listen: str, **variables: str) -> int:
    """The exit code of the HEALTHCHECK with this PGRELAY_HTTP__LISTEN, run with our own Python."""
    [words] = re.findall(r"^HEALTHCHECK .* CMD (\[(?:.*\\\n)*.*\])$", TEXT, re.MULTILINE)
    python, *arguments = json.loads(words.replace("\\\n", ""))
    assert python == "/opt/pgrelay/bin/python"
    command = [sys.executable, *arguments]
    env = {**os.environ, "PGRELAY_HTTP__LISTEN": listen, **variables}
    return subprocess.run(command, env=env, stderr=subprocess.DEVNULL).returncode


def test_the_health_check_passes_while_the_relay_works_and_fails_while_it_is_stuck() -> None:
    now = [0.0]
    health = Health(clock=lambda: now[0])
    with StatusServer(("127.0.0.1", 0), Metrics(), health, dict) as server:
        assert healthcheck(f"0.0.0.0:{server.port}") == 0
        now[0] += 3600
        assert healthcheck(f"0.0.0.0:{server.port}") == 1


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "0.0.0.0", "[::1]", "[::]"])
def test_the_health_check_queries_the_address_that_the_relay_listens_on(host: str) -> None:
    if host.startswith("[") and not socket.has_ipv6:
        pytest.skip("needs IPv6")
    with StatusServer((host.strip("[]"), 0), Metrics(), Health(lambda: 0.0), dict) as server:
        assert healthcheck(f"{host}:{server.port}") == 0


def test_the_health_check_uses_no_proxy() -> None:
    """The environment may have one for the relay's requests to the schema registry."""
    with StatusServer(("127.0.0.1", 0), Metrics(), Health(lambda: 0.0), dict) as server:
        # No server ever answers on port 1.
        assert healthcheck(f"0.0.0.0:{server.port}", http_proxy="http://127.0.0.1:1", no_proxy="") == 0


def test_the_health_check_fails_if_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert healthcheck(f"0.0.0.0:{held.getsockname()[1]}") == 1


def test_the_health_check_gives_up_before_its_timeout() -> None:
    [allowed] = re.findall(r"^HEALTHCHECK .*--timeout=(\d+)s", TEXT, re.MULTILINE)
    [waits] = re.findall(r"^ .*timeout=(\d+)\);.*\"\]$", TEXT, re.MULTILINE)
    assert int(waits) < int(allowed)
