#!/usr/bin/env python3
"""Finds circular imports between the source files of each crate.

    scripts/check_imports.py        prints each circle and exits with 1 if there are any

A file depends on another file of its crate if it names something that is defined there, by `use` or by a path
in the code. Paths are resolved as the compiler resolves them: `crate::`, `self::`, `super::`, modules and
names in scope.

* A name that a module only passes on (`pub use child::Item`) counts for the file that defines it, not for the
  module that passes it on. So `super::Item` is a dependency on the parent only if the parent defines `Item`.
* `mod child;` and a `pub use` of a child's item are no dependency of the parent: every folder module has
  them. They become one when the parent's own code uses the name, in a signature or in a body.
* A glob import (`use super::*`) is a dependency on the file that defines the module.
* Files that only tests compile (`tests.rs` and the like) are part of this. Nothing depends on them, so they
  close no circle.

A parent and its child therefore form a circle only if the child uses what the parent defines and the parent
uses what the child defines. The cure is a third file: move what both need out of the parent, or what combines
them into it.

Methods are not followed: `value.method()` names no file. Only the standard library is needed.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("crates/*/src", "tools/*/src", "fuzz/src")
ITEMS = {"fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"}
KEYWORDS = {"crate", "self", "super"}

# Comments, strings and characters first, so that nothing inside them is taken for code.
TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|b?r(?P<hash>\#*)".*?"(?P=hash)|[bc]?"(?:[^"\\]|\\.)*"
        |b?'(?:[^'\\]|\\(?:u\{[^}]*\}|x..|.))'|'[A-Za-z_]\w*|\d[\w.]*)
    |(?P<name>r\#\w+|[A-Za-z_]\w*)
    |(?P<mark>::|=>|->|[^\s])
    """,
    re.VERBOSE | re.DOTALL,
)


class Module:
    """A module: its file, what it defines, what it imports."""

    def __init__(self, file):
        self.file = file
        self.defined = set()
        self.imports = {}  # name -> path
        self.globs = []  # paths
        self.children = set()


class Source:
    """The modules of one crate and the paths that its files name."""

    def __init__(self, folder):
        self.folder = folder
        self.modules = {}  # path of names -> Module
        self.macros = {}  # name of a macro -> file
        self.named = []  # (file, line, module, path as written, name if it is only passed on, is it a `use`)
        for root in ("lib.rs", "main.rs"):
            if (folder / root).is_file():
                # A program beside a library is a crate of its own.
                self.read(folder / root, ("main",) if root == "main.rs" else ())

    def read(self, file, path):
        """Reads a module's file, and the files of the modules that it declares."""
        Reader(self, file, path).run()
        folder = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.with_suffix("")
        for child in sorted(self.modules[path].children):
            for candidate in (folder / f"{child}.rs", folder / child / "mod.rs"):
                if candidate.is_file():
                    self.read(candidate, (*path, child))

    def start(self, module):
        """The root of the crate that a module belongs to."""
        return ("main",) if module[:1] == ("main",) and ("main",) in self.modules else ()

    def resolve(self, module, path, imported=False, seen=frozenset(), surely=False):
        """The file that defines what `path` means inside `module`, or None if that is no file of this crate.

        `imported`: the path stands in a `use`, where a name that is imported itself means another crate.
        `surely`: only if the name is seen to be defined there; else a macro may define it.
        """
        here, head = self.modules[module], path[0]
        if head == "crate":
            return self.inside(self.start(module), path[1:], seen, surely)
        known = head in KEYWORDS or head in here.children or head in here.defined
        if known or (not imported and head in here.imports):
            return self.inside(module, path, seen, surely)
        return None

    def inside(self, module, path, seen, surely):
        """The file that defines `path`, seen from within `module`."""
        here = self.modules.get(module)
        if here is None or (module, path) in seen:
            return None
        seen = seen | {(module, path)}
        if not path:
            return here.file
        head, rest = path[0], path[1:]
        if head == "super":
            return self.inside(module[:-1], rest, seen, surely)
        if head == "self":
            return self.inside(module, rest, seen, surely)
        if (*module, head) in self.modules:
            return self.inside((*module, head), rest, seen, surely)
        if head in here.imports:
            return self.resolve(module, here.imports[head] + rest, True, seen, surely)
        if head in here.defined:
            return here.file
        for glob in here.globs:
            file = self.resolve(module, (*glob, *path), True, seen, True)
            if file is not None:
                return file
        return self.macros.get(head) or (None if surely else here.file)

    def dependencies(self):
        """(file, other file) -> the first line that makes the one depend on the other."""
        found = {}
        for file, line, module, path, passed, used in self.named:
            glob = path[-1:] == ("*",)
            target = self.resolve(module, path[:-1] if glob else path, used)
            if target is None or target == file:
                continue
            if passed is not None and self.is_below(target, file):
                continue
            edge = (file, target)
            if edge not in found or line < found[edge][0]:
                found[edge] = (line, "::".join(path))
        return found

    def is_below(self, file, parent):
        """Whether a file belongs to a module below the module of `parent`."""
        folder = parent.parent if parent.name in ("lib.rs", "main.rs", "mod.rs") else parent.with_suffix("")
        return folder in file.parents


class Reader:
    """Reads one file: its items, its imports, and every path that it names."""

    def __init__(self, source, file, path):
        self.source, self.file = source, file
        text = file.read_text(encoding="utf-8")
        self.tokens, line, at = [], 1, 0
        for match in TOKEN.finditer(text):
            line += text.count("\n", at, match.start())
            at = match.start()
            if match["skip"] is None:
                self.tokens.append((match["name"] or match["mark"], line))
        self.stack = [(path, 0)]
        self.open(path)
        self.uses = []  # (line, module, path, alias, is it passed on)
        self.words = defaultdict(int)

    def open(self, path):
        self.source.modules.setdefault(path, Module(self.file))

    def text(self, index):
        return self.tokens[index][0] if index < len(self.tokens) else ""

    def run(self):
        index = depth = 0
        public = False
        paths = []
        while index < len(self.tokens):
            token, line = self.tokens[index]
            module = self.stack[-1][0]
            here = self.source.modules[module]
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
                if len(self.stack) > 1 and depth < self.stack[-1][1]:
                    self.stack.pop()
            elif token == "pub":
                public = True
                index += 1
                if self.text(index) == "(":
                    while self.text(index) != ")":
                        index += 1
                    index += 1
                continue
            elif token == "use" and self.text(index - 1) != "::":
                index = self.use(index + 1, line, module, public)
                public = False
                continue
            elif token == "mod" and self.text(index + 2) in (";", "{"):
                name = self.text(index + 1)
                here.children.add(name)
                if self.text(index + 2) == "{":
                    self.open((*module, name))
                    depth += 1
                    self.stack.append(((*module, name), depth))
                public = False
                index += 3
                continue
            elif token == "macro_rules" and self.text(index + 1) == "!":
                name = self.text(index + 2)
                here.defined.add(name)
                self.source.macros[name] = self.file
                index += 3
                continue
            elif token in ITEMS and re.match(r"[A-Za-z_]", self.text(index + 1) or "-"):
                if depth == self.stack[-1][1]:
                    here.defined.add(self.text(index + 1))
                public = False
            elif re.match(r"[A-Za-z_]", token) and self.text(index - 1) != "::":
                written = [token]
                while self.text(index + 1) == "::" and re.match(r"[A-Za-z_]", self.text(index + 2) or "-"):
                    written.append(self.text(index + 2))
                    index += 2
                before = index - 2 * len(written) + 1
                # No field or method, but maybe the end of a range.
                if self.text(before) != "." or self.text(before - 1) == ".":
                    self.words[(module, written[0])] += 1
                    if len(written) > 1:
                        paths.append((line, module, tuple(written)))
                public = False
            elif token != "#" and token != "]":
                public = False
            index += 1
        self.note(paths)

    def use(self, index, line, module, public):
        """Reads one `use` tree up to its semicolon."""

        def tree(at, prefix):
            path = list(prefix)
            while True:
                token = self.text(at)
                if token == "{":
                    at += 1
                    while self.text(at) != "}":
                        at = tree(at, path)
                        if self.text(at) == ",":
                            at += 1
                    return at + 1
                if token == "::":
                    at += 1
                    continue
                if token in (",", "}", ";", ""):
                    return at
                path.append(token)
                at += 1
                alias = None
                if self.text(at) == "as":
                    alias, at = self.text(at + 1), at + 2
                if self.text(at) != "::":
                    self.uses.append((self.tokens[at - 1][1], module, tuple(path), alias, public))
                    return at

        return tree(index, []) + 1

    def note(self, paths):
        """Hands what was read to the crate."""
        for line, module, path, alias, public in self.uses:
            here = self.source.modules[module]
            if path[-1] == "*":
                here.globs.append(path[:-1])
                name = "*"
            else:
                if path[-1] == "self":
                    path = path[:-1]
                name = alias or path[-1]
                if name != "_" and path != (name,):
                    here.imports[name] = path
            # Passed on and not used here itself.
            passed = name if public and (name == "*" or not self.words[(module, name)]) else None
            self.source.named.append((self.file, line, module, path, passed, True))
        for line, module, path in paths:
            self.source.named.append((self.file, line, module, path, None, False))


def components(edges):
    """Groups of files that depend on each other (Tarjan)."""
    graph = defaultdict(set)
    for a, b in edges:
        graph[a].add(b)
    order, low, stack, groups = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == node:
                    break
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted({a for a, _ in edges}):
        if node not in order:
            visit(node)
    return sorted(groups)


def main():
    found = 0
    for pattern in CRATES:
        for folder in sorted(ROOT.glob(pattern)):
            edges = Source(folder).dependencies()
            for group in components(edges):
                found += 1
                print(f"{folder.parent.relative_to(ROOT)}: {len(group)} files import each other in a circle")
                for (a, b), (line, path) in sorted(edges.items()):
                    if a in group and b in group:
                        print(f"    {a.relative_to(folder)}:{line} -> {b.relative_to(folder)}    {path}")
    if found:
        print(f"{found} circles")
        return 1
    print("no circular imports")
    return 0


if __name__ == "__main__":
    sys.exit(main())
