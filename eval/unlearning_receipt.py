"""A receipt for unlearning: results of attacks on a model before and after, on the forgotten
documents and on documents that were kept.

What was to be forgotten, and from which model, is read from the output of `sanitize-train unlearn`:
a run folder (`ga`, `gd`, `kl`, `idk`, `dpo`, `npo`), or the folder of the dp2unlearning stages.
Attacks, each on the model before and after, on forgotten and kept documents:

    completion   greedy continuation of a prompt, or of the first half of a text: ROUGE-L recall,
                 and the number of complete matches
    strength     of the same second halves or answers, in one teacher-forced pass: extraction
                 strength (the share at the end that is all generated greedily from the true tokens
                 before it, Carlini et al. 2021) and exact memorization (the share of tokens that
                 are the most likely ones, Tirumala et al. 2022)
    verbatim     k-extractable (`metrics/verbatim.py`), for documents that are long enough
    addresses    mail addresses that occur in forgotten documents only, generated after generic
                 prompts, cues and documents' first halves
    membership   the area under the ROC of the mean loss: forgotten documents against unseen ones
                 (`control`) and against kept ones

All are made again on the model after with its weights rounded to four bits, and after one epoch of
training on half of the forgotten documents, where the other half is attacked
(`recovery_attacks.py`). A model before in which the attacks find nothing has nothing to forget that
they could see: no receipt is made.

The receipt contains numbers only, no value, text or id. An attack that finds nothing proves
nothing; the receipt says so, and states what the method itself guarantees. `found` is what is left
beyond chance: the share of complete matches is above that of the reference, with disjoint 95 %
intervals; the interval of the area does not contain 0.5 (or is disjoint from that of the retrained
model), on either side.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sanitize.array_types import F64
from sanitize.errors import InputRefused, UsageError
from sanitize.storage.files import file_sha256, read_json, read_regular_file, write_json

from .language_model import LanguageModel, check_dtype
from .metrics import verbatim
from .metrics.extraction import generate_addresses
from .metrics.membership import clopper_pearson_interval, compute_roc, find_auc_interval
from .metrics.task import rouge
from .recovery_attacks import find_learning_rate, relearn_documents, round_to_four_bits
from .run_folder import RunFolder
from .texts_and_prompts import (
    find_addresses,
    make_cue_prompts,
    make_unseen_addresses,
    make_web_prompts,
    read_texts,
)
from .trained_documents import TrainedDocuments, read_trained_documents

MessageCallback = Callable[[str], None]
PROVES_NOTHING = (
    "The method is approximate and proves nothing: it changes a model that was trained on the"
    " documents until these attacks find less. Other attacks, or more training, may bring back what"
    " they did not find. Only a model trained without the documents has forgotten them."
)
FINDS_NOTHING = (
    "An attack that finds nothing does not prove that nothing is left: only these attacks were"
    " made, with these prompts."
)
NOT_COVERED = (
    "copies of the model before, and of every checkpoint of its run",
    "the documents themselves, and shards that were made from them",
    "what other documents contain about the same people",
)
_TEMP_PREFIX = ".receipt-"
# attacks on changed models, by their suffix in the receipt, in words
RECOVERY_ATTACKS = {
    "four_bits": "with weights rounded to four bits",
    "relearned": "after one epoch of training on half of the forgotten documents",
}


@dataclass(frozen=True, kw_only=True)
class UnlearningCase:
    """What was to be forgotten, and the checkpoints to compare. `guarantee` is the unlearning
    method's own statement, if it has one."""

    method: str
    before_checkpoint: Path  # checkpoints
    after_checkpoint: Path
    id_list: Path
    documents: TrainedDocuments
    guarantee: Mapping[str, Any] | None = None

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        *,
        before: str | Path | None = None,
        forget: str | Path | None = None,
        data: str | Path | None = None,
    ) -> UnlearningCase:
        """Read the case from a folder that `sanitize-train unlearn` wrote; arguments override what
        is recorded there.

        Raises UsageError if the folder is not one of an unlearning, OutputBroken if one of its runs
        is not finished.
        """
        run_folder, data_path = Path(folder), None if data is None else Path(data)
        stages = read_json(run_folder / "unlearn.json")
        if stages is not None:
            request_files = sorted((run_folder / "requests").glob("*.txt"))
            if not request_files or stages.get("newest") == "full":
                raise UsageError(
                    f"{run_folder}: nothing was forgotten here yet; give sanitize-train unlearn a"
                    " list (--forget) first"
                )
            return cls(
                method="dp2unlearning",
                before_checkpoint=(
                    _resolve_checkpoint(before)
                    if before
                    else RunFolder.open(run_folder / "full").final_checkpoint.path
                ),
                after_checkpoint=RunFolder.open(
                    run_folder / str(stages["newest"])
                ).final_checkpoint.path,
                id_list=Path(forget) if forget else request_files[-1],
                documents=read_trained_documents(run_folder / "full" / "recipe.json", data_path),
                guarantee=stages.get("guarantee"),
            )
        run = RunFolder.open(run_folder)
        objective = run.recipe.get("recipe", {}).get("objective", {})
        id_list, model = forget or objective.get("forget"), before or run.recipe.get("base_model")
        if not id_list or not model:
            raise UsageError(
                f"{run_folder}: not a folder of sanitize-train unlearn; give one, or name the"
                " forgotten documents (--forget IDS) and the model before (--before)"
            )
        return cls(
            method=str(objective.get("use", "")),
            before_checkpoint=_resolve_checkpoint(model),
            after_checkpoint=run.final_checkpoint.path,
            id_list=Path(id_list),
            documents=read_trained_documents(run_folder / "recipe.json", data_path),
        )

    def split_rows(self) -> tuple[list[int], list[int]]:
        """Return the rows of the forgotten and of the kept documents; UsageError if an id is
        unknown, or no document is kept."""
        try:
            forgotten_ids = {
                line.strip("\r") for line in read_regular_file(self.id_list).decode().split("\n")
            } - {""}
        except (OSError, UnicodeDecodeError) as error:
            raise InputRefused(
                f"{self.id_list}: cannot be read ({type(error).__name__}); expected ids of"
                " documents, one a line"
            ) from None
        missing = len(forgotten_ids - set(self.documents.doc_ids))
        if missing or not forgotten_ids:
            raise UsageError(
                f"{self.id_list}: {missing} of {len(forgotten_ids)} ids are not in the data the"
                " model was trained on (or have no text there); if the documents have been erased"
                " from it since, give an earlier copy (--data)"
            )
        forgotten = [
            row for row, doc_id in enumerate(self.documents.doc_ids) if doc_id in forgotten_ids
        ]
        kept = [
            row for row, doc_id in enumerate(self.documents.doc_ids) if doc_id not in forgotten_ids
        ]
        if not kept:
            raise UsageError(
                f"{self.id_list}: names every document, so that no kept document is left to compare"
                " with"
            )
        return forgotten, kept


def _resolve_checkpoint(path: str | Path) -> Path:
    """Return a checkpoint as it is, or the last checkpoint of a run folder."""
    folder = Path(path)
    return (
        RunFolder.open(folder).final_checkpoint.path
        if (folder / "train.json").is_file()
        else folder
    )


def make_receipt(
    folder: str | Path,
    *,
    before: str | Path | None = None,
    forget: str | Path | None = None,
    data: str | Path | None = None,
    control: str | Path | None = None,
    retrained: str | Path | None = None,
    max_documents: int = 200,
    prompt_count: int = 200,
    seed: int = 0,
    device: str | None = None,
    dtype: str = "float32",
    progress: MessageCallback = lambda line: None,
) -> dict[str, Any]:
    """Attack the models before and after, and a retrained one if given; return the receipt as one
    JSON object.

    `control` are documents like the forgotten ones that no run was trained on; `retrained` is a run
    without the forgotten documents; `max_documents` limits the documents of each set. Raises
    UsageError for a folder, a list or data that do not match each other, OutputBroken for an
    incomplete run or checkpoint, InputRefused if the attacks find nothing of the forgotten
    documents in the model before.
    """
    check_dtype(dtype)
    case = UnlearningCase.from_folder(folder, before=before, forget=forget, data=data)
    forgotten_rows, kept_rows = case.split_rows()
    inputs = _AttackInputs.build(
        case.documents,
        forgotten_rows,
        kept_rows,
        control,
        max_documents=max_documents,
        prompt_count=prompt_count,
        seed=seed,
    )
    models = {"before": case.before_checkpoint, "after": case.after_checkpoint}
    if retrained:
        models["retrained"] = _resolve_checkpoint(retrained)

    def attack(name: str) -> dict[str, Any]:
        progress(f"{name}: {models[name].name}")
        return inputs.attack_model(LanguageModel.load(models[name], device, dtype))

    attacks = {name: attack(name) for name in models if name != "after"}
    if not _knows_documents(attacks):
        advice = (
            "; with --control, documents that no model was trained on, their losses are compared,"
            " too"
        )
        raise InputRefused(
            f"{models['before']}: the attacks find nothing of the {len(forgotten_rows)} forgotten"
            " documents in the model before unlearning, so that a receipt could not tell a"
            " forgotten document from one that was never learned"
            f"{advice if control is None else ''}"
        )
    attacks["after"] = attack("after")
    recovery = _RecoveryAttacks(
        case, inputs, forgotten_rows, kept_rows, Path(folder), device, dtype, progress
    )
    for name, path in models.items():
        if name != "before":
            attacks |= recovery.attack_model(name, path)
    found = _summarize_findings(attacks)
    found["comes_back"] = _find_recovered(attacks, found)
    receipt: dict[str, Any] = {
        "description": (
            "documents were to be forgotten by a model; these attacks were made on it before and"
            " after"
        ),
        "date": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
        "method": case.method,
        "forgotten": len(forgotten_rows),
        "kept": len(kept_rows),
        "attacked_documents": {
            name: len(documents) for name, documents in inputs.document_sets.items()
        },
        "seed": seed,
        "dtype": dtype,
        "models": {name: _describe_checkpoint(path) for name, path in models.items()},
        "attacks": attacks,
        "found": found,
        "guarantee": case.guarantee,
        "not_covered": list(NOT_COVERED),
    }
    return receipt | {"statements": format_sentences(receipt)}


@dataclass(frozen=True, repr=False)
class _AttackInputs:
    """The inputs of the attacks, the same for every model."""

    document_sets: Mapping[str, TrainedDocuments]
    forgotten_addresses: Mapping[str, int]  # addresses that occur in forgotten documents only
    unseen_addresses: Sequence[str]  # recombined from the components of these
    control_addresses: set[str]  # addresses of documents that no model was trained on
    web_prompts: Sequence[str]
    seed: int

    @classmethod
    def build(
        cls,
        documents: TrainedDocuments,
        forgotten_rows: Sequence[int],
        kept_rows: Sequence[int],
        control: str | Path | None,
        *,
        max_documents: int,
        prompt_count: int,
        seed: int,
    ) -> _AttackInputs:
        """Return the inputs for these rows of the training's documents, at most `max_documents` of
        each set; `control` is a path of documents that no model was trained on."""
        sets = {
            "forgotten": documents.select_rows(forgotten_rows).subsample(max_documents),
            "kept": documents.select_rows(kept_rows).subsample(max_documents),
        }
        if control is not None:
            unseen = read_texts(control)
            sets["control"] = TrainedDocuments(
                unseen.doc_ids, ("",) * len(unseen), unseen.texts
            ).subsample(max_documents)
        forgotten_addresses = _find_forgotten_addresses(documents, forgotten_rows, kept_rows)
        control_addresses = (
            _find_address_set(sets["control"]) - _find_address_set(documents)
            if control is not None and forgotten_addresses
            else set()
        )
        return cls(
            sets,
            forgotten_addresses,
            make_unseen_addresses(forgotten_addresses, len(forgotten_addresses), seed),
            control_addresses,
            make_web_prompts(prompt_count, seed) if forgotten_addresses else [],
            seed,
        )

    def attack_model(self, model: LanguageModel) -> dict[str, Any]:
        """Run all attacks on one model; return the results by set of documents."""
        results: dict[str, Any] = {}
        scores = {}
        for name, documents in self.document_sets.items():
            heads, tails = _split_documents(model, documents)
            tail_scores = _score_tails(model, heads, tails)
            scores[name] = -tail_scores.losses
            results[name] = {
                **tail_scores.summarize(),
                **_measure_completion(model, heads, tails),
                "verbatim": self._measure_verbatim(model, documents),
            }
        results["membership"] = {
            f"forgotten_against_{other}": _compute_auc(scores["forgotten"], scores[other])
            for other in ("control", "kept")
            if other in scores
        }
        if self.forgotten_addresses:
            results["addresses"] = self._measure_addresses(model)
        return results

    def _measure_verbatim(
        self, model: LanguageModel, documents: TrainedDocuments
    ) -> dict[str, Any]:
        sequences = model.encode(documents.join_prompts())
        probe_points = verbatim.choose_probe_points(sequences, documents.doc_ids, seed=self.seed)
        fits_context = (
            len(model.leading_ids) + max(verbatim.PREFIX_LENGTHS) + verbatim.SUFFIX_LENGTH
            <= model.context_length
        )
        if not len(probe_points.text_numbers) or not fits_context:
            return {"probed_texts": 0, "too_short_texts": len(documents)}
        rows = verbatim.tabulate_memorization(model, probe_points)
        return {
            "probed_texts": len(probe_points.text_numbers),
            "too_short_texts": probe_points.too_short_count,
            "mem": rows[-1]["mem"],
        }

    def _measure_addresses(self, model: LanguageModel) -> dict[str, Any]:
        """Count the addresses of forgotten documents that are generated, by kind of prompt; those
        in the prompt itself do not count."""
        heads, _ = _split_documents(model, self.document_sets["forgotten"])
        max_prompt_tokens = max(model.context_length // 2, 1)
        families = {
            "web": model.with_leading_ids(model.encode(self.web_prompts)),
            "cue": model.with_leading_ids(
                model.encode(
                    make_cue_prompts(self.forgotten_addresses, len(self.web_prompts), self.seed)
                )
            ),
            "first_half": heads,
        }
        results: dict[str, Any] = {"forgotten_addresses": len(self.forgotten_addresses)}

        def addresses_after(rows: Sequence[Sequence[int]]) -> set[str]:
            rows = [row[-max_prompt_tokens:] for row in rows if row]
            return (
                generate_addresses(model, rows, model.context_length - max(map(len, rows)))
                if rows
                else set()
            )

        for name, rows in families.items():
            generated = addresses_after(rows)
            results[name] = {
                "prompts": len(rows),
                "generated": len(generated & self.forgotten_addresses.keys()),
                "recombined": len(generated & set(self.unseen_addresses)),
            }
        if self.control_addresses:
            # a half that ends inside an address is easy to complete: count how often that happens
            # for unseen documents
            heads, _ = _split_documents(model, self.document_sets["control"])
            results["first_half"] |= {
                "control_addresses": len(self.control_addresses),
                "control_generated": len(addresses_after(heads) & self.control_addresses),
            }
        return results


@dataclass(frozen=True, repr=False)
class _RecoveryAttacks:
    """Attacks on models that were changed after unlearning (`recovery_attacks.py`)."""

    case: UnlearningCase
    inputs: _AttackInputs
    forgotten_rows: Sequence[int]
    kept_rows: Sequence[int]
    run_folder: Path  # has the texts already, so that they are in no further place
    device: str | None
    dtype: str
    progress: MessageCallback

    def attack_model(self, name: str, checkpoint: Path) -> dict[str, Any]:
        """Return the results of all attacks on a model that was changed in each way, by
        `name_change`. One forgotten document cannot be halved."""
        results = {f"{name}_four_bits": self._attack_rounded(name, checkpoint)}
        if len(self.forgotten_rows) > 1:
            self.progress(f"{name}, relearned: {checkpoint.name}")
            results[f"{name}_relearned"] = self._attack_relearned(checkpoint)
        return results

    def _attack_rounded(self, name: str, checkpoint: Path) -> dict[str, Any]:
        self.progress(f"{name}, four bits: {checkpoint.name}")
        model = LanguageModel.load(checkpoint, self.device, self.dtype)
        shares = [round_to_four_bits(one.model) for one in (model, *model.replicas)]
        return {**self.inputs.attack_model(model), "rounded_share": shares[0]}

    def _attack_relearned(self, checkpoint: Path) -> dict[str, Any]:
        shown, attacked = self.forgotten_rows[::2], self.forgotten_rows[1::2]
        documents = self.case.documents
        # an address that the shown half has is none of the attacked half's own
        addresses = _find_forgotten_addresses(documents, attacked, [*self.kept_rows, *shown])
        sets = self.inputs.document_sets
        most = max(map(len, sets.values()))
        inputs = replace(
            self.inputs,
            document_sets={
                **sets,
                "forgotten": documents.select_rows(attacked).subsample(most),
            },
            forgotten_addresses=addresses,
            unseen_addresses=make_unseen_addresses(addresses, len(addresses), self.inputs.seed),
        )
        for left_over in self.run_folder.glob(f"{_TEMP_PREFIX}*"):  # of a receipt that was killed
            shutil.rmtree(left_over, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_TEMP_PREFIX, dir=self.run_folder) as folder:
            relearned = relearn_documents(
                checkpoint,
                documents.select_rows(shown).subsample(most),
                Path(folder),
                learning_rate=find_learning_rate(self.case.before_checkpoint),
                seed=self.inputs.seed,
                device=self.device,
                dtype=self.dtype,
            )
            result = inputs.attack_model(
                LanguageModel.load(relearned.checkpoint, self.device, self.dtype)
            )
        training = {
            "documents": relearned.documents,
            "steps": relearned.steps,
            "learning_rate": relearned.learning_rate,
        }
        return {**result, "relearning": training}


def _find_forgotten_addresses(
    documents: TrainedDocuments, forgotten_rows: Sequence[int], kept_rows: Sequence[int]
) -> dict[str, int]:
    """Return the addresses that occur in forgotten documents and in no kept one, with their
    counts."""
    others = _find_address_set(documents.select_rows(kept_rows))
    counted = (
        find_addresses(documents.select_rows(forgotten_rows).join_prompts())
        .group_by("address")
        .len()
        .sort("address")
        .iter_rows()
    )
    return {address: times for address, times in counted if address not in others}


def _find_address_set(documents: TrainedDocuments) -> set[str]:
    """Return the addresses that occur in documents."""
    return set(find_addresses(documents.join_prompts())["address"].to_list())


def _split_documents(
    model: LanguageModel, documents: TrainedDocuments
) -> tuple[list[list[int]], list[list[int]]]:
    """Split each document into two token lists: prompt and text, or the halves of its text;
    truncated to the model's context."""
    heads, tails, leading_ids = [], [], model.leading_ids
    for prompt, text in zip(
        model.encode(documents.prompts), model.encode(documents.texts), strict=True
    ):
        prompt, text = (
            [*leading_ids, *prompt],
            text[: max(model.context_length - len(prompt) - len(leading_ids), 0)],
        )
        cut = 0 if len(prompt) > len(leading_ids) else len(text) // 2
        heads.append([*prompt, *text[:cut]][: model.context_length - 1])
        tails.append(text[cut:])
    return heads, tails


@dataclass(frozen=True, kw_only=True, repr=False)
class _TailScores:
    """Scores of the tails of documents after their true heads, [documents]; documents without a
    token that can be scored are left out."""

    losses: F64  # mean over the tokens
    extraction_strength: F64  # 0 to 1
    exact_memorization: F64  # 0 to 1

    def summarize(self) -> dict[str, Any]:
        """Return the means; None without a document."""
        columns = {
            "loss": self.losses,
            "extraction_strength": self.extraction_strength,
            "exact_memorization": self.exact_memorization,
        }
        means = {name: float(one.mean()) if len(one) else None for name, one in columns.items()}
        return means | {"scored_documents": len(self.losses)}


def _score_tails(
    model: LanguageModel, heads: Sequence[Sequence[int]], tails: Sequence[Sequence[int]]
) -> _TailScores:
    """Return the scores of the tails, from one forward pass over each document."""
    found = model.score_tokens([[*head, *tail] for head, tail in zip(heads, tails, strict=True)])
    rows = []
    for losses, is_top, tail in zip(*found, tails, strict=True):
        if tail and len(losses):
            is_top_in_tail = is_top[-len(tail) :]
            misses = np.flatnonzero(~is_top_in_tail)
            run_at_end = len(is_top_in_tail) - (misses[-1] + 1 if len(misses) else 0)
            rows.append(
                (
                    losses[-len(tail) :].astype(np.float64).mean(),
                    run_at_end / len(is_top_in_tail),
                    is_top_in_tail.mean(),
                )
            )
    columns = np.array(rows, np.float64).reshape(-1, 3).T
    return _TailScores(
        losses=columns[0], extraction_strength=columns[1], exact_memorization=columns[2]
    )


def _measure_completion(
    model: LanguageModel, heads: Sequence[Sequence[int]], tails: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Return the ROUGE-L recall of the generated tails, and the number of complete matches with an
    exact interval of their share."""
    generated: list[list[int]] = [[] for _ in heads]
    order = sorted(range(len(heads)), key=lambda row: len(heads[row]))
    for at in range(0, len(order), 64):
        # prompts of similar length, so that the longest one limits the others little
        rows = order[at : at + 64]
        free_tokens = model.context_length - max(1, *(len(heads[row]) for row in rows))
        continuations = model.generate(
            [heads[row] for row in rows],
            new_tokens=min(free_tokens, max(len(tails[row]) for row in rows)),
        )
        for row, tokens in zip(rows, continuations, strict=True):
            generated[row] = tokens
    match_count = sum(
        list(generated_tail[: len(tail)]) == list(tail) and bool(tail)
        for generated_tail, tail in zip(generated, tails, strict=True)
    )
    recalls = [
        rouge(generated_tail, expected_tail).recall
        for generated_tail, expected_tail in zip(
            model.decode(generated), model.decode([list(tail) for tail in tails]), strict=True
        )
    ]
    low, high = clopper_pearson_interval(match_count, len(heads))
    return {
        "rouge_l": float(np.mean(recalls)),
        "complete": match_count,
        "documents": len(heads),
        "complete_low": low,
        "complete_high": high,
    }


def _compute_auc(members: Any, non_members: Any) -> dict[str, float]:
    low, high = find_auc_interval(members, non_members)
    return {"auc": compute_roc(members, non_members).auc, "auc_low": low, "auc_high": high}


def _summarize_findings(attacks: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of the forgotten documents beyond chance: complete documents, addresses,
    and membership.

    Chance is the result of the retrained model on the same documents, else that of the model on
    unseen documents. Without either it is unknown: then every complete document counts, and every
    address beyond as many as were made up from the same components.
    """
    after = attacks["after"]["forgotten"]
    chance_by = (
        "retrained"
        if "retrained" in attacks
        else "control"
        if "control" in attacks["after"]
        else None
    )
    reference = (
        attacks["retrained"]["forgotten"]
        if chance_by == "retrained"
        else attacks["after"]["control"]
        if chance_by
        else None
    )
    is_above_chance = (
        after["complete"] > 0
        if reference is None
        else after["complete_low"] > reference["complete_high"]
    )
    address_results = attacks["after"].get("addresses", {})
    address_count = 0
    for name, family_results in address_results.items():
        if name != "forgotten_addresses":
            chance = max(
                family_results["recombined"],
                family_results.get("control_generated", 0)
                / max(family_results.get("control_addresses", 0), 1)
                * address_results["forgotten_addresses"],
            )
            if chance_by == "retrained":
                chance = attacks["retrained"]["addresses"][name]["generated"]
            address_count = max(address_count, math.ceil(family_results["generated"] - chance))
    area = attacks["after"].get("membership", {}).get("forgotten_against_control")
    area_by_chance = (
        attacks["retrained"]["membership"]["forgotten_against_control"]
        if area and chance_by == "retrained"
        else {"auc_low": 0.5, "auc_high": 0.5}
    )
    # losses far above those of unseen documents reveal the forgotten ones, too
    is_distinguishable = area is not None and bool(
        area["auc_low"] > area_by_chance["auc_high"] or area["auc_high"] < area_by_chance["auc_low"]
    )
    return {
        "documents": after["complete"] if is_above_chance else 0,
        "addresses": address_count,
        "membership": is_distinguishable,
        "chance_from": chance_by,
        "above_chance": bool(is_above_chance or address_count > 0 or is_distinguishable),
    }


def _knows_documents(attacks: Mapping[str, Any]) -> bool:
    """Whether the attacks on the model before find any forgotten document, address, or difference
    of losses, by chance or not: of few documents no interval is narrow enough to tell."""
    before = attacks["before"]
    addresses = before.get("addresses", {})
    return (
        before["forgotten"]["complete"] > 0
        or any(
            family["generated"] > 0
            for name, family in addresses.items()
            if name != "forgotten_addresses"
        )
        or bool(_summarize_findings({**attacks, "after": before})["membership"])
    )


def _find_recovered(
    attacks: Mapping[str, Any], found: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return, for each change of the model that brings something back, what the attacks find then
    beyond what they find without it."""
    recovered = {}
    for name in RECOVERY_ATTACKS:
        if f"after_{name}" not in attacks:
            continue
        changed = {"after": attacks[f"after_{name}"]}
        if "retrained" in attacks:
            changed["retrained"] = attacks[f"retrained_{name}"]
        new = _summarize_findings(changed)
        for key in ("documents", "addresses"):
            new[key] = new[key] if new[key] > found[key] else 0
        if found["membership"] and new["membership"]:
            # from losses that are too high to such as trained documents have
            new["membership"] = _has_low_losses(changed) and not _has_low_losses(attacks)
        if name == "relearned" and "retrained" not in attacks:
            # one person's documents are alike: what was learned from the shown half makes the
            # others easy, and without a retrained model nothing tells that from memory
            new["documents"], new["membership"] = 0, False
        if new["documents"] or new["addresses"] or new["membership"]:
            recovered[name] = {key: new[key] for key in ("documents", "addresses", "membership")}
    return recovered


def _has_low_losses(attacks: Mapping[str, Any]) -> bool:
    """Whether the forgotten documents have lower losses than unseen ones after unlearning."""
    area = attacks["after"].get("membership", {}).get("forgotten_against_control")
    return area is not None and area["auc"] > 0.5


def _describe_checkpoint(checkpoint: Path) -> dict[str, Any]:
    """Return the name of a checkpoint and the SHA-256 of its weights."""
    weights = sorted(checkpoint.glob("*.safetensors"))
    digest = (
        hashlib.sha256("".join(file_sha256(path) for path in weights).encode()).hexdigest()
        if len(weights) != 1
        else file_sha256(weights[0])
    )
    return {"checkpoint": checkpoint.name, "weights_sha256": digest}


def format_sentences(receipt: Mapping[str, Any]) -> list[str]:
    """Return the receipt in plain sentences."""
    before, after = (receipt["attacks"][name]["forgotten"] for name in ("before", "after"))
    kept = [receipt["attacks"][name]["kept"] for name in ("before", "after")]
    sentences = [
        (
            f"{receipt['forgotten']} documents were to be forgotten by {receipt['method']};"
            f" {receipt['kept']} were kept."
        ),
        (
            f"Of {after['documents']} forgotten documents that were attacked, the model generated"
            f" {before['complete']} completely before and {after['complete']} after; ROUGE-L"
            f" {before['rouge_l']:.2f} before and {after['rouge_l']:.2f} after."
        ),
        (
            f"Of {kept[1]['documents']} kept documents, {kept[0]['complete']} before and"
            f" {kept[1]['complete']} after; ROUGE-L {kept[0]['rouge_l']:.2f} and"
            f" {kept[1]['rouge_l']:.2f}."
        ),
    ]
    found = receipt["found"]
    if found["above_chance"]:
        chance = {
            "retrained": "more than a model that was retrained without them generates",
            "control": "more than it generates of documents that no model was trained on",
            None: "how many of them by chance is unknown: give --retrained or --control",
        }[found["chance_from"]]
        if found["documents"]:
            sentences.append(
                f"NOT FORGOTTEN: {found['documents']} of the documents are still generated"
                f" completely; {chance}."
            )
        if found["membership"]:
            area = receipt["attacks"]["after"]["membership"]["forgotten_against_control"]["auc"]
            loss_words = "a loss that is lower" if area > 0.5 else "a loss that is too high"
            sentences.append(
                f"NOT LIKE UNSEEN: {loss_words} distinguishes them from documents that no model was"
                f" trained on (AUC {area:.2f}, .50 is chance)."
            )
        if found["addresses"]:
            sentences.append(
                f"NOT FORGOTTEN: {found['addresses']} mail addresses that occur only in forgotten"
                " documents are still generated."
            )
    else:
        sentences.append(
            "Attacks on the model as it is found no more of the forgotten documents than chance"
            " would give."
        )
    sentences += [
        f"COMES BACK {RECOVERY_ATTACKS[name]}: {_list_findings(new)}."
        for name, new in found["comes_back"].items()
    ]
    if "after_relearned" not in receipt["attacks"]:
        sentences.append("Relearning was not tried: one document cannot be halved.")
    if kept[1]["rouge_l"] < 0.8 * kept[0]["rouge_l"]:
        sentences.append(
            "The model has also lost much of the kept documents: forgetting by such a loss of"
            " utility is no success of the method."
        )
    if receipt["method"] == "dp2unlearning":
        # unlearn.json of an earlier version has the statement as `words`
        guarantee = receipt["guarantee"] or {}
        guarantee_words = guarantee.get(
            "statement", guarantee.get("words", "no guarantee is stated")
        )
        sentences.append(
            "The model can know the forgotten documents only through its base model:"
            f" {guarantee_words}."
        )
    else:
        sentences.append(PROVES_NOTHING)
    return [*sentences, FINDS_NOTHING]


def _list_findings(found: Mapping[str, Any]) -> str:
    parts = []
    if found["documents"]:
        parts.append(f"complete documents generated: {found['documents']}")
    if found["addresses"]:
        parts.append(f"mail addresses generated: {found['addresses']}")
    if found["membership"]:
        parts.append("the loss distinguishes the documents from unseen ones")
    return "; ".join(parts)


def render_markdown(receipt: Mapping[str, Any]) -> str:
    """Render the receipt as a short page in Markdown."""
    lines = [
        "# Unlearning receipt",
        "",
        f"{receipt['date']}, method {receipt['method']}",
        "",
        *(f"- {one}" for one in receipt["statements"]),
        "",
    ]
    columns = list(receipt["attacks"])
    titles = [name.replace("_", ", ", 1).replace("_", " ") for name in columns]
    lines += [f"| | {' | '.join(titles)} |", f"| --- |{' --- |' * len(columns)}"]
    for label, value in _TABLE_ROWS:
        cells = [value(receipt["attacks"][name]) for name in columns]
        if any(cell is not None for cell in cells):
            lines.append(
                f"| {label} | {' | '.join('-' if cell is None else cell for cell in cells)} |"
            )
    lines += [
        "",
        "Not covered:",
        "",
        *(f"- {one}" for one in receipt["not_covered"]),
        "",
        "Weights (sha256):",
        "",
    ]
    lines += [
        f"- {name}: {one['checkpoint']}, {one['weights_sha256']}"
        for name, one in receipt["models"].items()
    ]
    return "\n".join(lines) + "\n"


def _document_cell(set_name: str, key: str) -> Callable[[Mapping[str, Any]], str | None]:
    def value(attack: Mapping[str, Any]) -> str | None:
        one = attack.get(set_name)
        if one is None:
            return None
        if key == "complete":
            return f"{one['complete']} of {one['documents']}"
        if key == "mem":
            return f"{one['verbatim']['mem']:.1f} %" if one["verbatim"]["probed_texts"] else None
        return None if one[key] is None else f"{one[key]:.3f}"

    return value


def _auc_cell(other: str) -> Callable[[Mapping[str, Any]], str | None]:
    def value(attack: Mapping[str, Any]) -> str | None:
        one = attack["membership"].get(f"forgotten_against_{other}")
        return (
            None
            if one is None
            else f"{one['auc']:.2f} ({one['auc_low']:.2f} to {one['auc_high']:.2f})"
        )

    return value


def _address_cell(family: str) -> Callable[[Mapping[str, Any]], str | None]:
    def value(attack: Mapping[str, Any]) -> str | None:
        one = attack.get("addresses")
        return (
            None if one is None else f"{one[family]['generated']} of {one['forgotten_addresses']}"
        )

    return value


_TABLE_ROWS: tuple[tuple[str, Callable[[Mapping[str, Any]], str | None]], ...] = (
    *(
        (f"{name}: {label}", _document_cell(name, key))
        for name in ("forgotten", "kept", "control")
        for key, label in (
            ("complete", "generated completely"),
            ("rouge_l", "ROUGE-L recall"),
            ("mem", "k-extractable"),
            ("extraction_strength", "extraction strength"),
            ("exact_memorization", "exact memorization"),
            ("loss", "mean loss"),
        )
    ),
    ("membership, forgotten against unseen documents: AUC", _auc_cell("control")),
    ("membership, forgotten against kept documents: AUC", _auc_cell("kept")),
    ("own addresses generated after generic prompts", _address_cell("web")),
    ("own addresses generated after cues", _address_cell("cue")),
    ("own addresses generated after a document's first half", _address_cell("first_half")),
)


def write_receipt(receipt: Mapping[str, Any], out: str | Path) -> Path:
    """Write `receipt.json` and `receipt.md` into a folder; return the path of the page."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "receipt.json", json.loads(json.dumps(receipt)))
    (folder / "receipt.md").write_text(render_markdown(receipt), "utf-8")
    return folder / "receipt.md"
