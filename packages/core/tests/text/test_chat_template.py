import datetime
from typing import Any

import pytest

from octavo.errors import InvalidRequestError
from octavo.text.chat_template import ChatTemplate

CHATML = (
    "{% for message in messages %}\n<|{{ message['role'] }}|>{{ message['content'] }}\n{% endfor %}\n"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
USER = [{"role": "user", "content": "hi"}]


def test_messages_are_rendered_with_the_opening_of_the_answer() -> None:
    template = ChatTemplate(CHATML)
    assert template.render(USER) == "<|user|>hi\n<|assistant|>"
    assert template.render(USER, add_generation_prompt=False) == "<|user|>hi\n"


def test_special_tokens_and_further_names_reach_the_template() -> None:
    template = ChatTemplate("{{ bos_token }}{{ mood }}{{ missing }}", special_tokens={"bos_token": "<s>"})
    assert template.render(USER, mood="calm") == "<s>calm"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('{{ {"a": "<é>"} | tojson }}', '{"a": "<é>"}'),
        ("{{ [1] | tojson(indent=1) }}", "[\n 1\n]"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("a{% generation %}b{{ messages[0].content }}{% endgeneration %}c", "abhic"),
        ("{{ strftime_now('%Y') }}", str(datetime.datetime.now().astimezone().year)),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
    ],
)
def test_what_templates_may_use(source: str, expected: str) -> None:
    assert ChatTemplate(source).render(USER) == expected


def test_text_parts_are_joined_for_templates_that_take_strings() -> None:
    content = [{"type": "text", "text": "hi"}, {"type": "text", "text": " there"}]
    assert ChatTemplate(CHATML).render([{"role": "user", "content": content}]) == "<|user|>hi there\n<|assistant|>"


def test_no_content_is_no_text() -> None:
    assert (
        ChatTemplate(CHATML).render([{"role": "assistant", "content": None}, {"role": "user"}]) == "<|assistant|>\n<|user|>\n<|assistant|>"
    )


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "messages is empty"),
        ("hi", "must be a list"),
        ({"role": "user"}, "must be a list"),
        (["hi"], r"messages\[0\] is 'hi'"),
        ([{"content": "hi"}], r"messages\[0\]\.role"),
        ([{"role": 7, "content": "hi"}], r"messages\[0\]\.role is 7"),
        ([*USER, {"role": "user", "content": 5}], r"messages\[1\]\.content must be"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], r"content\[0\] is a part of type 'image_url'"),
        ([{"role": "user", "content": [{"type": ["text"]}]}], "part of type"),
        ([{"role": "user", "content": [7]}], "part of type None"),
        ([{"role": "user", "content": [{"type": "text"}]}], r"content\[0\]\.text must be a string"),
    ],
)
def test_bad_messages_are_refused_naming_the_place(messages: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        ChatTemplate(CHATML).render(messages)


@pytest.mark.parametrize("name", ["messages", "tools", "tokenize", "chat_template"])
def test_names_that_are_octavos_to_give_cannot_be_replaced(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"may not set {name}"):
        ChatTemplate(CHATML).render(USER, **{name: []})


def test_a_model_without_template_says_what_to_do() -> None:
    with pytest.raises(InvalidRequestError, match="--chat-template"):
        ChatTemplate(None).render(USER)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('only system may speak') }}", "only system may speak"),
        ("{{ messages[0].content + 1 }}", "refuses these messages"),
        ("{{ messages[5].content }}", "refuses these messages"),
        ("{% for %}", "refuses these messages"),
        ("{{ 1 / 0 }}", "refuses these messages"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "refuses these messages"),
        ("{{ messages.append(1) }}", "refuses these messages"),
        ("{% for i in range(100001) %}{% endfor %}", "refuses these messages"),
    ],
)
def test_templates_that_fail_or_reach_out_are_a_refused_request(source: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        ChatTemplate(source).render(USER)


def test_a_rendered_prompt_has_a_longest_length() -> None:
    template = ChatTemplate("{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}", max_characters=1000)
    with pytest.raises(InvalidRequestError, match="longer than 1000 characters"):
        template.render(USER)


def test_the_users_messages_are_left_as_they_are() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    ChatTemplate(CHATML).render(messages)
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
