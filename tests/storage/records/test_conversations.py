"""Conversations from records of every shape, and texts of them by chat templates, as `transformers`
writes them."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest

from sanitize.errors import InputRefused, UsageError
from sanitize.storage.records.conversations import ChatTemplate, list_turns
from sanitize.storage.records.record_shapes import canonical_schema, recognize_shape

CHATML = (
    "{%- for message in messages %}\n{{- '<|im_start|>' + message['role'] + '\\n' +"
    " message['content'] | trim + '<|im_end|>\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt"
    " %}\n{{- '<|im_start|>assistant\\n' }}\n{%- endif %}"
)
ALTERNATING = (
    "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{"
    " raise_exception('no') }}{% endif %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{%"
    " else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
LAST_ONLY = (
    "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.role }}={{ m.content }};{%"
    " endif %}{% endfor %}"
)
TURNS: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "Go well."},
]


def turns_of(record: dict[str, Any]) -> list[tuple[str, str]]:
    shape = recognize_shape(canonical_schema(pa.Table.from_pylist([record]).schema))
    assert shape is not None
    return [(turn["role"], turn["content"]) for turn in list_turns(record, shape)]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"messages": TURNS[:2]}, [("user", "Hi"), ("assistant", "Hello.")]),
        (
            {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]},
            [("user", "Hi"), ("assistant", "Yo")],
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}],
                    }
                ]
            },
            [("user", "AB")],
        ),
        ({"prompt": "Q", "completion": "A"}, [("user", "Q"), ("assistant", "A")]),
        (
            {"prompt": TURNS[:1], "completion": TURNS[1:2]},
            [("user", "Hi"), ("assistant", "Hello.")],
        ),
        (
            {"instruction": "Add", "input": "1 2", "output": "3"},
            [("user", "Add\n\n1 2"), ("assistant", "3")],
        ),
        ({"instruction": "Add", "input": "", "output": "3"}, [("user", "Add"), ("assistant", "3")]),
        ({"prompt": "Q", "chosen": "A", "rejected": "B"}, [("user", "Q"), ("assistant", "A")]),
        ({"chosen": TURNS[:2], "rejected": TURNS[2:]}, [("user", "Hi"), ("assistant", "Hello.")]),
        (
            {"prompt": "Hi", "chosen": TURNS[:2], "rejected": TURNS[:2]},
            [("user", "Hi"), ("assistant", "Hello.")],
        ),
    ],
)
def test_records_are_conversations(record: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert turns_of(record) == expected


@pytest.mark.parametrize("source", [CHATML, ALTERNATING])
def test_texts_equal_those_of_transformers(source: str) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()),
        bos_token="<s>",
        eos_token="</s>",
        chat_template=source,
    )
    template = ChatTemplate(source, (("bos_token", "<s>"), ("eos_token", "</s>")))
    for turns in (TURNS, TURNS[:2]):
        assert template.render(turns) == tokenizer.apply_chat_template(turns, tokenize=False)
    assert template.render(TURNS[:1], add_generation_prompt=True) == tokenizer.apply_chat_template(
        TURNS[:1], tokenize=False, add_generation_prompt=True
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (ChatTemplate(), ["Hello.\n", "Go well.\n"]),
        (ChatTemplate(CHATML), ["Hello.<|im_end|>\n", "Go well.<|im_end|>\n"]),
        (
            ChatTemplate(ALTERNATING, (("bos_token", "<s>"), ("eos_token", "</s>"))),
            [" Hello.</s>", " Go well.</s>"],
        ),
    ],
)
def test_spans_of_the_assistant(template: ChatTemplate, expected: list[str]) -> None:
    text, spans = template.render_with_spans(TURNS)
    assert text == template.render(TURNS) and [text[start:end] for start, end in spans] == expected


def test_a_template_that_rewrites_earlier_turns_has_no_spans() -> None:
    with pytest.raises(UsageError, match="data.answers_only = false"):
        ChatTemplate(LAST_ONLY).render_with_spans(TURNS)


def test_what_templates_refuse_is_told_without_texts() -> None:
    with pytest.raises(InputRefused, match="cannot write a conversation of 2 turns") as refusal:
        ChatTemplate(ALTERNATING).render([{"role": "assistant", "content": "secret"}, *TURNS[:1]])
    assert "secret" not in str(refusal.value)
    with pytest.raises(UsageError, match="not a valid .*template"):
        ChatTemplate("{% for %}").render(TURNS)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{% include 'x' %}",
    ],
)
def test_templates_run_in_a_sandbox(source: str) -> None:
    with contextlib.suppress(InputRefused):
        assert "class" not in ChatTemplate(source).render(TURNS)
