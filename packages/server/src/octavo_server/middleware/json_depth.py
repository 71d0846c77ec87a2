"""How deeply JSON is nested, without parsing it: parsers recurse, and a few bytes a level are enough to exhaust them."""

import re

import numpy as np

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_OPENING, _CLOSING = b"[{", b"]}"
_OTHERS = bytes(set(range(256)) - set(_OPENING + _CLOSING))


def is_deeper_than(body: bytes, limit: int) -> bool:
    """Whether arrays and objects of a text in UTF-8 lie more than `limit` deep within each other. Linear in its length.

    What is no JSON gets some answer: parsing it will say what is wrong.
    """
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    brackets = _STRING.sub(b"", body).translate(None, _OTHERS)
    codes = np.frombuffer(brackets, dtype=np.uint8)
    steps = np.where((codes == _OPENING[0]) | (codes == _OPENING[1]), 1, -1)
    return bool(steps.cumsum().max(initial=0) > limit)
