"""What this machine can run: looked for at the moment it is asked, beside what a person declared (companion 7.1).

Harnesses are those whose binary is here, tool servers those that this box
knows how to start, and `gh` is there or not. Skills and plugins belong to
agent programs and are told, not found. Looking changes nothing: what was found
is written nowhere, so a refusal leaves no trace of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace

from batonpass.core.capabilities import Capabilities, Layers
from batonpass.worker import environment
from batonpass.worker.boxfile import BoxFile
from batonpass.worker.harness import registry
from batonpass.worker.harness.registry import Box


def box_of(said: BoxFile, environ: Mapping[str, str]) -> Box:
    """Return what this box says of agent programs, as they are looked for."""
    return Box(environ=environ, binaries=said.binaries, declared=said.declared)


def probe(said: BoxFile, environ: Mapping[str, str]) -> Capabilities:
    """Return what is here now."""
    searched = environment.plain(environ).get("PATH")
    return Capabilities(
        harnesses=tuple(found.harness.id for found in registry.installed(box_of(said, environ))),
        reachable_mcp=tuple(name for name, server in said.mcp.items() if _is_there(server.command[0], searched)),
        gh=shutil.which("gh", path=searched) is not None,
    )


def look(said: BoxFile, environ: Mapping[str, str]) -> Layers:
    """Return what is here now, beside what was declared; what an earlier probe found counts for nothing."""
    return replace(said.capabilities, probed=probe(said, environ))


def as_document(layers: Layers) -> dict[str, object]:
    """Return capabilities as they are published: what was found, what was declared, and what policy denies."""
    merged = layers.merged()
    declared = replace(Layers(declared=layers.declared, flat=layers.flat).merged(), deny=())
    return {"probed": _axes(layers.probed), "declared": _axes(declared), "deny": list(merged.deny)}


def _axes(capabilities: Capabilities) -> dict[str, object]:
    return {
        "harnesses": list(capabilities.harnesses),
        "reachable_mcp": list(capabilities.reachable_mcp),
        "skills": list(capabilities.skills),
        "plugins": list(capabilities.plugins),
        "gh": capabilities.gh,
    }


def _is_there(program: str, searched: str | None) -> bool:
    return shutil.which(program, path=searched) is not None
