from typing import Any

import pytest

from octavo.errors import InvalidRequestError
from octavo.input.length import TakesLongError
from octavo.input.prompts import PromptReader, TokenizedPrompt
from octavo.input.truncation import Truncation
from octavo.testing.llm import CHAT_TEMPLATE, word_backend
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer
from octavo.text.tokenizer_settings import TokenizerSettings

BOS, USER, ASSISTANT, HELLO, THERE = 1, 3, 4, 5, 6
MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "there"}]


def reader(source: str = CHAT_TEMPLATE, **options: Any) -> PromptReader:
    """Of a model whose tokenizer puts BOS in front of texts."""
    backend = word_backend(["user", "assistant", "hello", "there"], vocab_size=20)
    tokenizer = Tokenizer(TokenizerSettings(backend=backend, special_tokens={"bos_token": "<s>"}, adds_bos=True))
    template = ChatTemplate(source, special_tokens=tokenizer.special_tokens)
    return PromptReader(tokenizer=tokenizer, chat_template=template, vocab_size=20, **options)


def chat(source: str = CHAT_TEMPLATE, **options: Any) -> TokenizedPrompt:
    (prompt,) = reader(source).read_chats([MESSAGES], **options)
    return prompt


def test_texts_get_special_tokens_unless_they_are_not_wanted() -> None:
    prompts = ["hello", {"prompt": "hello"}, [HELLO], {"prompt_token_ids": [HELLO]}]
    assert [prompt.token_ids for prompt in reader().read(prompts)] == [[BOS, HELLO], [BOS, HELLO], [HELLO], [HELLO]]
    assert [prompt.token_ids for prompt in reader().read(prompts, add_special_tokens=False)] == [[HELLO]] * 4


def test_no_prompt_begins_with_two() -> None:
    assert reader().read(["<s> hello"])[0].token_ids == [BOS, HELLO]
    assert chat("{{ bos_token }} hello", add_special_tokens=True).token_ids == [BOS, HELLO]
    assert chat("{{ bos_token }} hello").token_ids == [BOS, HELLO]
    assert chat("hello", add_special_tokens=True).token_ids == [BOS, HELLO]
    assert chat("hello").token_ids == [HELLO]


def test_prompts_are_cut_only_where_that_is_asked_for() -> None:
    assert reader().read([[5] * 500])[0].token_ids == [5] * 500
    cut = Truncation(num_tokens=2)
    long, short = reader().read(["hello there hello there", "hello"], truncation=cut)
    assert (long.token_ids, long.text) == ([HELLO, THERE], None)
    assert (short.token_ids, short.text) == ([BOS, HELLO], "hello")
    assert chat(truncation=Truncation(num_tokens=1, keeps_end=False)).token_ids == [USER]


def test_what_is_cut_off_is_checked_too() -> None:
    with pytest.raises(InvalidRequestError, match="999"):
        reader().read([[999, HELLO]], truncation=Truncation(num_tokens=1))


def test_conversations_end_as_they_are_told_to() -> None:
    assert chat().token_ids == [USER, HELLO, ASSISTANT, THERE, ASSISTANT]
    assert chat(add_generation_prompt=False).token_ids == [USER, HELLO, ASSISTANT, THERE]
    assert chat(continue_final_message=True).token_ids == [USER, HELLO, ASSISTANT, THERE]
    assert chat(chat_template=ChatTemplate("there")).token_ids == [THERE]


@pytest.mark.parametrize("name", ["messages", "add_generation_prompt", "continue_final_message", "chat_template"])
def test_names_for_the_template_replace_nothing(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        chat(template_kwargs={name: 1})


def test_texts_that_are_far_too_long_to_run_are_refused_and_may_be_counted() -> None:
    limited, long = reader(max_model_len=8), "hello " * 50_000
    conversation = [{"role": "user", "content": long}]
    for attempt in (lambda: limited.read(["hello", long]), lambda: limited.read_chats([MESSAGES, conversation])):
        with pytest.raises(InvalidRequestError, match=r"prompt 1: .* characters has more than") as caught:
            attempt()
        assert caught.value.code == "context_length_exceeded"
    (counted,) = limited.read_chats([conversation], is_to_run=False)
    assert len(counted.token_ids) == 50_002
    (cut,) = limited.read([long], truncation=Truncation(num_tokens=3))
    assert cut.token_ids == [HELLO] * 3


def test_salts_stay_with_their_prompts() -> None:
    prompts = [
        {"prompt": "hello", "cache_salt": "a"},
        {"prompt_token_ids": [HELLO], "cache_salt": "b"},
        {"prompt": "hello", "cache_salt": None},
    ]
    assert [prompt.cache_salt for prompt in reader().read(prompts)] == ["a", "b", None]
    assert reader().read(prompts[:1], truncation=Truncation(num_tokens=1))[0].cache_salt == "a"


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ({"prompt": "hello", "multi_modal_data": {}}, "a prompt has the key 'multi_modal_data', which is unknown"),
        ({"prompt_token_ids": [HELLO], "salt": "a"}, "the key 'salt'"),
        ({"prompt_token_ids": [HELLO], 5: "a"}, "the key 5"),
        ({"prompt_token_ids": [HELLO], "prompt": "hello"}, "not both"),
        ({"cache_salt": "a"}, "a prompt is text, .* not a mapping with the keys 'cache_salt'"),
        ({str(number): 1 for number in range(10**5)}, "not a mapping with the keys '0', "),
        ({}, "with the keys none"),
        ({"prompt": "hello", "cache_salt": ""}, "'cache_salt' is '', but must be text of 1 to 256 characters"),
        ({"prompt": "hello", "cache_salt": "a" * 257}, "'cache_salt' is"),
        ({"prompt": "hello", "cache_salt": 5}, "'cache_salt' is 5"),
        ({"prompt": "hello", "cache_salt": "\ud800"}, "'cache_salt' is"),
    ],
    ids=range(11),
)
def test_mappings_have_the_keys_of_one_form_and_no_others(prompt: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        reader().read([prompt])
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("names", [[1], {5: 1}, "abc"])
def test_names_for_the_template_are_a_mapping(names: Any) -> None:
    with pytest.raises(InvalidRequestError, match="chat template arguments"):
        chat(template_kwargs=names)


@pytest.mark.parametrize(
    "source", ["{% for i in range(90000) %}{% for i in range(90000) %}{% endfor %}{% endfor %}", "{{ 'there ' * 9000 }}"]
)
def test_who_must_be_quick_gives_up_on_conversations_that_take_long(source: str) -> None:
    slow = reader(source)
    with pytest.raises(TakesLongError):
        slow.read([MESSAGES], quick=True)
    assert ChatTemplate(source).problem() is None
    with pytest.raises(TakesLongError):
        slow.read_chats([MESSAGES], quick=True)


def test_a_template_that_is_not_compiled_yet_takes_long() -> None:
    quick = reader()
    with pytest.raises(TakesLongError):
        quick.read([MESSAGES], quick=True)
    expected = quick.read([MESSAGES])
    assert quick.read([MESSAGES], quick=True) == expected
    with pytest.raises(InvalidRequestError, match="no chat template"):
        PromptReader(tokenizer=quick._tokenizer, chat_template=ChatTemplate(None), vocab_size=20).read([MESSAGES], quick=True)
