"""Loops over bytes, spans and values, compiled ahead of time: arrays in, arrays out.

A kernel is a module of annotated Python that Cython compiles when the package is installed
(`build.py`). Its functions take contiguous numpy arrays, fill arrays of the caller, and return
counts; they release the interpreter lock and use no Python objects inside. They import nothing of
the rest of the package. What a kernel expects of its arrays (offsets ascending and within the data,
the size of an output) is checked by its caller once per call; indices that come from files are
validated before.

Every kernel has a slow reference in tests/kernels, and a property that compares the two. The
uncompiled source is never used.
"""

import hashlib
import json
from pathlib import Path

from sanitize.errors import InstallationBroken


def _check_compiled_modules() -> None:
    """Raises InstallationBroken unless the compiled modules exist and were compiled from the
    sources beside them."""
    folder = Path(__file__).parent
    try:
        record: dict[str, str] = json.loads((folder / "compiled.json").read_bytes())
    except (OSError, ValueError):
        record = {}
    for source in sorted(folder.glob("*.py")):
        if source.name in ("__init__.py", "build.py"):
            continue
        digest = hashlib.blake2b(source.read_bytes(), digest_size=16).hexdigest()
        if record.get(source.stem) != digest or not (folder / f"{source.stem}.abi3.so").exists():
            state = "older than its source" if source.stem in record else "missing"
            raise InstallationBroken(
                f"the compiled module of sanitize/kernels/{source.name} is {state}; in a checkout"
                " run `make`, elsewhere `pip install --force-reinstall --no-deps corpus-sanitize`"
            )


_check_compiled_modules()
