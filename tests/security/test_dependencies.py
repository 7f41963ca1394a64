"""Versions of dependencies, checked without network: pinned, installed and lowest allowed versions
have no known defect."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]

# the first version without the defect
FIXED_IN = {
    "aiohttp": ("3.10.11", "CVE-2024-52304"),
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "cryptography": ("44.0.1", "CVE-2024-12797"),
    "duckdb": ("1.1.0", "CVE-2024-41672"),
    "fonttools": ("4.43.0", "CVE-2023-45139"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "mkdocs": ("1.2.3", "CVE-2021-40978"),
    "nltk": ("3.9", "CVE-2024-39705"),
    "numpy": ("1.22.0", "CVE-2021-34141"),
    "pillow": ("10.3.0", "CVE-2024-28219"),
    "protobuf": ("5.29.5", "CVE-2025-4565"),
    "pyarrow": ("14.0.1", "CVE-2023-47248"),
    "pydantic": ("2.4.0", "CVE-2024-3772"),
    "pymdown-extensions": ("10.0", "CVE-2023-32309"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "setuptools": ("78.1.1", "CVE-2025-47273"),
    "torch": ("2.6.0", "CVE-2025-32434"),
    "tqdm": ("4.66.3", "CVE-2024-34062"),
    "transformers": ("4.48.0", "CVE-2024-11392"),
    "urllib3": ("2.5.0", "CVE-2025-50181"),
    "zipp": ("3.19.1", "CVE-2024-5569"),
}


def read_pins() -> dict[str, str]:
    lines = (
        line.partition("#")[0].partition(";")[0].strip()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    )
    return {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines if line)
    }


def read_requirements() -> list[Requirement]:
    """What the package and its extras require, without the tools of the build and of other projects
    that are compared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(
            line
            for name, extra in project["optional-dependencies"].items()
            if name != "peers"
            for line in extra
        ),
    ]
    return [one for one in map(Requirement, lines) if not one.name.startswith("corpus-sanitize")]


def test_every_package_that_is_required_is_pinned() -> None:
    pins = read_pins()
    assert all(re.fullmatch(r"[0-9][0-9a-z.+]*", version) for version in pins.values())
    unpinned = {canonicalize_name(one.name) for one in read_requirements()} - pins.keys()
    # no test installs them, or the environment has its own
    assert unpinned <= {
        "adlfs",
        "gcsfs",
        "gliner",
        "s3fs",
        "setuptools",
    }


def test_pins_meet_the_lower_bounds() -> None:
    pins = read_pins()
    for one in read_requirements():
        if (version := pins.get(canonicalize_name(one.name))) is not None:
            assert one.specifier.contains(version, prereleases=True), one.name


@pytest.mark.parametrize("name", FIXED_IN)
def test_no_version_with_a_known_defect(name: str) -> None:
    fixed, advisory = FIXED_IN[name]
    versions = [read_pins().get(name)]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        versions.append(importlib.metadata.version(name))
    assert all(Version(version) >= Version(fixed) for version in versions if version is not None), (
        advisory
    )


def test_direct_requirements_exclude_versions_with_a_known_defect() -> None:
    for one in read_requirements():
        fixed, advisory = FIXED_IN.get(canonicalize_name(one.name), ("0", ""))
        lowest = min(
            (
                Version(clause.version)
                for clause in one.specifier
                if clause.operator in (">=", "==", "~=")
            ),
            default=Version("0"),
        )
        assert lowest >= Version(fixed), f"{one}: {advisory}"
