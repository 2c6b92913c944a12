#!/usr/bin/env python3
"""Checks README.md and docs: commands, links, widths, names.

    scripts/docs_check.py --static            no program needed: links, widths, environment variables, doc comments
    scripts/docs_check.py GORGON              also runs every `console` block, in a scratch copy of the repository
    scripts/docs_check.py GORGON --update     also writes outputs into the pages, but for those with `…` in them
    scripts/docs_check.py GORGON PAGE ...     runs the blocks of these pages only (and of the pages before them
                                              that they name in a line <!-- after: PAGE ... -->)

A block ```console is run: lines that begin with `$ ` are commands, the lines after one are its output. Output is
compared word by word. Numbers and their units may differ, and `…` stands for any words. A block
```console needs: PROGRAM is run where that program is installed. A block ```console no-run: REASON is not run: its
gorgon commands are checked against `gorgon VERB --help`, and the reason names the file that runs them.
"""

import argparse, os, pathlib, re, shlex, shutil, subprocess, sys, tempfile, textwrap, urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs/src"
WIDTH = 110
README_LINES = 120
# Lines of an entry of the log, its title and empty lines apart.
ENTRY_LINES = 12
FENCE = re.compile(r"^```(console|sh)?[ \t]*(?:(no-run|needs)(?::[ \t]*(.*))?)?$")
NUMBER = re.compile(r"(?<![A-Za-z_0-9.])[-+±~]?\d[\d.,]*(?:e[-+]?\d+)?(?:[ ]?(?:[KMGT]i?B?|B|ms|s|min|h|%))?(?![A-Za-z_])")
ENVIRONMENT = re.compile(r'"((?:[A-Z][A-Z0-9]*_)+[A-Z0-9]+)"')
# Upper-case words in the sources that are no environment variables.
NO_VARIABLE = {"CAUSAL_LM", "CARGO_PKG_VERSION", "CARGO_MANIFEST_DIR", "BASE_MODEL"}
# Options that most verbs have: a test that has them need not run a block that does.
COMMON_OPTIONS = {"--drafter", "--heads", "--model", "--prompt", "--prompts", "--tree"}
# Types of tensors in GGUF files, which the sources name.
GGML_TYPE = re.compile(r"(I?Q|TQ)\d_\w+")
problems = []


def problem(path, line, text):
    problems.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def pages():
    """README, then the book's pages in the order of its summary."""
    summary = (BOOK / "SUMMARY.md").read_text()
    return [ROOT / "README.md"] + [BOOK / name for name in re.findall(r"\]\(([^)]+\.md)\)", summary)]


def blocks(path):
    """Yields (first line, kind, reason, lines) of fenced blocks; kind is console, sh or None. The reason says why a
    block is not run here."""
    lines, at = path.read_text().split("\n"), 0
    while at < len(lines):
        if not lines[at].startswith("```"):
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end] != "```":
            end += 1
        match = FENCE.match(lines[at])
        kind = match and match.group(1)
        reason = (match.group(3) or "-") if match and match.group(2) else None
        if match and match.group(2) == "needs":
            reason = None if shutil.which(reason) else f"{reason} is not installed"
        yield at + 1, kind, reason, lines[at + 1 : end]
        at = end + 1


def commands(lines):
    """[command, output lines, its own lines] of a console block; a command line may go on after a backslash."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append([line[2:], [], [line]])
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] = found[-1][0][:-1] + line.strip()
            found[-1][2].append(line)
        elif found:
            found[-1][1].append(line)
    return found


def words(text):
    """The words of an output, numbers with their units as one sign."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"[-─]{3,}", " ", text)
    return " ".join(NUMBER.sub("#", " ".join(text.split())).split())


def folded(text):
    """An output as a page shows it: long lines broken as a terminal breaks them."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip("\n").split("\n")
    wrap = textwrap.TextWrapper(WIDTH, break_on_hyphens=False, break_long_words=False)
    return "\n".join("\n".join(wrap.wrap(line)) if len(line) > WIDTH else line for line in lines)


def alike(expected, printed):
    parts = [re.escape(words(part)) for part in expected.split("…")]
    return re.fullmatch(r"\s*.*?\s*".join(parts), words(printed), re.S) is not None


# ---------------------------------------------------------------- commands

class Program:
    """The command line of a gorgon binary, by its own help."""

    def __init__(self, binary):
        self.binary, self.known = binary, {}

    def help(self, verbs):
        if verbs not in self.known:
            run = subprocess.run([self.binary, *verbs, "--help"], capture_output=True, text=True)
            self.known[verbs] = run.stdout if run.returncode == 0 else None
        return self.known[verbs]

    def fault(self, arguments):
        """Why `gorgon ARGUMENTS` is not a command line, or None."""
        verbs = ()
        for word in arguments:
            if word.startswith("-") or not re.fullmatch(r"[a-z][a-z0-9-]*", word):
                break
            text = self.help(verbs)
            if "Commands:" not in text:
                break
            if self.help(verbs + (word,)) is None:
                return f"no verb {' '.join(verbs + (word,))}"
            verbs += (word,)
        text = self.help(verbs)
        for word in arguments:
            if word == "--":
                break
            if re.match(r"--[a-z]", word) and not re.search(re.escape(word.split("=")[0]) + r"(?![a-z-])", text):
                return f"no option {word} in gorgon {' '.join(verbs)}"
            if re.fullmatch(r"-[a-zA-Z]", word) and not re.search(rf"(?m)^\s+{word}\b", text):
                return f"no option {word} in gorgon {' '.join(verbs)}"
        return None


def gorgon_calls(command):
    """The arguments of every gorgon in a shell command."""
    for part in re.split(r"\||&&|;|\$\(|\)", command):
        try:
            found = shlex.split(part, comments=True)
        except ValueError:
            continue
        if any(word.rsplit("/", 1)[-1] == "gorgon" for word in found):
            start = [word.rsplit("/", 1)[-1] for word in found].index("gorgon")
            yield [word for word in found[start + 1 :] if word not in (">", "2>", "<")]


def check_spelling(program, path):
    for line, kind, _, lines in blocks(path):
        if kind is None:
            continue
        shell = [command for command, _, _ in commands(lines)] if kind == "console" else "\n".join(lines).replace("\\\n", " ").split("\n")
        for command in shell:
            for arguments in gorgon_calls(command):
                if fault := program.fault(arguments):
                    problem(path, line, f"{command}: {fault}")
    prose = re.sub(r"(?ms)^```.*?^```$", lambda block: "\n" * block.group().count("\n"), path.read_text())
    for match in re.finditer(r"`gorgon ([^`]*)`", prose):
        for arguments in gorgon_calls("gorgon " + match.group(1).replace("…", "").replace("\n", " ")):
            if fault := program.fault([word for word in arguments if word not in ("VERB", "[OPTIONS]")]):
                problem(path, prose[: match.start()].count("\n") + 1, f"`gorgon {match.group(1)}`: {fault}")


def run_page(path, scratch, environment, update):
    text = path.read_text()
    read = text.split("\n")
    for line, kind, reason, lines in blocks(path):
        if kind != "console" or reason:
            continue
        for command, expected, typed in commands(lines):
            print(f"{path.relative_to(ROOT)}:{line}: {command}", flush=True)
            run = subprocess.run(["bash", "-c", command], cwd=scratch, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
            wanted = 0
            if expected and (status := re.fullmatch(r"\[exit code (\d)\]", expected[-1])):
                wanted = int(status.group(1))
                expected = expected[:-1]
            if run.returncode != wanted:
                problem(path, line, f"{command}: exit code {run.returncode}\n{run.stdout}")
                continue
            if update and run.stdout.strip() and "…" not in "".join(expected):
                old, new = "\n".join([*typed, *expected]), "\n".join(typed) + "\n" + folded(run.stdout)
                # All that was written until now is in front of the block.
                at = sum(len(above) + 1 for above in read[:line]) + len(text) - len("\n".join(read))
                text = text[:at] + text[at:].replace(old, new, 1)
            elif not alike("\n".join(expected), run.stdout):
                problem(path, line, f"{command}: expected\n{words(chr(10).join(expected))}\nprinted\n{words(run.stdout)}")
    if text != "\n".join(read):
        path.write_text(text)


def run_blocks(binary, chosen, update):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gorgon-docs-"))
    scratch = folder / "gorgon"
    scratch.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, (name.decode() for name in listed)):
        if (ROOT / name).is_file():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, scratch / name)
    (folder / "bin").mkdir()
    (folder / "bin/gorgon").symlink_to(binary)
    home = folder / "home"
    home.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GORGON_", "HF_"))}
    environment.update(PATH=f"{folder / 'bin'}:{os.environ['PATH']}", COLUMNS=str(WIDTH), NO_COLOR="1",
                       HOME=str(home), XDG_CACHE_HOME=str(home / "cache"), HF_HUB_OFFLINE="1")
    try:
        for path in chosen:
            run_page(path, scratch, environment, update)
    finally:
        shutil.rmtree(folder)


# ---------------------------------------------------------------- text

def check_text(path):
    fenced = False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        fenced ^= line.startswith("```")
        wide = len(line) > WIDTH and not (line.startswith("|") and not fenced)
        if wide and "http" not in line:
            problem(path, number, f"{len(line)} columns, {WIDTH} at most")
    if path.name == "README.md" and path.parent == ROOT and number - 1 > README_LINES:
        problem(path, number, f"{number - 1} lines, {README_LINES} at most")


def anchors(path):
    heads = re.findall(r"(?m)^#+ (.*)$", path.read_text())
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def check_links(path):
    prose = re.sub(r"(?ms)^```.*?^```$", "", path.read_text())
    for target in re.findall(r"\]\(<?([^)>\s]+)>?\)", prose) + re.findall(r"\{\{#include ([^}]+)\}\}", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = urllib.parse.unquote(target).partition("#")
        to = (path.parent / name).resolve() if name else path
        if not to.exists():
            problem(path, 0, f"link to {target}: there is no such file")
        elif BOOK in path.parents and name.endswith(".md") and BOOK not in to.parents and "include" not in prose:
            problem(path, 0, f"link to {target}: outside the book")
        elif anchor and to.suffix == ".md" and anchor not in anchors(to):
            problem(path, 0, f"link to {target}: no such heading")


def check_summary():
    listed = set(pages())
    for path in sorted(BOOK.rglob("*.md")):
        if path.name != "SUMMARY.md" and path not in listed:
            problem(path, 0, "not in docs/src/SUMMARY.md")


def check_environment():
    page = BOOK / "reference/environment.md"
    told = set(re.findall(r"`([A-Z][A-Z0-9_]+)", page.read_text()))
    read = set()
    for path in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        if path.name != "tests.rs":
            words = set(ENVIRONMENT.findall(path.read_text())) - NO_VARIABLE
            read |= {word for word in words if not GGML_TYPE.fullmatch(word)}
    for name in sorted(read - told):
        problem(page, 0, f"{name} is in the sources and not on this page")
    for name in sorted(told - read):
        if not any(name in path.read_text() for path in [ROOT / "Makefile", *ROOT.glob("scripts/**/*.sh")]
                   + list(ROOT.glob("crates/**/*.rs")) + list(ROOT.glob("tools/**/*.rs"))):
            problem(page, 0, f"{name} is on this page and nowhere in the sources")


def named_files(reason):
    """The files that a reason names; a bare name lies in the folder of the one before it."""
    found = []
    for name in re.findall(r"[\w./-]*[\w-]\.(?:rs|md|py|sh)\b|\.ci/run", reason):
        beside = [found[-1].parent / name] if found and "/" not in name else []
        found += [path for path in [ROOT / name, *beside] if path.is_file()][:1]
    return found


def unused(calls, text):
    """The options of some gorgon calls that a text does not have; where they have only options of many verbs, the
    verbs if none of these or of those options is there."""
    has = lambda word: re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)
    options = {word.split("=")[0] for call in calls for word in call if re.match(r"--[a-z]", word)}
    if own := options - COMMON_OPTIONS:
        return sorted(option for option in own if not has(option))
    verbs = {word for call in calls for word in call[:1] if re.fullmatch(r"[a-z][a-z0-9-]*", word)}
    return [] if any(map(has, verbs | options)) else sorted(verbs)


def check_reasons(path):
    """A block that is not run says which file of the repository runs its commands, and that file has their options."""
    for line, kind, reason, lines in blocks(path):
        if not reason or "not installed" in reason:
            continue
        files = named_files(reason)
        if not files:
            problem(path, line, f"no-run: {reason}: no file that runs it")
        # Tests of a library call it, and not the program.
        if kind != "console" or any(file.suffix == ".rs" and ROOT / "crates/cli" not in file.parents for file in files):
            continue
        calls = [call for command, _, _ in commands(lines) for call in gorgon_calls(command)]
        for word in unused(calls, "".join(file.read_text() for file in files)):
            problem(path, line, f"no-run: {reason}: no {word} in there")


def check_log(path):
    for entry in re.split(r"(?m)^## ", path.read_text())[1:]:
        title, *lines = entry.split("\n")
        if (count := sum(bool(line.strip()) for line in lines)) > ENTRY_LINES:
            problem(path, 0, f"{title}: {count} lines, {ENTRY_LINES} at most")


def check_help_image():
    """The picture of `gorgon --help` has the verbs and global options of the reference."""
    page, image = BOOK / "reference/cli.md", BOOK / "images/help.svg"
    shown = re.sub(r"<[^>]+>", " ", image.read_text()).replace("&#160;", " ")
    text = page.read_text()
    options = re.search(r"(?ms)^## Options of every verb\n(.*?)^## ", text)
    known = re.findall(r"(?m)^- `(?:-\w, )?(--[a-z0-9-]+)", options.group(1)) if options else []
    verbs = re.findall(r"(?m)^## gorgon ([a-z]+)$", text)
    if not known or not verbs:
        problem(page, 0, "no options of every verb, or no verbs, are found on this page")
    # A verb begins a row; elsewhere it may be a word of another verb's description.
    rows = [(name, rf"(?m)^ {{1,8}}{name}(?![\w-])") for name in verbs]
    for name, row in rows + [(name, rf"(?<![\w-]){name}(?![\w-])") for name in known]:
        if not re.search(row, shown):
            problem(image, 0, f"{name} is missing: make captures")


def check_messages():
    """Every message of the troubleshooting page is in the sources; `…` stands for values."""
    page = BOOK / "troubleshooting.md"
    sources = "".join(path.read_text() for path in ROOT.glob("crates/*/src/**/*.rs"))
    sources = re.sub(r"\\\n\s*", "", sources).replace('\\"', '"')
    for heading in re.findall(r"(?m)^### `(.*)`$", page.read_text()):
        for part in heading.split("…"):
            if len(part.strip()) > 6 and part.strip() not in sources:
                problem(page, 0, f"message {heading!r}: {part.strip()!r} is not in the sources")


def check_comments():
    for path in sorted([*ROOT.glob("crates/**/*.rs"), *ROOT.glob("tools/**/*.rs"), *ROOT.glob("fuzz/src/**/*.rs")]):
        lines = path.read_text().split("\n")
        for number, line in enumerate(lines, 1):
            if re.match(r"\s*//[/!] (What|The same)\b", line):
                problem(path, number, f"doc comment begins with {line.strip()[4:].split()[0]!r}: {line.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gorgon", nargs="?", type=pathlib.Path)
    parser.add_argument("page", nargs="*", type=pathlib.Path)
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--update", action="store_true")
    given = parser.parse_args()
    everything = pages()
    others = ["docs/ARCHITECTURE.md", "docs/ADD_A_METHOD.md", "docs/LOG.md", "docs/log/2026-11.md"]
    for path in everything + [ROOT / name for name in others]:
        if not path.is_file():
            problems.append(f"{path}: in the summary, and not there")
            continue
        check_text(path)
        check_links(path)
        check_reasons(path)
    check_log(ROOT / "docs/LOG.md")
    check_help_image()
    check_summary()
    check_environment()
    check_messages()
    check_comments()
    if not given.static:
        if not given.gorgon or not given.gorgon.is_file():
            sys.exit("name the gorgon program, or --static")
        program = Program(given.gorgon.resolve())
        for path in filter(pathlib.Path.is_file, everything):
            check_spelling(program, path)
        chosen = [path for path in everything if not given.page or path in [page.resolve() for page in given.page]]
        run_blocks(given.gorgon.resolve(), [path for path in chosen if path.is_file()], given.update)
    for text in problems:
        print(text, file=sys.stderr)
    print(f"{len(everything)} pages, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
