import datetime
from typing import Any

import pytest

from octavo.errors import InvalidRequestError
from octavo.text.chat_template import ChatTemplate, TemplateLimitError, refuse_reserved
from octavo.text.template_meter import RenderLimits

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
    template = ChatTemplate("{% for i in range(9000) %}{% for j in range(9000) %}x{% endfor %}{% endfor %}")
    with pytest.raises(TemplateLimitError, match="longer than 1,000 characters"):
        template.render_with(USER, {}, limits=RenderLimits(characters=1000))


BROKEN = [
    ("{% for %}", "Expected an expression"),
    ("{% foo %}", "unknown tag"),
    ("{{ 1 | nofilter }}", "No filter named"),
    ("{% break %}", "outside loop"),
    ("{{ " + "9" * 6000 + " }}", "digits"),
    ("{{ " + "[" * 5000 + "1" + "]" * 5000 + " }}", "recursion"),
    ("{% for x in [1] %}" * 30 + "x" + "{% endfor %}" * 30, "too many statically nested blocks"),
    ("{% if 1 %}" * 120 + "x" + "{% endif %}" * 120, "too many levels of indentation"),
    ("x" * 200_000, "at most 131,072 are taken"),
]


@pytest.mark.parametrize(("source", "problem"), BROKEN, ids=[problem for _, problem in BROKEN])
def test_what_is_no_template_says_so_before_it_is_used(source: str, problem: str) -> None:
    template = ChatTemplate(source)
    assert problem in str(template.problem())
    assert str(template.problem()).count("\n") == 0
    with pytest.raises(InvalidRequestError, match=problem):
        template.render(USER)


def test_good_templates_and_none_have_no_problem() -> None:
    template = ChatTemplate(CHATML)
    assert not template.is_compiled
    assert template.problem() is None
    assert template.is_compiled
    assert ChatTemplate(None).problem() is None


def test_long_words_of_a_template_are_cut() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ChatTemplate("{{ raise_exception('no\nway ' * 10000) }}").render(USER)
    assert "no way" in str(caught.value)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("names", "message"), [({5: 1}, "the name 5"), ([1], "not list"), ("abc", "not str"), ({"tools": []}, "tools")])
def test_names_for_a_template_are_a_mapping_from_texts(names: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        ChatTemplate(CHATML).render_with(USER, names)
    assert caught.value.param == "chat_template_kwargs"


@pytest.mark.parametrize("name", ["self", "limits", "names", "context", "render meter", "meter"])
def test_other_names_are_free(name: str) -> None:
    assert ChatTemplate("{{ messages[0].content }}").render(USER, **{name: 1}) == "hi"


def test_the_users_messages_are_left_as_they_are() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    ChatTemplate(CHATML).render(messages)
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


CONVERSATION = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "well, "}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (CHATML, "<|user|>hi\n<|assistant|>well, "),
        ("{% for message in messages %}[{{ message.content | trim }}]{% endfor %}", "[hi][well, "),
        ("{% for message in messages %}{{ message.content.split('</think>')[-1] }};{% endfor %}", "hi;well, "),
        ("{{ messages[-1].content }}{{ messages[-1].content }} end", "well, well, "),
    ],
)
def test_the_last_message_may_be_continued(source: str, expected: str) -> None:
    assert ChatTemplate(source).render(CONVERSATION, continue_final_message=True) == expected


def test_nothing_opens_an_answer_that_is_continued() -> None:
    opening = "{% for message in messages %}{{ message.content }}{% endfor %}{% if add_generation_prompt %}!{% endif %}"
    assert ChatTemplate(opening).render(CONVERSATION, continue_final_message=True) == "hiwell, "


def test_a_template_that_hides_the_last_message_cannot_have_it_continued() -> None:
    with pytest.raises(InvalidRequestError, match="cannot be continued"):
        ChatTemplate("{{ messages[0].content }}").render(CONVERSATION, continue_final_message=True)


@pytest.mark.parametrize(("source", "role"), [("{{ messages[0].role }}", "system"), ("{# developer #}{{ messages[0].role }}", "developer")])
def test_developers_speak_as_the_system_where_the_template_knows_none(source: str, role: str) -> None:
    messages = [{"role": "developer", "content": "x"}]
    assert ChatTemplate(source).render(messages) == role
    assert messages[0]["role"] == "developer"


def test_another_source_has_the_same_special_tokens() -> None:
    template = ChatTemplate("a", special_tokens={"bos_token": "<s>"})
    assert template.with_source("{{ bos_token }}b").render(USER) == "<s>b"
    assert template.render(USER) == "a"


@pytest.mark.parametrize(
    "name", ["messages", "tools", "documents", "tokenize", "chat_template", "add_generation_prompt", "continue_final_message"]
)
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        refuse_reserved({"mood": 1, name: 2})
