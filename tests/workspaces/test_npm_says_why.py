"""What npm says when it brings no agent's program: the address, and a way on where its certificate is the cause."""

import pytest

from dashboard.problems import Problem
from workspaces.provisioning import npm

SAYS = """npm error code SELF_SIGNED_CERT_IN_CHAIN
npm error errno SELF_SIGNED_CERT_IN_CHAIN
npm error request to https://registry.example.org/x failed, reason: self-signed certificate in certificate chain"""


def test_a_broken_chain_names_the_address_and_the_way_on(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >&2 <<'E'\n{SAYS}\nE\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with pytest.raises(Problem) as refused:
        npm.bring("x@1.2.3", tmp_path)
    told = refused.value.detail
    assert (refused.value.status, "https://registry.example.org/x" in told) == (503, True)
    assert told.endswith("HANDRAIL_UPSTREAM_CA.")
