"""Records of chat and instruction data as conversations, and conversations as texts by a chat
template.

    record -> turns (role, content, ...)       turns + template -> text, and the spans of what the
                                               assistant says

Templates are those of `transformers`: Jinja, with `messages`, `add_generation_prompt` and the
special tokens as variables. They run in Jinja's sandbox. Where the spans of the assistant are asked
for, a template must write every turn behind the ones before it, whatever follows; all that do not
rewrite earlier turns do.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import jinja2.ext
import jinja2.sandbox
import pyarrow as pa

from sanitize.core.text_cells import column_of_path
from sanitize.errors import InputRefused, UsageError
from sanitize.storage.records.record_shapes import RecordShape, encode_turns, find_json_columns

Turn = dict[str, Any]
# a line for each turn: for a tokenizer without a template of its own
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
ASSISTANT_ROLES = frozenset(
    ("assistant", "gpt", "model", "bot", "chatgpt", "ai", "chatbot", "claude", "bard", "bing")
)
# what templates know
_ROLES = {"human": "user", "prompter": "user", **dict.fromkeys(ASSISTANT_ROLES, "assistant")}


def read_mixed_lines(data: bytes) -> pa.Table:
    """JSON lines that Arrow does not read, since their turns have no common type, as a table with
    these turns as JSON. Raises ValueError or pa.ArrowException where they are not that either."""
    records = [json.loads(line) for line in data.splitlines() if line.strip()]
    if not all(isinstance(record, dict) for record in records):
        raise ValueError("a line is no object")
    columns = {
        name: [record.get(name) for record in records]
        for name in dict.fromkeys(name for record in records for name in record)
    }
    for name in find_json_columns(columns):
        columns[name] = [encode_turns(turns) for turns in columns[name]]
    return pa.table(columns)


def list_turns(record: Mapping[str, Any], shape: RecordShape) -> list[Turn]:
    """The conversation of a record. Prompt and completion, or instruction and output, are a turn of
    the user and one of the assistant; of a pair it is the preferred one, behind its prompt."""
    if shape.name == "chat":
        return _to_turns(record.get(column_of_path(shape.texts[0])), "user")
    if shape.name == "preference":
        answer = _to_turns(record.get("chosen"), "assistant")
        is_whole = len(answer) > 1 or "prompt" not in record
        return answer if is_whole else [*_to_turns(record.get("prompt"), "user"), *answer]
    question, answer_column = (column_of_path(path) for path in shape.texts[:2])
    context = record.get("input") if shape.name == "instruction" else None
    turns = _to_turns(record.get("system"), "system") + _to_turns(record.get(question), "user")
    if isinstance(context, str) and context and turns:
        turns[-1] = {**turns[-1], "content": f"{turns[-1]['content']}\n\n{context}"}
    return [*turns, *_to_turns(record.get(answer_column), "assistant")]


def _to_turns(value: Any, role: str) -> list[Turn]:
    """The turns of a column: a text is one turn of `role`. In a list they are objects, or objects
    as JSON."""
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    turns = (json.loads(turn) if isinstance(turn, str) else turn for turn in value or ())
    return [_to_turn(turn) for turn in turns if isinstance(turn, Mapping)]


def _to_turn(turn: Mapping[str, Any]) -> Turn:
    """A turn as templates expect it: role and content as texts, without the fields that only other
    turns have."""
    role, content = (
        str(turn.get("role") or turn.get("from") or ""),
        turn.get("content", turn.get("value")),
    )
    if isinstance(content, Sequence) and not isinstance(content, str):
        # of parts only texts can be learned
        content = "".join(
            part if isinstance(part, str) else str((part or {}).get("text") or "")
            for part in content
        )
    others = {
        name: value
        for name, value in turn.items()
        if name not in ("role", "from", "content", "value") and value is not None
    }
    return {
        **others,
        "role": _ROLES.get(role.strip().lower(), role.strip().lower()),
        "content": content or "",
    }


@dataclass(frozen=True)
class ChatTemplate:
    """A template and the special tokens that it may write (`bos_token`, ...)."""

    source: str = PLAIN_TEMPLATE
    tokens: tuple[tuple[str, str], ...] = ()
    name: str = "the chat template"  # for messages

    @functools.cached_property
    def _compiled(self) -> jinja2.Template:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = lambda value, **options: json.dumps(
            value, ensure_ascii=False, **options
        )
        environment.globals |= {
            "raise_exception": _raise_template_error,
            "strftime_now": lambda form: "",  # no text depends on the day
        }
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise UsageError(
                f"{self.name}: is not a valid template ({type(error).__name__} in line"
                f" {getattr(error, 'lineno', 0)})"
            ) from None

    def render(self, turns: Sequence[Turn], *, add_generation_prompt: bool = False) -> str:
        """The text of a conversation. Raises InputRefused where the template does not accept it."""
        try:
            return self._compiled.render(
                messages=list(turns),
                add_generation_prompt=add_generation_prompt,
                tools=None,
                **dict(self.tokens),
            )
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise InputRefused(
                f"{self.name}: cannot write a conversation of {len(turns)} turns"
                f" ({type(error).__name__}): some templates take only turns of user and assistant"
                " in alternation; give another template with data.chat_template, or leave these"
                " conversations out"
            ) from None

    def render_with_spans(self, turns: Sequence[Turn]) -> tuple[str, list[tuple[int, int]]]:
        """The text, and the spans of the assistant's turns in it (code points): from behind what
        asks for an answer to the turn's end."""
        text, spans = self.render(turns), []
        for number, turn in enumerate(turns):
            if turn["role"] != "assistant":
                continue
            before = self.render(turns[:number], add_generation_prompt=True) if number else ""
            after = self.render(turns[: number + 1]) if number + 1 < len(turns) else text
            if not after.startswith(before):
                # no prompt for an answer: the turn begins where the turns before it end
                before = self.render(turns[:number]) if number else ""
            if not (text.startswith(after) and after.startswith(before)):
                raise UsageError(
                    f"{self.name}: writes earlier turns in another way when turns follow, so that"
                    " the assistant's are not known; set data.answers_only = false, or give"
                    " another template with data.chat_template"
                )
            spans.append((len(before), len(after)))
        return text, spans


def _raise_template_error(message: str) -> None:
    """`raise_exception` of templates; the message may quote a text."""
    raise jinja2.TemplateError("the template refuses this conversation")
