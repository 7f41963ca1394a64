"""Records or checks the hashes of everything that the shipped plans emit on real corpora: a
regression test for refactorings.

    python -m benchmarks.output_hashes            compare with
                                                  benchmarks/results/output_hashes.json; exit 1
                                                  where something differs
    python -m benchmarks.output_hashes --record   write that file
    python -m benchmarks.output_hashes --record --only strict   write the cases whose name holds this text, and leave the others as they are

Runs every shipped plan, `stream`, an append and an erasure with `--seed 7` over slices of four
corpora of ../shared/data: enron, spamassassin, linux-man, and prompts in the form of chat
`messages`. For each it records the SHA-256 of every published shard, and of the row content of
every table in the private folder: column types and values in order, without names of columns, so
that a renamed column keeps its hash. `RENAMED` says which folder of tables has another name since
the hashes were recorded.

Takes about five CPU-minutes. Hashes hold for the versions in constraints.txt; `dp_mlm` draws with a
tiny model that is built here, whose logits depend on the version of torch as well.
"""  # noqa: E501

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
RECORDED = ROOT / "benchmarks" / "results" / "output_hashes.json"
PLANS = (
    "baseline",
    "blacklist",
    "dp_mlm",
    "header_dedup",
    "mask_words",
    "names",
    "pseudonymize",
    "redact",
    "rmft",
    "strict",
    "surrogates",
)
STREAMED = ("rmft", "surrogates", "redact")
MAILS = {
    "enron": "enron.parquet",
    "spamassassin": "spamassassin.parquet",
    "linux-man": "linux-man.parquet",
}
ADDRESS = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9-]+\.[A-Za-z.-]*[A-Za-z]")
# folder of tables when the hashes were recorded -> its name now
RENAMED = {
    "tables/ids": "tables/document_ids",
    "runs/*/counts/0-firsts": "runs/*/counts/0-first_occurrences",
    "runs/*/counts/0-known_values": "runs/*/counts/0-distinct_values_of_kinds",
    "runs/*/counts/0-part_stores": "runs/*/counts/0-component_pools",
    "runs/*/looks/edit-0/places": "runs/*/corpus_passes/edit-0/header_occurrences",
    "documents/aside": "documents/quarantined",
    "quarantine/find": "quarantine/detect",
    "rounds": "first_round",
    "rounds/links": "first_round/links",
    "rounds/occurrences": "first_round/occurrences",
    "rounds/partial_counts": "first_round/partial_counts",
    "rounds/skipped": "first_round/skipped",
    "vault/rounds": "vault/first_round",
    "vault/rounds/values": "vault/first_round/values",
    "runs/*/forget/gone": "runs/*/erasure/documents",
    "runs/*/forget/mentions": "runs/*/erasure/mentions",
    "runs/*/looks": "runs/*/corpus_passes",
    "runs/*/looks/edit-0": "runs/*/corpus_passes/edit-0",
    "runs/*/said": "runs/*/replacement_forms",
    "runs/*/stage": "runs/*/shards",
}


def write_corpora(folder: Path) -> dict[str, list[str]]:
    """Writes the slices of the corpora, two files each, and returns the options that each corpus
    needs.

    A stream reads strings only, so each corpus is written a second time with its mails decoded
    (`NAME-texts`).
    """
    options = {}
    for name, file in MAILS.items():
        mails = pq.read_table(DATA / "mail" / file).slice(0, 360)
        mails = mails.select(["h_from", "h_subject", "raw"])
        # the ids of a corpus may be paths with names of people, for which a plan that removes names
        # refuses to publish
        mails = mails.append_column(
            "id", pa.array([f"{name}-{row}" for row in range(mails.num_rows)])
        )
        _write_halves(mails, folder / name)
        texts = pa.array(
            [raw.decode("utf-8", "replace") for raw in mails.column("raw").to_pylist()],
            pa.large_string(),
        )
        _write_halves(
            mails.drop_columns("raw").append_column("raw", texts), folder / f"{name}-texts"
        )
        options[name] = ["--text-column", "raw", "--user-column", "h_from", "--id-column", "id"]
    prompts = [
        json.loads(line)
        for line in (DATA / "pii" / "pupa_new.jsonl").read_text("utf-8").splitlines()
    ]
    pairs = zip(prompts[::2], prompts[1::2], strict=False)
    chats = [
        {
            "id": first["id"],
            "user": f"user-{number % 40}",
            "messages": [
                {"role": "user", "content": first["text"]},
                {"role": "assistant", "content": second["text"]},
            ],
        }
        for number, (first, second) in enumerate(pairs)
    ]
    for name in ("messages", "messages-texts"):
        _write_halves(pa.Table.from_pylist(chats), folder / name)
    options["messages"] = [
        "--text-column",
        "messages[].content",
        "--user-column",
        "user",
        "--id-column",
        "id",
    ]
    return options


def _write_halves(table: pa.Table, folder: Path) -> None:
    folder.mkdir()
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), folder / "a.parquet")
    pq.write_table(table.slice(half), folder / "b.parquet")


def write_model(folder: Path) -> Path:
    """Writes a masked language model of two layers with random weights and a vocabulary of invented
    words."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    from sanitize.core.exponential_mechanism import ClipBounds

    torch.manual_seed(1)
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    words = (
        "ada bob carol dan write call meet today river garden lamp stone bridge letter number red"
        " blue green one two three".split()
    )
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{letter}" for letter in letters),
        *words,
    ]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    built = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    built.normalizer = normalizers.BertNormalizer(lowercase=True)
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=built,
        model_max_length=160,
        **{f"{name}_token": text for name, text in special.items()},
    )
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=len(vocabulary), max_position_embeddings=160, initializer_range=0.4, **shape
        )
    )
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    ClipBounds(-2.0, 2.0, "invented constants", "public").write(folder)
    return folder


def sanitize(*words: object, cwd: Path) -> None:
    """Runs the command line in a folder; raises RuntimeError with the exit code and the last line
    of standard error."""
    ended = subprocess.run(
        [sys.executable, "-m", "sanitize", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if ended.returncode:
        raise RuntimeError(
            f"sanitize {words[0]} in {cwd.name}: exit {ended.returncode}:"
            f" {ended.stderr.strip().splitlines()[-1:]}"
        )


def run_case(
    folder: Path, corpus: str, case: str, options: list[str], model: Path
) -> dict[str, dict[str, str]]:
    """The hashes of one case: `shards` and `tables`, by path."""
    here = folder / f"{corpus}-{case}"
    here.mkdir()
    inputs, seed = folder / corpus, ["--seed", 7, "--quiet"]
    main = ["--rows-per-shard", 60, *options, *seed, "--max-quarantine", "100%"]
    if case == "append":
        # a check refuses an append whose files hold a value that the finders missed in an earlier
        # shard
        main += [
            "--verify",
            "off",
        ]
        first = ("--plan", "rmft")  # the append continues with it
        sanitize("run", inputs / "a.parquet", "-o", "out", *first, *main, cwd=here)
        sanitize(
            "run",
            inputs / "a.parquet",
            inputs / "b.parquet",
            "-o",
            "out",
            "--append",
            *main,
            cwd=here,
        )
    elif case == "erasure":
        sanitize("run", inputs, "-o", "out", "--plan", "names", *main, cwd=here)
        (here / "match.txt").write_text("\n".join(frequent_values(inputs)) + "\n", "utf-8")
        sanitize("subject", "out.private", "--match", "match.txt", "--erase", *seed, cwd=here)
    elif case.startswith("stream-"):
        plan = [
            "--plan",
            case.removeprefix("stream-"),
            *options,
            *seed,
            "--max-quarantine",
            "100%",
            "--batch",
            50,
        ]
        sanitize(
            "stream",
            folder / f"{corpus}-texts",
            "-o",
            "out/data.jsonl",
            *plan,
            cwd=_with(here / "out"),
        )
    elif case == "dp_mlm":
        few = here / "few.parquet"
        pq.write_table(pq.read_table(inputs / "a.parquet").slice(0, 12), few)
        sanitize(
            "run",
            few,
            "-o",
            "out",
            "--plan",
            case,
            "--set",
            f"edit.0.model={model}",
            *main,
            cwd=here,
        )
    else:
        sanitize("run", inputs, "-o", "out", "--plan", case, *main, cwd=here)
    data = here / "out"
    files = sorted(path for path in data.rglob("*") if path.suffix in (".parquet", ".jsonl"))
    return {
        "shards": {
            path.relative_to(data).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        },
        "tables": table_hashes(here / "out.private"),
    }


def _with(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder.parent


def frequent_values(inputs: Path) -> list[str]:
    """The two addresses that occur most often in a corpus: what the erasure case erases."""
    counted: Counter[str] = Counter()
    for path in sorted(inputs.iterdir()):
        for row in pq.read_table(path).to_pylist():
            text = (
                row["raw"].decode("utf-8", "replace")
                if "raw" in row
                else json.dumps(row["messages"])
            )
            counted.update(address.lower() for address in ADDRESS.findall(text))
    return [
        address
        for address, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:2]
    ]


def table_hashes(private: Path) -> dict[str, str]:
    """One hash for each folder of tables below a private folder, over its files in the order of
    their names."""
    found: dict[str, Any] = {}
    for path in sorted(private.rglob("*.parquet")):
        name = path.parent.relative_to(private).as_posix()
        name = re.sub(r"^runs/[0-9a-f]+/", "runs/*/", name)
        if name.endswith("/counts"):
            name += "/" + path.stem
        found.setdefault(name, hashlib.sha256()).update(row_content(pq.ParquetFile(path).read()))
    return {name: digest.hexdigest() for name, digest in sorted(found.items())}


def row_content(table: pa.Table) -> bytes:
    """The types and values of a table's columns, in order, without their names."""
    digest = hashlib.sha256()
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = str(column.type) if not pa.types.is_nested(column.type) else "nested"
        digest.update(kind.encode())
        for value in column.to_pylist():
            digest.update(repr(_unnamed(value)).encode("utf-8", "backslashreplace") + b"\n")
    return digest.digest()


def _unnamed(value: object) -> object:
    """A value without the names of struct fields."""
    if isinstance(value, dict):
        return tuple(_unnamed(inner) for inner in value.values())
    return [_unnamed(inner) for inner in value] if isinstance(value, list) else value


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """One line for each case, shard or table that is missing, new or of another content."""
    for case in sorted(recorded.keys() | found.keys()):
        if case not in recorded or case not in found:
            yield f"{case}: {'not recorded' if case in found else 'missing'}"
            continue
        for what in ("shards", "tables"):
            was = {RENAMED.get(name, name): value for name, value in recorded[case][what].items()}
            now = found[case][what]
            for name in sorted(was.keys() | now.keys()):
                if was.get(name) != now.get(name):
                    state = (
                        "missing"
                        if name not in now
                        else "not recorded"
                        if name not in was
                        else "differs"
                    )
                    yield f"{case}: {what}: {name}: {state}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--record", action="store_true", help="write the hashes instead of comparing them"
    )
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    chosen = parser.parse_args()
    if not DATA.is_dir():
        print(
            f"{DATA}: is missing; these hashes are of corpora that are not part of the repository"
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="output-hashes-") as temporary:
        folder = Path(temporary)
        options = write_corpora(folder)
        model = write_model(folder / "model")
        cases = [*PLANS, "append", "erasure", *(f"stream-{plan}" for plan in STREAMED)]
        wanted = [
            (corpus, case)
            for corpus in options
            for case in cases
            if chosen.only in f"{corpus}/{case}"
        ]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = {
                f"{corpus}/{case}": pool.submit(
                    run_case, folder, corpus, case, options[corpus], model
                )
                for corpus, case in wanted
            }
            concurrent.futures.wait(jobs.values(), return_when=concurrent.futures.FIRST_EXCEPTION)
            pool.shutdown(cancel_futures=True)
            found = {name: job.result() for name, job in jobs.items()}
    if chosen.record:
        kept = json.loads(RECORDED.read_text("utf-8")) if chosen.only else {}
        order = [f"{corpus}/{case}" for corpus in options for case in cases]
        merged = {**kept, **found}
        RECORDED.write_text(
            json.dumps({name: merged[name] for name in order if name in merged}, indent=1) + "\n",
            "utf-8",
        )
        print(f"{len(found)} cases recorded")
        return 0
    recorded = {
        name: entry
        for name, entry in json.loads(RECORDED.read_text("utf-8")).items()
        if chosen.only in name
    }
    lines = list(differences(recorded, found))
    print(
        "\n".join(lines)
        if lines
        else (
            f"{len(found)} cases, {sum(len(one['shards']) for one in found.values())} shards: all"
            " as recorded"
        )
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
