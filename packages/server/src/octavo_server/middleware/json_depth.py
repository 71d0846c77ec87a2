"""How deeply JSON is nested, without parsing it: parsers recurse, and a few bytes a level are enough to exhaust them."""

import numpy as np

_QUOTE = ord('"')


def is_deeper_than(body: bytes, limit: int) -> bool:
    """Whether arrays and objects of a text in UTF-8 lie more than `limit` deep within each other. Linear in its length.

    What is no JSON gets some answer: parsing it will say what is wrong.
    """
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    # Without escaped backslashes, and then without escaped quotes, every other quote opens a string.
    codes = np.frombuffer(body.replace(rb"\\", b"").replace(rb"\"", b""), dtype=np.uint8)
    is_outside = ~np.bitwise_xor.accumulate(codes == _QUOTE)
    is_opening = ((codes == ord("[")) | (codes == ord("{"))) & is_outside
    is_closing = ((codes == ord("]")) | (codes == ord("}"))) & is_outside
    steps = is_opening.astype(np.int8) - is_closing
    return bool(steps[steps != 0].cumsum(dtype=np.int64).max(initial=0) > limit)
