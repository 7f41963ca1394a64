"""A receipt for forgetting: what attacks got of the forgotten documents before and after, and of documents that were kept.

What was asked to be forgotten, from which model, is read from what `sanitize-train unlearn` left: a run folder (`ga`, `gd`, `kl`, `idk`,
`dpo`), or the folder of dp2unlearning's stages. Four attacks, each on the model before and after, on forgotten and kept documents:

    completion   the answer after its prompt, or the second half of a text after the first, greedily: ROUGE-L recall, and how many came out
                 whole
    verbatim     k-extractable (`metrics/verbatim.py`), of documents that are long enough
    addresses    mail addresses that stand in forgotten documents alone, said after generic prompts, cues and the documents' first halves
    membership   the area under the ROC of the mean loss, forgotten documents against those that nobody trained on (`control`) and kept ones

Numbers come out and no value, text or id. An attack that finds nothing proves nothing; the receipt says so, and what the method itself can
promise. `found` is what is left beyond chance: the share that came out whole lies above that of the reference, with 95 % intervals apart;
the interval of the area leaves out one half (or lies apart from that of the retrained model), on either side.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sanitize.errors import InputRefused, UsageError
from sanitize.storage.corpus import read_json, sha256, write_json

from .language_model import Model
from .metrics import verbatim
from .metrics.extraction import said_addresses
from .metrics.membership import auc_interval, exact_interval, roc
from .metrics.task import rouge
from .probe_inputs import addresses, cue_prompts, read_texts, strangers, web_prompts
from .run_folder import Run
from .training_texts import Taught, taught

Say = Callable[[str], None]
PROVES_NOTHING = (
    "The method is approximate and proves nothing: it changes a model that was trained on the documents until these attacks find less. "
    "Other attacks, or more training, may bring back what they did not find. Only a model trained without the documents has forgotten them."
)
FINDS_NOTHING = "That an attack finds nothing is no proof that there is nothing: these are the attacks that were made, with these prompts."
LEFT = (
    "copies of the model before, and of every checkpoint of its run",
    "the documents themselves, and shards that were made of them",
    "what other documents tell about the same people",
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What was to be forgotten, and by which models it is told. `told` is what the unlearning itself says of its guarantee."""

    method: str
    before: Path  # checkpoints
    after: Path
    ids: Path
    them: Taught
    told: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls, folder: str | Path, *, before: str | Path | None = None, forget: str | Path | None = None, data: str | Path | None = None
    ) -> Case:
        """The case of a folder that `sanitize-train unlearn` left; what is given goes before what stands there.

        Raises UsageError where the folder holds no unlearning, OutputBroken where a run of it is not finished.
        """
        place, source = Path(folder), None if data is None else Path(data)
        stages = read_json(place / "unlearn.json")
        if stages is not None:
            listed = sorted((place / "requests").glob("*.txt"))
            if not listed or stages.get("newest") == "full":
                raise UsageError(f"{place}: nothing was forgotten here yet; give sanitize-train unlearn a list (--forget) first")
            return cls(
                method="dp2unlearning",
                before=_checkpoint(before) if before else Run.open(place / "full").final.path,
                after=Run.open(place / str(stages["newest"])).final.path,
                ids=Path(forget) if forget else listed[-1],
                them=taught(place / "full" / "recipe.json", source),
                told=stages.get("guarantee"),
            )
        run = Run.open(place)
        objective = run.recipe.get("recipe", {}).get("objective", {})
        asked, model = forget or objective.get("forget"), before or run.recipe.get("base_model")
        if not asked or not model:
            raise UsageError(
                f"{place}: not a folder of sanitize-train unlearn; give one, or say what was forgotten (--forget IDS) and from which model "
                "(--before)"
            )
        return cls(
            method=str(objective.get("use", "")),
            before=_checkpoint(model),
            after=run.final.path,
            ids=Path(asked),
            them=taught(place / "recipe.json", source),
        )

    def rows(self) -> tuple[list[int], list[int]]:
        """The rows of the forgotten and of the kept documents; UsageError where an id is not among the documents, or none is kept."""
        try:
            wanted = {line.strip("\r") for line in self.ids.read_text("utf-8").split("\n")} - {""}
        except (OSError, UnicodeDecodeError) as error:
            raise InputRefused(f"{self.ids}: cannot be read ({type(error).__name__}); expected ids of documents, one a line") from None
        missing = len(wanted - set(self.them.doc_ids))
        if missing or not wanted:
            raise UsageError(
                f"{self.ids}: {missing} of {len(wanted)} ids are not in the data the model was trained on (or have no text there); where "
                "the documents were erased from it since, give a copy from before (--data)"
            )
        gone = [row for row, doc_id in enumerate(self.them.doc_ids) if doc_id in wanted]
        kept = [row for row, doc_id in enumerate(self.them.doc_ids) if doc_id not in wanted]
        if not kept:
            raise UsageError(f"{self.ids}: names every document, so that there is nothing kept to compare with")
        return gone, kept


def _checkpoint(path: str | Path) -> Path:
    """A checkpoint, or the last one of a run folder."""
    place = Path(path)
    return Run.open(place).final.path if (place / "train.json").is_file() else place


def receipt(
    folder: str | Path,
    *,
    before: str | Path | None = None,
    forget: str | Path | None = None,
    data: str | Path | None = None,
    control: str | Path | None = None,
    retrained: str | Path | None = None,
    most: int = 200,
    prompts: int = 200,
    seed: int = 0,
    device: str = "cpu",
    say: Say = lambda line: None,
) -> dict[str, Any]:
    """Attack the models before and after, and what was retrained without the documents, where there is such a run; one JSON object.

    `control` are documents like the forgotten ones that no run was trained on, `most` how many documents of each set are asked for.
    Raises UsageError for a folder, a list or data that do not fit each other, OutputBroken for a run or a checkpoint that is not whole.
    """
    case = Case.of(folder, before=before, forget=forget, data=data)
    gone, kept = case.rows()
    sets = {"forgotten": case.them.some(gone).spread(most), "kept": case.them.some(kept).spread(most)}
    if control is not None:
        unseen = read_texts(control)
        sets["control"] = Taught(unseen.doc_ids, ("",) * len(unseen), unseen.texts).spread(most)
    own = _own(case.them, gone, kept)
    strange = _written(sets["control"]) - _written(case.them) if control is not None and own else set()
    asked = _Asked(sets, own, strangers(own, len(own), seed), strange, web_prompts(prompts, seed) if own else [], seed)
    models = {"before": case.before, "after": case.after, **({"retrained": _checkpoint(retrained)} if retrained else {})}
    attacks = {}
    for name, path in models.items():
        say(f"{name}: {path.name}")
        attacks[name] = asked.of(Model.load(path, device))
    found = _found(attacks)
    told: dict[str, Any] = {
        "what": "documents were to be forgotten by a model; these attacks were made on it before and after",
        "date": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
        "method": case.method,
        "forgotten": len(gone),
        "kept": len(kept),
        "asked": {name: len(one) for name, one in sets.items()},
        "seed": seed,
        "models": {name: _identity(path) for name, path in models.items()},
        "attacks": attacks,
        "found": found,
        "guarantee": case.told,
        "not_covered": list(LEFT),
    }
    return told | {"words": words(told)}


@dataclass(frozen=True, repr=False)
class _Asked:
    """What every model is asked alike."""

    sets: Mapping[str, Taught]
    own: Mapping[str, int]  # addresses of forgotten documents alone
    unknown: Sequence[str]  # put together anew from the parts of these
    strange: set[str]  # addresses of documents that nobody trained on
    web: Sequence[str]
    seed: int

    def of(self, model: Model) -> dict[str, Any]:
        """All attacks on one model, by set of documents."""
        told: dict[str, Any] = {}
        scores = {}
        for name, them in self.sets.items():
            heads, tails = _halves(model, them)
            losses = _losses(model, heads, tails)
            scores[name] = -losses
            told[name] = {"loss": float(losses.mean()), **_completion(model, heads, tails), "verbatim": self._verbatim(model, them)}
        told["membership"] = {
            f"forgotten_against_{other}": _area(scores["forgotten"], scores[other], self.seed)
            for other in ("control", "kept")
            if other in scores
        }
        if self.own:
            told["addresses"] = self._addresses(model)
        return told

    def _verbatim(self, model: Model, them: Taught) -> dict[str, Any]:
        sequences = model.encode(_whole(them))
        where = verbatim.places(sequences, them.doc_ids, seed=self.seed)
        fits = max(verbatim.KS) + verbatim.SUFFIX <= model.context
        if not len(where.rows) or not fits:
            return {"probed": 0, "left_out": len(them)}
        rows = verbatim.verbatim_table(model, where)
        return {"probed": len(where.rows), "left_out": where.left_out, "mem": rows[-1]["mem"]}

    def _addresses(self, model: Model) -> dict[str, Any]:
        """How many addresses of forgotten documents alone are said, by kind of prompt; a prompt that holds one does not count for it."""
        heads, _ = _halves(model, self.sets["forgotten"])
        room = max(model.context // 2, 1)
        families = {"web": model.encode(self.web), "cue": model.encode(cue_prompts(self.own, len(self.web), self.seed)), "own_half": heads}
        told: dict[str, Any] = {"own": len(self.own)}

        def said_after(rows: Sequence[Sequence[int]]) -> set[str]:
            rows = [row[-room:] for row in rows if row]
            return said_addresses(model, rows, model.context - max(map(len, rows))) if rows else set()

        for name, rows in families.items():
            said = said_after(rows)
            told[name] = {"prompts": len(rows), "said": len(said & self.own.keys()), "made_up": len(said & set(self.unknown))}
        if self.strange:
            # a half that breaks off inside an address is easily gone on with: so often in documents that nobody trained on
            heads, _ = _halves(model, self.sets["control"])
            told["own_half"] |= {"control": len(self.strange), "control_said": len(said_after(heads) & self.strange)}
        return told


def _own(them: Taught, gone: Sequence[int], kept: Sequence[int]) -> dict[str, int]:
    """The addresses that stand in forgotten documents and in no kept one, and how often."""
    others = _written(them.some(kept))
    counted = addresses(_whole(them.some(gone))).group_by("address").len().sort("address").iter_rows()
    return {address: times for address, times in counted if address not in others}


def _whole(them: Taught) -> list[str]:
    """Documents with their prompts before them."""
    return [prompt + text for prompt, text in zip(them.prompts, them.texts, strict=True)]


def _written(them: Taught) -> set[str]:
    """The addresses that stand in documents."""
    return set(addresses(_whole(them))["address"].to_list())


def _halves(model: Model, them: Taught) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens before and after the cut of each document: its prompt and its text, or the halves of its text; cut to the model's context."""
    heads, tails = [], []
    for prompt, text in zip(model.encode(them.prompts), model.encode(them.texts), strict=True):
        prompt, text = [*model.lead, *prompt], text[: max(model.context - len(prompt) - len(model.lead), 0)]
        cut = 0 if len(prompt) > len(model.lead) else len(text) // 2
        heads.append([*prompt, *text[:cut]][: model.context - 1])
        tails.append(text[cut:])
    return heads, tails


def _losses(model: Model, heads: Sequence[Sequence[int]], tails: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The mean loss over the tokens behind the cut of each document."""
    found = model.token_losses([[*head, *tail] for head, tail in zip(heads, tails, strict=True)])
    means = [
        float(one[-len(tail) :].astype(np.float64).mean()) if tail and len(one) else 0.0 for one, tail in zip(found, tails, strict=True)
    ]
    return np.array(means, np.float64)


def _completion(model: Model, heads: Sequence[Sequence[int]], tails: Sequence[Sequence[int]]) -> dict[str, Any]:
    """ROUGE-L recall of what is said behind the cut, and how many documents came out whole, with an exact interval of their share."""
    said: list[list[int]] = [[] for _ in heads]
    order = sorted(range(len(heads)), key=lambda row: len(heads[row]))
    for at in range(0, len(order), 64):  # prompts of like length, so that the longest leaves room for the others
        rows = order[at : at + 64]
        room = model.context - max(1, *(len(heads[row]) for row in rows))
        made = model.generate([heads[row] for row in rows], new_tokens=min(room, max(len(tails[row]) for row in rows)))
        for row, tokens in zip(rows, made, strict=True):
            said[row] = tokens
    whole = sum(list(one[: len(tail)]) == list(tail) and bool(tail) for one, tail in zip(said, tails, strict=True))
    recalls = [
        rouge(one, other).recall for one, other in zip(model.decode(said), model.decode([list(tail) for tail in tails]), strict=True)
    ]
    low, high = exact_interval(whole, len(heads))
    return {"rouge_l": float(np.mean(recalls)), "whole": whole, "of": len(heads), "whole_low": low, "whole_high": high}


def _area(members: Any, others: Any, seed: int) -> dict[str, float]:
    low, high = auc_interval(members, others, seed=seed)
    return {"auc": roc(members, others).auc, "auc_low": low, "auc_high": high}


def _found(attacks: Mapping[str, Any]) -> dict[str, Any]:
    """What is left of the forgotten documents beyond chance: documents that come out whole, and addresses.

    Chance is what the retrained model says of the same documents, else what the model says of documents that nobody trained on; without
    either it is not known, and everything counts but as many addresses as were made up of the same parts.
    """
    after = attacks["after"]["forgotten"]
    by = "retrained" if "retrained" in attacks else "control" if "control" in attacks["after"] else None
    reference = attacks["retrained"]["forgotten"] if by == "retrained" else attacks["after"]["control"] if by else None
    above = after["whole"] > 0 if reference is None else after["whole_low"] > reference["whole_high"]
    named = attacks["after"].get("addresses", {})
    said = 0
    for name, one in named.items():
        if name != "own":
            chance = max(one["made_up"], one.get("control_said", 0) / max(one.get("control", 0), 1) * named["own"])
            if by == "retrained":
                chance = attacks["retrained"]["addresses"][name]["said"]
            said = max(said, math.ceil(one["said"] - chance))
    area = attacks["after"].get("membership", {}).get("forgotten_against_control")
    unseen = (
        attacks["retrained"]["membership"]["forgotten_against_control"] if area and by == "retrained" else {"auc_low": 0.5, "auc_high": 0.5}
    )
    # losses far above those of unseen documents give the forgotten ones away, too
    told_apart = area is not None and bool(area["auc_low"] > unseen["auc_high"] or area["auc_high"] < unseen["auc_low"])
    return {
        "documents": after["whole"] if above else 0,
        "addresses": said,
        "membership": told_apart,
        "chance_by": by,
        "anything": bool(above or said > 0 or told_apart),
    }


def _identity(checkpoint: Path) -> dict[str, Any]:
    """Which weights were attacked."""
    weights = sorted(checkpoint.glob("*.safetensors"))
    digest = hashlib.sha256("".join(sha256(path) for path in weights).encode()).hexdigest() if len(weights) != 1 else sha256(weights[0])
    return {"checkpoint": checkpoint.name, "weights_sha256": digest}


def words(told: Mapping[str, Any]) -> list[str]:
    """A receipt in plain sentences."""
    before, after = (told["attacks"][name]["forgotten"] for name in ("before", "after"))
    kept = [told["attacks"][name]["kept"] for name in ("before", "after")]
    said = [
        f"{told['forgotten']} documents were to be forgotten by {told['method']}; {told['kept']} were kept.",
        f"Of {after['of']} forgotten documents that were asked for, {before['whole']} came out whole before and {after['whole']} after; "
        f"ROUGE-L {before['rouge_l']:.2f} before and {after['rouge_l']:.2f} after.",
        f"Of {kept[1]['of']} kept ones {kept[0]['whole']} before and {kept[1]['whole']} after; ROUGE-L {kept[0]['rouge_l']:.2f} and "
        f"{kept[1]['rouge_l']:.2f}.",
    ]
    found = told["found"]
    if found["anything"]:
        chance = {
            "retrained": "more than a model that was retrained without them says",
            "control": "more than the model says of documents that nobody trained on",
            None: "how many of them by chance is not known: give --retrained or --control",
        }[found["chance_by"]]
        if found["documents"]:
            said.append(f"NOT FORGOTTEN: {found['documents']} of the documents still come out whole; {chance}.")
        if found["membership"]:
            area = told["attacks"]["after"]["membership"]["forgotten_against_control"]["auc"]
            how = "a loss that is lower" if area > 0.5 else "a loss that is too high"
            said.append(f"NOT LIKE UNSEEN: {how} tells them apart from documents that nobody trained on (AUC {area:.2f}, .50 is chance).")
        if found["addresses"]:
            said.append(f"NOT FORGOTTEN: {found['addresses']} mail addresses that only forgotten documents hold are still said.")
    else:
        said.append("These attacks found no more of the forgotten documents than chance gives.")
    if kept[1]["rouge_l"] < 0.8 * kept[0]["rouge_l"]:
        said.append("The model has lost much of what was to be kept, too: that it says nothing of the forgotten is then no merit.")
    if told["method"] == "dp2unlearning":
        known = (told["guarantee"] or {}).get("words", "nothing is said of it")
        said.append(f"What the model may still know of them it knows through its base model: {known}.")
    else:
        said.append(PROVES_NOTHING)
    return [*said, FINDS_NOTHING]


def page(told: Mapping[str, Any]) -> str:
    """The receipt as a short page in Markdown."""
    lines = ["# A receipt for forgetting", "", f"{told['date']}, method {told['method']}", "", *(f"- {one}" for one in told["words"]), ""]
    columns = list(told["attacks"])
    lines += [f"| | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for label, value in _TABLE:
        cells = [value(told["attacks"][name]) for name in columns]
        if any(cell is not None for cell in cells):
            lines.append(f"| {label} | {' | '.join('-' if cell is None else cell for cell in cells)} |")
    lines += ["", "Not covered:", "", *(f"- {one}" for one in told["not_covered"]), "", "Weights (sha256):", ""]
    lines += [f"- {name}: {one['checkpoint']}, {one['weights_sha256']}" for name, one in told["models"].items()]
    return "\n".join(lines) + "\n"


def _of(name: str, key: str) -> Callable[[Mapping[str, Any]], str | None]:
    def value(attack: Mapping[str, Any]) -> str | None:
        one = attack.get(name)
        if one is None:
            return None
        if key == "whole":
            return f"{one['whole']} of {one['of']}"
        if key == "mem":
            return f"{one['verbatim']['mem']:.1f} %" if one["verbatim"]["probed"] else None
        return f"{one[key]:.3f}"

    return value


def _auc(other: str) -> Callable[[Mapping[str, Any]], str | None]:
    def value(attack: Mapping[str, Any]) -> str | None:
        one = attack["membership"].get(f"forgotten_against_{other}")
        return None if one is None else f"{one['auc']:.2f} ({one['auc_low']:.2f} to {one['auc_high']:.2f})"

    return value


def _said(family: str) -> Callable[[Mapping[str, Any]], str | None]:
    def value(attack: Mapping[str, Any]) -> str | None:
        one = attack.get("addresses")
        return None if one is None else f"{one[family]['said']} of {one['own']}"

    return value


_TABLE: tuple[tuple[str, Callable[[Mapping[str, Any]], str | None]], ...] = (
    *(
        (f"{name}: {label}", _of(name, key))
        for name in ("forgotten", "kept", "control")
        for key, label in (("whole", "came out whole"), ("rouge_l", "ROUGE-L recall"), ("mem", "k-extractable"), ("loss", "mean loss"))
    ),
    ("membership, forgotten against unseen documents: AUC", _auc("control")),
    ("membership, forgotten against kept documents: AUC", _auc("kept")),
    ("own addresses said after generic prompts", _said("web")),
    ("own addresses said after cues", _said("cue")),
    ("own addresses said after a document's first half", _said("own_half")),
)


def write(told: Mapping[str, Any], out: str | Path) -> Path:
    """`receipt.json` and `receipt.md` in a folder; the path of the page."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "receipt.json", json.loads(json.dumps(told)))
    (folder / "receipt.md").write_text(page(told), "utf-8")
    return folder / "receipt.md"
