"""The software bill of materials, CycloneDX 1.6, made from the lock files. `docs/generate.py` writes and checks it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ["build", "dev", "bench"]


def normalized(name: str) -> str:
    """Return the name of a package as PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> dict[str, tuple[str, list[str]]]:
    """Return (version, SHA-256 of each file) of every package of requirements/`lock`.txt, by normalized name."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    packages = {}
    for line in filter(str.strip, text.splitlines()):
        pin = re.match(r"([\w.-]+)==([^\s;]+)", line)
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
        if not pin or not hashes:
            raise ValueError(f"requirements/{lock}.txt: no version or no hash: {line.strip()}")
        packages[normalized(pin[1])] = (pin[2], sorted(hashes))
    return packages


def sbom() -> str:
    """Return the bill: each package once, with its hashes, the lock files it is in and whether a user needs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = sorted(normalized(pin.split("==")[0]) for pin in project["dependencies"])
    packages: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for lock in LOCKS:
        for name, (version, hashes) in locked(lock).items():
            packages.setdefault((name, version), (hashes, []))[1].append(lock)
    root = f"pkg:pypi/{project['name']}@{project['version']}"
    purl = {name: f"pkg:pypi/{name}@{version}" for name, version in sorted(packages)}
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "scope": "required" if name in direct else "excluded",
            "hashes": [{"alg": "SHA-256", "content": content} for content in hashes],
            "purl": f"pkg:pypi/{name}@{version}",
            "properties": [{"name": "qtranspose:lock", "value": lock} for lock in locks],
        }
        for (name, version), (hashes, locks) in sorted(packages.items())
    ]
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": root,
            }
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [purl[name] for name in direct]}],
    }
    return json.dumps(bill, indent=1) + "\n"
