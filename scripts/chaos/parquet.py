"""Writes small Parquet files: required columns, one row group, no compression.

The format: https://parquet.apache.org/docs/file-format/; its metadata is in Thrift's compact protocol.
"""

import struct

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
# Physical types of Parquet by the Python type of a column's values.
TYPES = {int: 2, float: 5, str: 6, bytes: 6}


def varint(number):
    """An unsigned integer, seven bits a byte."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def encoded(kind, value):
    """A value in the compact protocol; a list is `(kind of its elements, elements)`, a structure its fields."""
    if kind in (I32, I64):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == STRUCT:
        return fields(value)
    inner, items = value
    head = bytes([len(items) << 4 | inner]) if len(items) < 15 else bytes([0xF0 | inner]) + varint(len(items))
    return head + b"".join(encoded(inner, item) for item in items)


def fields(values):
    """A structure of `(id, kind, value)`, with ids in order."""
    out, last = b"", 0
    for number, kind, value in values:
        out += bytes([number - last << 4 | kind]) + encoded(kind, value)
        last = number
    return out + b"\0"


def plain(value):
    """A value in the encoding PLAIN."""
    if isinstance(value, int):
        return struct.pack("<q", value)
    if isinstance(value, float):
        return struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(data)) + data


def page(values):
    """A data page with its header."""
    data = b"".join(plain(value) for value in values)
    about = [(1, I32, len(values)), (2, I32, 0), (3, I32, 3), (4, I32, 3)]
    return fields([(1, I32, 0), (2, I32, len(data)), (3, I32, len(data)), (5, STRUCT, about)]) + data


def file(columns, rows=None):
    """A file of columns by name. `rows` is the number of rows that its metadata claims, if that is another one."""
    out, chunks, elements = b"PAR1", [], []
    count = len(next(iter(columns.values()))) if rows is None else rows
    for name, values in columns.items():
        kind = TYPES[type(values[0])] if values else 6
        data, start, name = page(values), len(out), name.encode()
        out += data
        about = [(1, I32, kind), (2, LIST, (I32, [0])), (3, LIST, (BINARY, [name])), (4, I32, 0), (5, I64, len(values)),
                 (6, I64, len(data)), (7, I64, len(data)), (9, I64, start)]
        chunks.append([(2, I64, start), (3, STRUCT, about)])
        text = [(6, I32, 0)] if kind == 6 else []
        elements.append([(1, I32, kind), (3, I32, 0), (4, BINARY, name), *text])
    schema = [[(4, BINARY, b"schema"), (5, I32, len(columns))], *elements]
    group = [(1, LIST, (STRUCT, chunks)), (2, I64, len(out) - 4), (3, I64, count)]
    meta = fields([(1, I32, 1), (2, LIST, (STRUCT, schema)), (3, I64, count), (4, LIST, (STRUCT, [group]))])
    return out + meta + struct.pack("<I", len(meta)) + b"PAR1"
