"""Lets clients load no certificates: loading all of them takes as long as a turn, and most tests use no TLS."""

import os

import pytest


def skip_certificates(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("SSL_CERT_FILE", raising=False)
    environment.setenv("SSL_CERT_DIR", os.devnull)


def skip_certificates_in(request: pytest.FixtureRequest) -> None:
    """Skip them in the test that requests a fixture, unless it installs other people's software."""
    if not request.node.get_closest_marker("compatibility"):
        skip_certificates(request.getfixturevalue("monkeypatch"))
