#!/usr/bin/env python3
"""Texts that tokenizers are compared on: `python3 scripts/gguf_texts.py` prints them as a JSON list.

Words, numbers, contractions, emoji, CJK and other scripts, runs of white space, control characters, special tokens,
and random mixtures of all these.
"""

import json
import random

PIECES = [
    "Once upon a time", " there", "was", " a little girl", " named Lily", "She's", " I'LL", "don't", " WE'VE", "12345", " 007",
    "3.14159", "1,000,000", "x=y+z;", "foo_bar(baz)", "<b>", "&amp;", "$5", "^~|", "...", "?!", "--", "—", "“quoted”", "é", "naïve",
    "Ünïcödé", "e\u0301", "ﬁne", "İ", "ß", "日本語", "世界，你好。", "한국어", "عربي", "עברית", "हिन्दी", "ไทย", "Ελληνικά", "Привет",
    "😀", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "🏳️‍🌈", "\U0001f9ff", " ", "  ", "   ", "        ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", " \n", "\n ", " \n \n",
    "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff", "\x01", "\x1b[0m", "\x7f", "\u0085", "▁", "▁▁", "<0x0A>", "²", "½", "Ⅷ", "٣", "१२", "a" * 40, "!" * 17,
    "=" * 33, "{\"key\": [1, 2]}", "https://example.org/a?b=c#d", "C:\\dir\\file", "fn main() {\n    let x = 1;\n}",
]


def texts():
    source = random.Random(5)
    mixed = ["".join(source.choices(PIECES, k=source.randint(2, 9))) for _ in range(240)]
    return [""] + PIECES + mixed


if __name__ == "__main__":
    print(json.dumps(texts()))
