#!/usr/bin/env python3
"""Checks the shape of the source code and prints its size per crate.

    scripts/check_source.py                 prints each violation and exits with 1 if there are any
    scripts/check_source.py COMMIT...       prints lines of source without tests per crate at commits

* No Rust file is longer than 400 lines.
* No function is longer than 40 lines. Counted as clippy's `too_many_lines` counts: lines of the body that are
  neither blank nor comments.
* Unit tests are in files of their own: no `mod tests {` below `src`.
* At most 40 lines of library code call `unwrap` or `expect` or panic. Library code is what is below `src` of
  all crates but for test files and the program's `main.rs`. `unreachable!` states what the types cannot, so
  it is not counted.
* No file names an absolute path of the machine it was written on.

Only the standard library is needed.
"""

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE, MAX_FUNCTION, MAX_PANICS = 400, 40, 40
RUST = ("crates", "tools", "fuzz")
TEXT = (*RUST, "scripts", "docs", "configs", ".ci", "datasets")
SUFFIXES = {".rs", ".py", ".sh", ".toml", ".md", ""}
TEST_FILES = re.compile(r"(^|_)tests(\.rs)?$")

# Comments, strings and characters, blanked so that nothing inside them is taken for code.
LITERAL = re.compile(
    r"""(?P<comment>//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |b?r(?P<hash>\#*)".*?"(?P=hash)|[bc]?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\(?:u\{[^}]*\}|x..|.))'""",
    re.VERBOSE | re.DOTALL,
)
FUNCTION = re.compile(r"\bfn\s+(\w+)")
PANIC = re.compile(r"\.unwrap\(\)|\.expect\(|\bpanic!")
TEST_BLOCK = re.compile(r"#\[cfg\(test\)\]\s*mod\s+\w+\s*\{")
INLINE_TESTS = re.compile(r"\bmod\s+tests\s*\{")
MACHINE_PATH = re.compile(
    r"""(?:^|[\s"'`=(:])(/(?:home|root|Users|mnt|media|work|workspace)/[\w.-]+|[A-Z]:\\Users\\)""", re.MULTILINE
)


def without(text, comments_only):
    """The text with comments (and literals) replaced by as many lines of nothing."""

    def blank(match):
        if comments_only and match["comment"] is None:
            return match[0]
        lines = "\n" * match[0].count("\n")
        return lines if match["comment"] is not None else '""' + lines

    return LITERAL.sub(blank, text)


def functions(code):
    """(name, line, lines of the body) of each function of a file without comments and literals."""
    lines = code.split("\n")
    filled = [0]
    for line in lines:
        filled.append(filled[-1] + bool(line.strip()))
    for match in FUNCTION.finditer(code):
        at, depth = match.end(), 0
        while at < len(code) and not (code[at] in "{;" and depth == 0):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(code[at], 0)
            at += 1
        if at == len(code) or code[at] == ";":
            continue
        start, depth = at, 0
        while True:
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
            if depth == 0 or at == len(code):
                break
        first, last = code.count("\n", 0, start), code.count("\n", 0, at)
        yield match[1], code.count("\n", 0, match.start()) + 1, filled[last] - filled[first + 1]


def files(folders, suffixes):
    """Files below some folders, and at the root, without what is built or downloaded."""
    found = [path for path in ROOT.iterdir() if path.suffix in (".md", ".toml", "") and path.name != ".git"]
    for folder in folders:
        found += (ROOT / folder).rglob("*")
    hidden = {"target", ".venv", "__pycache__", "corpus", "artifacts"}
    inside = lambda path: path.relative_to(ROOT).parts
    return sorted(
        path for path in found if path.is_file() and path.suffix in suffixes and not hidden.intersection(inside(path))
    )


def test_blocks(text):
    """Lines of inline blocks of tests."""
    code, lines = without(text, False), 0
    for match in TEST_BLOCK.finditer(code):
        at, depth = match.end(), 1
        while depth and at < len(code):
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        lines += code.count("\n", match.start(), at) + 1
    return lines


def sizes_at(commit):
    """Lines of source without tests, by crate."""
    sizes = {}
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for file in files:
            parts = file.name.split("/")
            in_src = parts[0] in ("crates", "tools") and "src" in parts
            if not in_src or not file.name.endswith(".rs") or any(TEST_FILES.search(part) for part in parts):
                continue
            text = files.extractfile(file).read().decode()
            sizes[parts[1]] = sizes.get(parts[1], 0) + text.count("\n") - test_blocks(text)
    return sizes


def compare(commits):
    columns = [sizes_at(commit) for commit in commits]
    print(f"{'crate':16}" + "".join(f"{commit[:10]:>12}" for commit in commits))
    for crate in sorted(set().union(*columns)):
        print(f"{crate:16}" + "".join(f"{sizes.get(crate, '-'):>12}" for sizes in columns))
    print(f"{'all':16}" + "".join(f"{sum(sizes.values()):12}" for sizes in columns))


def main():
    if len(sys.argv) > 1:
        return compare(sys.argv[1:])
    broken, panics, sizes = [], [], {}
    longest = (0, "")
    for path in files(RUST, {".rs"}):
        name, parts = path.relative_to(ROOT).as_posix(), path.relative_to(ROOT).parts
        text = path.read_text(encoding="utf-8")
        length = text.count("\n")
        longest = max(longest, (length, name))
        if length > MAX_FILE:
            broken.append(f"{name}: {length} lines, at most {MAX_FILE}")
        code = without(text, False)
        for function, line, body in functions(code):
            if body > MAX_FUNCTION:
                broken.append(f"{name}:{line}: fn {function} has {body} lines, at most {MAX_FUNCTION}")
        in_src = "src" in parts
        test = not in_src or any(TEST_FILES.search(part) for part in parts)
        if in_src:
            for match in INLINE_TESTS.finditer(code):
                line = code.count("\n", 0, match.start()) + 1
                broken.append(f"{name}:{line}: tests are to be in a file of their own")
        if in_src and not test and parts[0] == "crates" and path.name != "main.rs":
            lines = code.split("\n")
            panics += [f"{name}:{at}: {line.strip()}" for at, line in enumerate(lines, 1) if PANIC.search(line)]
        crate = "/".join(parts[:2]) if parts[0] != "fuzz" else "fuzz"
        size = sizes.setdefault(crate, [0, 0])
        size[test] += length
    if len(panics) > MAX_PANICS:
        broken += panics
        broken.append(f"{len(panics)} lines of library code may panic, at most {MAX_PANICS}")
    for path in files(TEXT, SUFFIXES):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for match in MACHINE_PATH.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            broken.append(f"{path.relative_to(ROOT).as_posix()}:{line}: {match[1]} is a path of one machine")
    print(f"{'crate':24}{'source':>8}{'tests':>8}")
    for crate, (source, tests) in sorted(sizes.items()):
        print(f"{crate:24}{source:8}{tests:8}")
    print(f"{'all':24}{sum(s for s, _ in sizes.values()):8}{sum(t for _, t in sizes.values()):8}")
    print(f"longest file: {longest[0]} lines, {longest[1]}; lines that may panic: {len(panics)}")
    for line in broken:
        print(line)
    if broken:
        print(f"{len(broken)} violations")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
