"""Seeded corpora of invented mail as Parquet shards, made once and kept outside the repository.

    python -m benchmarks.corpora --mb 500 --dir /somewhere/large

Row groups of 10,000 mails, zstd level 1: typical of published corpora. 500 MB take about 15 seconds
of CPU each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.cli.generated_mails import MAIL_SCHEMA, generate_mail_batches

# measured over 50,000 mails; only decides how many mails make so many MB
BYTES_PER_MAIL = {"dense": 1_831, "sparse": 1_870}
GROUP = 10_000


def corpora_folder() -> Path:
    """The default folder of the corpora."""
    return Path(tempfile.gettempdir()) / "corpus-sanitize-bench"


def build(name: str, mb: int, root: Path, files: int = 8, seed: int = 0) -> dict[str, object]:
    """The corpus `name` (dense or sparse) of about `mb` MB of text, made if it is not there: its
    path, mails and bytes of text."""
    return build_count(name, max(1, round(mb * 1e6 / BYTES_PER_MAIL[name])), root, files, seed)


def build_count(
    name: str, mails: int, root: Path, files: int = 8, seed: int = 0
) -> dict[str, object]:
    """The corpus `name` with a given number of mails."""
    home = root / f"{name}-{mails}-{files}-{seed}"
    record = home.with_suffix(".json")
    if record.exists():
        return dict(json.loads(record.read_text()))
    home.mkdir(parents=True, exist_ok=True)
    groups = -(-mails // GROUP)
    files = min(files, groups)
    text_bytes, group, writer, waiting = 0, 0, None, []
    for batch in generate_mail_batches(mails, seed, dense=name == "dense"):
        waiting.append(batch)
        text_bytes += batch["text"].nbytes - 8 * (len(batch) + 1)
        if sum(map(len, waiting)) < GROUP and group < groups - 1:
            continue
        if group < groups - 1 or sum(map(len, waiting)) == mails - group * GROUP:
            shard = group * files // groups
            if writer is None or group == -(-shard * groups // files):
                if writer is not None:
                    writer.close()
                writer = pq.ParquetWriter(
                    home / f"part-{shard:04d}.parquet",
                    MAIL_SCHEMA,
                    compression="zstd",
                    compression_level=1,
                )
            writer.write_table(pa.Table.from_batches(waiting, MAIL_SCHEMA), row_group_size=GROUP)
            group, waiting = group + 1, []
    assert writer is not None and not waiting and group == groups
    writer.close()
    about = {
        "path": str(home),
        "mails": mails,
        "text_mb": text_bytes / 1e6,
        "parquet_mb": sum(file.stat().st_size for file in home.iterdir()) / 1e6,
        "files": files,
        "seed": seed,
    }
    record.write_text(json.dumps(about))
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=500, help="MB of text in each corpus")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--dir", type=Path, default=corpora_folder())
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in BYTES_PER_MAIL:
        print(json.dumps(build(name, options.mb, options.dir, options.files, options.seed)))


if __name__ == "__main__":
    main()
