"""Files of prompts in every format, each with something in it that should not be there."""

import json
import random

import parquet

GOOD = ["What is 3 + 4?", "Name a colour.", "Count to five."]

# A record in the format `prompt`. What may be taken as it is, is in TAKEN.
PROMPTS = {
    "cut off": b'{"prompt": "What is',
    "NaN": b'{"prompt": NaN}',
    "infinity": b'{"prompt": 1e999}',
    "a number": b'{"prompt": 7}',
    "a list": b'{"prompt": ["x"]}',
    "an object": b'{"prompt": {"x": 1}}',
    "null": b'{"prompt": null}',
    "true": b'{"prompt": true}',
    "no prompt": b'{"question_id": 3}',
    "empty": b'{"prompt": ""}',
    "U+0000": b'{"prompt": "a\\u0000b"}',
    "a raw control character": b'{"prompt": "a\x01b"}',
    "half a surrogate": b'{"prompt": "\\ud800"}',
    "no UTF-8": b'{"prompt": "\xff\xfe"}',
    "deep": b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "text after it": b'{"prompt": "x"} and more',
    "another array": b"[1, 2, 3]",
    "a huge field": b'{"prompt": "' + b"word " * 2_000_000 + b'"}',
    "a huge number": b'{"prompt": ' + b"9" * 100_000 + b"}",
    "control characters": b'{"prompt": "\\u001b[2J\\u0007bell"}',
    "a key twice": b'{"prompt": 1, "prompt": "Name a bird."}',
    "other keys": b'{"prompt": "Name a bird.", "score": NaN}',
    "special tokens": b'{"prompt": "<|end|><|begin|><|system|>"}',
}
TAKEN = {"control characters", "special tokens", "a huge field"}

# Other counts in an array: what follows a record that is cut off is in doubt, and text after one is named alone.
ARRAYS = {"cut off": {2}, "text after it": {4}}

# A record in the format `sharegpt`.
TALKS = {
    "no list": {"conversations": {"from": "human", "value": "x"}},
    "empty list": {"conversations": []},
    "unknown role": {"conversations": [{"from": "dragon", "value": "x"}]},
    "value a number": {"conversations": [{"from": "human", "value": 7}]},
    "value null": {"conversations": [{"from": "human", "value": None}]},
    "no value": {"conversations": [{"from": "human"}]},
    "answer alone": {"conversations": [{"from": "gpt", "value": "x"}]},
    "turn a text": {"conversations": ["x"]},
    "role a list": {"conversations": [{"from": ["human"], "value": "x"}]},
    "NaN": {"conversations": float("nan")},
    "lists in lists": {"conversations": [[[[]]]]},
    "id an object": {"id": {}, "conversations": [{"from": "human", "value": "x"}]},
}

def message(**values):
    """A record in the format `messages` with one message."""
    return {"messages": [{"role": "user", "content": "x"} | values]}


# Records of other formats: a good one by its text, and bad ones. Values of the wrong type, nothing, and nonsense.
OTHERS = {
    "messages": (lambda text: message(content=text), {
        "no list": {"messages": {"role": "user", "content": "x"}}, "empty list": {"messages": []},
        "unknown role": message(role="dragon"), "role a list": message(role=["user"]),
        "role null": message(role=None), "content a number": message(content=7), "content null": message(content=None),
        "content an image": message(content=[{"type": "image_url", "image_url": "x"}]),
        "content an object": message(content={"text": "x"}), "content empty": message(content=""),
        "U+0000": message(content="a\0b"), "a tool alone": message(role="tool"),
        "no content": {"messages": [{"role": "user"}]}, "a text": {"messages": ["x"]},
        "answer alone": message(role="assistant"), "system alone": message(role="system"),
        "a late system": {"messages": [*message()["messages"], {"role": "system", "content": "x"}]},
        "two systems": message(role="system") | {"system": "x"}, "NaN": {"messages": float("nan")},
    }),
    "alpaca": (lambda text: {"instruction": text, "input": "", "output": "x"}, {
        "a number": {"instruction": 7, "output": "x"}, "null": {"instruction": None, "output": "x"},
        "empty": {"instruction": " ", "output": "x"}, "a list": {"instruction": ["x"]}, "true": {"instruction": True},
        "U+0000": {"instruction": "a\0b"}, "input a number": {"instruction": "x", "input": 7},
        "output an object": {"instruction": "x", "output": {"text": "y"}}, "NaN": {"instruction": float("nan")},
    }),
    "turns": (lambda text: {"turns": [text]}, {
        "no list": {"turns": "x"}, "empty list": {"turns": []}, "a number": {"turns": [7]}, "null": {"turns": [None]},
        "empty": {"turns": [" "]}, "lists in lists": {"turns": [["x"]]}, "an object": {"turns": [{"text": "x"}]},
        "U+0000": {"turns": ["x", "a\0b"]}, "NaN": {"turns": float("nan")}, "turns null": {"turns": None},
    }),
}

# Lines of plain text.
TEXTS = {
    "no UTF-8": b"\xff\xfe\xfd", "U+0000": b"a\0b", "a huge line": b"word " * 2_000_000, "spaces": b" \t ",
}


WHOLE = {
    "empty": b"", "white space": b" \n\n\t\n", "zeros": bytes(4096), "gzip": b"\x1f\x8b\x08\0" + bytes(64),
    "UTF-16": "\ufeff{\"prompt\": \"x\"}".encode("utf-16"), "half an array": b'[{"prompt": "x"}, {"prom',
    "an array of nothing": b"[]", "an object of an array": b'{"data": [{"prompt": "x"}]}', "brackets": b"[" * 100_000,
    "a quote": b'"' * 50_000, "magic alone": b"PAR1", "magic twice": b"PAR1PAR1",
    "a huge footer": b"PAR1" + b"\xff\xff\xff\x7fPAR1",
}


def among(bad, good):
    """A bad record between good ones."""
    return [*good[:2], bad, *good[2:]]


def lines(records):
    """Records as JSONL."""
    return b"".join(record + b"\n" for record in records)


def array(records):
    """Records as a JSON array."""
    return b"[\n" + b",\n".join(records) + b"\n]\n"


def of_others():
    """Poisons of the formats `messages`, `alpaca` and `turns`, also with a key twice, and of plain text."""
    for kind, (good, bads) in OTHERS.items():
        records = [json.dumps(good(text)).encode() for text in GOOD]
        twice = b'{"system": "x", ' + records[0][1:-1] + b', "system": "y"}'
        for fault, bad in [*((fault, json.dumps(bad).encode()) for fault, bad in bads.items()), ("a key twice", twice)]:
            yield kind, fault, "p.json", array(among(bad, records)), {3}
            yield kind, f"{fault}, lines", "p.jsonl", lines(among(bad, records)), {3}
    for fault, bad in TEXTS.items():
        counts = {3, 4} if fault == "a huge line" else {3}
        yield "text", fault, "p.txt", lines(among(bad, [text.encode() for text in GOOD])), counts


def of_parquet():
    """Parquet files by fault: some bytes each."""
    good, ids = parquet.file({"prompt": GOOD}), [1, 2, 3]
    chance = random.Random(5)
    files = {
        "numbers": parquet.file({"prompt": ids}), "NaN": parquet.file({"prompt": [float("nan")] * 3}),
        "no such column": parquet.file({"score": ids}), "no rows": parquet.file({"prompt": []}),
        "more rows than there are": parquet.file({"prompt": GOOD}, rows=1 << 40),
        "no UTF-8": parquet.file({"prompt": [b"\xff\xfe", b"x", b"\xc3"]}),
        "a length beyond the page": parquet.file({"prompt": GOOD}).replace(b"\x0e\0\0\0What", b"\xff\xff\xff\x7fWhat"),
        "columns of two lengths": parquet.file({"prompt": GOOD, "answer": ["x"]}),
    }
    for share in (0.1, 0.5, 0.9, 0.99):
        files[f"cut at {share}"] = good[:int(len(good) * share)]
    for number in range(24):
        at = chance.randrange(4, len(good) - 4)
        files[f"flip {number}"] = good[:at] + bytes([good[at] ^ (1 << chance.randrange(8))]) + good[at + 1:]
    return files


def poisons():
    """(format, fault, file name, bytes, conversations that may come out of it)."""
    good = [json.dumps({"prompt": text}).encode() for text in GOOD]
    talks = [json.dumps({"conversations": [{"from": "human", "value": text}]}).encode() for text in GOOD]
    for fault, bad in PROMPTS.items():
        counts = {3, 4} if fault in TAKEN | {"other keys"} else {3}
        yield "JSONL", fault, "p.jsonl", lines(among(bad, good)), counts
        yield "JSON", fault, "p.json", array(among(bad, good)), counts | ARRAYS.get(fault, set())
    for fault, bad in TALKS.items():
        bad = json.dumps(bad).encode()
        counts = {3, 4} if fault == "id an object" else {3}
        yield "ShareGPT", fault, "p.json", array(among(bad, talks)), counts
        yield "ShareGPT", f"{fault}, lines", "p.jsonl", lines(among(bad, talks)), counts
    yield from of_others()
    for fault, data in WHOLE.items():
        for name in ("p.jsonl", "p.json", "p.parquet"):
            yield "whole files", f"{fault}, {name}", name, data, set(range(1, 4)) if fault == "half an array" else set()
    yield "Parquet", "nothing wrong", "p.parquet", parquet.file({"prompt": GOOD}), {3}
    for fault, data in of_parquet().items():
        yield "Parquet", fault, "p.parquet", data, {1, 2, 3}
