"""Compiles the kernels; the build backend runs it for wheels and editable installs.

Needs Cython, setuptools and a C compiler; where the machine has none, the build asks for the
package `ziglang`, which carries one. The modules use Python's stable ABI: one build serves every
supported version of Python.

    python sanitize/kernels/build.py            compile what is out of date, beside the sources
    python sanitize/kernels/build.py --checked  with checks of every index, for tests and fuzzing
    python sanitize/kernels/build.py --sanitize with checks, under AddressSanitizer (load libasan
    first)

With `SANITIZE_GLIBC=2.17`, ziglang compiles for that version of the C library on Linux, whatever
the machine has: the wheel serves all distributions since (PEP 600).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PACKAGE = "sanitize.kernels"
STABLE_ABI = "0x030B0000"  # Python 3.11, the oldest supported version
SHARED = "_shared"  # Cython's own code for typed views of arrays, compiled once for all kernels


class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Build hook of hatchling: compiles the kernels beside their sources and adds them to the
    wheel."""

    def dependencies(self) -> list[str]:
        return ["ziglang"] if _needs_ziglang() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        compile_kernels()
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform_tag()}"
        build_data["artifacts"] += [
            "/sanitize/kernels/*.abi3.so",
            "/sanitize/kernels/compiled.json",
        ]


def find_compiler() -> str | None:
    """The path of the C compiler that Python's configuration or `CC` names, or of `cc`; None where
    there is none."""
    configured = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(configured.split()[0]) or shutil.which("cc")


def compile_kernels(*, checked: bool = False, address_sanitizer: bool = False) -> list[str]:
    """Compiles the kernels that changed since they were last compiled; returns their names.

    A change of this file, of the compiler's version of Cython or of the options compiles all of
    them.
    """
    import Cython

    sources = [
        path
        for path in sorted(FOLDER.glob("*.py"))
        if path.name not in ("__init__.py", Path(__file__).name)
    ]
    options = (
        f"{Cython.__version__} {checked} {address_sanitizer} {_target_glibc()}"
        f" {_digest(Path(__file__))}"
    )
    record_path = FOLDER / "compiled.json"
    try:
        record = json.loads(record_path.read_bytes())
    except (OSError, ValueError):
        record = {}
    if record.get("options") != options:
        record = {}
    outdated = [
        path
        for path in sources
        if record.get(path.stem) != _digest(path) or not _binary(path.stem).exists()
    ]
    needs_shared = SHARED not in record or not _binary(SHARED).exists()
    if outdated or needs_shared:
        record_path.unlink(missing_ok=True)  # a build that fails half-way leaves no record
        _compile(
            [path.stem for path in outdated],
            with_shared=needs_shared,
            checked=checked,
            address_sanitizer=address_sanitizer,
        )
        record = {"options": options, SHARED: "", **{path.stem: _digest(path) for path in sources}}
        record_path.write_text(json.dumps(record, indent=1) + "\n")
    return [path.stem for path in outdated]


def _compile(
    names: list[str], *, with_shared: bool, checked: bool, address_sanitizer: bool
) -> None:
    """Translates modules to C in a temporary folder and compiles them beside their sources."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    flags = ["-O3", "-fno-strict-aliasing", "-Wno-unused-function", "-Wno-unreachable-code"]
    if address_sanitizer:
        flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
    if _needs_ziglang():
        target = (
            f" -target {platform.machine()}-linux-gnu.{_target_glibc()}" if _target_glibc() else ""
        )
        os.environ["CC"] = f"{sys.executable} -m ziglang cc{target}"
        os.environ["LDSHARED"] = f"{os.environ['CC']} -shared"
        flags.append("-fno-sanitize=undefined")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(ROOT)  # module names are found by their path from here
        try:
            extensions = [
                Extension(f"{PACKAGE}.{name}", [f"sanitize/kernels/{name}.py"]) for name in names
            ]
            if with_shared:
                extensions.append(
                    Extension(f"{PACKAGE}.{SHARED}", [str(Path(scratch) / f"{SHARED}.c")])
                )
            extensions = cythonize(
                extensions,
                build_dir=scratch,
                force=True,
                quiet=True,
                shared_utility_qualified_name=f"{PACKAGE}.{SHARED}",
                compiler_directives={
                    "language_level": 3,
                    "boundscheck": checked or address_sanitizer,
                    "wraparound": False,
                    "initializedcheck": False,
                    "cdivision": True,
                    "embedsignature": True,
                },
            )
            for extension in extensions:
                extension.py_limited_api = True
                extension.define_macros = [("Py_LIMITED_API", STABLE_ABI)]
                extension.extra_compile_args = flags
                extension.extra_link_args = [
                    flag for flag in flags if flag.startswith("-fsanitize")
                ]
            command = build_ext(Distribution({"ext_modules": extensions}))
            command.inplace, command.force = True, True
            command.build_temp, command.parallel = str(Path(scratch) / "objects"), os.cpu_count()
            command.finalize_options()
            command.run()
        finally:
            os.chdir(before)


def _binary(name: str) -> Path:
    return FOLDER / f"{name}.abi3.so"


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _needs_ziglang() -> bool:
    return find_compiler() is None or bool(_target_glibc())


def _target_glibc() -> str:
    """The version of glibc that is compiled for, or an empty text for that of the machine."""
    return os.environ.get("SANITIZE_GLIBC", "") if sys.platform == "linux" else ""


def _platform_tag() -> str:
    if _target_glibc():
        return f"manylinux_{_target_glibc().replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


if __name__ == "__main__":
    compiled = compile_kernels(
        checked="--checked" in sys.argv, address_sanitizer="--sanitize" in sys.argv
    )
    print("compiled:", ", ".join(compiled) or "nothing, all are up to date")
