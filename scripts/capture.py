#!/usr/bin/env python3
"""Captures of gorgon in a terminal, as SVG files for the docs.

    scripts/capture.py [--gorgon FILE] [--demo FOLDER] [--out docs/src/images] [NAME ...]

Each scene runs the real program in a terminal of 100 columns and 30 rows (more for help and bench),
types its keys when the screen shows what they wait for, and draws the last screen. Scenes are chat, bench, runs, help and error; without names, all are drawn.
`chat` and `bench` draft in the grown body that `make demo` leaves, where drafts pay on every processor. Needs pyte and rich from PyPI.
"""

import argparse
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from itertools import groupby
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 100, 30
LONG = 80
# Seconds that a screen may take to show what the next keys wait for.
PATIENCE = 300
NAMES = {"brown": "yellow"}
THEME = TerminalTheme(
    (24, 26, 31),
    (220, 223, 228),
    [(24, 26, 31), (224, 108, 117), (126, 201, 120), (229, 192, 123),
     (97, 175, 239), (198, 120, 221), (86, 182, 194), (220, 223, 228)],
    [(92, 99, 112), (224, 108, 117), (152, 221, 144), (229, 192, 123),
     (97, 175, 239), (198, 120, 221), (86, 182, 194), (255, 255, 255)],
)


def scenes(demo):
    """Name: arguments, and keys to type after a text has been shown."""
    model = ["--model", f"{demo}/grown/model", "--heads", f"{demo}/grown/heads"]
    messages = ["Tell me a story about a cat.\r", "/compare\r", "/stats\r"]
    waits = ["/help lists commands", " cached]", "the same text"]
    return {
        "chat": (["chat", *model], list(zip(waits, messages)) + [("taken from the cache", "\x04")]),
        "bench": (["bench", *model, "--prompts", "datasets/tiny-chat/held_out.jsonl"], []),
        "runs": (["runs", "list", demo], []),
        "help": (["--help"], []),
        "error": (["train", "-c", "configs/medusa-tiny.toml", "training.stepz=5"], []),
    }


class Faint(pyte.Screen):
    """A screen that keeps faint text, which pyte drops: as bright black."""

    def select_graphic_rendition(self, *attributes, **keywords):
        super().select_graphic_rendition(*(90 if code == 2 else code for code in attributes), **keywords)


def run(gorgon, arguments, keys):
    """The screen when the program has ended."""
    rows = LONG if arguments[0] in ("--help", "bench") else ROWS
    screen = Faint(COLUMNS, rows)
    stream = pyte.Stream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.environ.update(TERM="xterm-256color", GORGON_HISTORY="", COLUMNS=str(COLUMNS), LINES=str(rows))
        os.environ.pop("NO_COLOR", None)
        os.execv(gorgon, ["gorgon", *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    seen, waiting, ends = "", list(keys), time.monotonic() + PATIENCE
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while time.monotonic() < ends:
        if waiting and waiting[0][0] in seen and seen.rstrip().endswith(">"):
            os.write(terminal, waiting.pop(0)[1].encode())
            seen = ""
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            read = decoder.decode(os.read(terminal, 65536))
        except OSError:
            break
        if not read:
            break
        stream.feed(read)
        seen = plain(seen + read)
    else:
        os.kill(child, signal.SIGKILL)
        sys.exit(f"{' '.join(arguments)}: nothing happened for {PATIENCE} seconds; last seen: {seen[-300:]}")
    os.waitpid(child, 0)
    return screen


def plain(text):
    """Text without escape codes, as far as they have ended."""
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.lstrip("0123456789;?").removeprefix(part.lstrip("0123456789;?")[:1]) for part in parts[1:])


def style(cell):
    """How a cell looks."""
    colour = None if cell.fg == "default" else NAMES.get(cell.fg, cell.fg.replace("bright", "bright_"))
    return Style(color=colour, bold=cell.bold, underline=cell.underscore)


def lines(screen):
    """The screen's rows with their colours, without empty ones at the end."""
    rows = []
    for y in range(screen.lines):
        row = Text()
        for look, cells in groupby((screen.buffer[y][x] for x in range(COLUMNS)), style):
            row.append("".join(cell.data for cell in cells), look)
        row.rstrip()
        rows.append(row)
    while rows and not rows[-1].plain.strip(" >"):
        rows.pop()
    return rows


def without_downloads(svg):
    """The picture with fonts that a reader's machine has."""
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    fonts = "Fira Code, ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
    return svg.replace("Fira Code, monospace", fonts)


def draw(gorgon, name, arguments, keys, out):
    """Writes one capture."""
    screen = run(gorgon, arguments, keys)
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, color_system="truecolor")
    shown = " ".join(["gorgon", *arguments])
    console.print(Text.assemble(("$ ", "bright_black"), (shown, "bold")), overflow="fold")
    for row in lines(screen):
        console.print(row, overflow="crop", no_wrap=True)
    with tempfile.NamedTemporaryFile("w", dir=out, delete=False, suffix=".tmp") as file:
        file.write(without_downloads(console.export_svg(title="gorgon", theme=THEME, unique_id=name)))
    os.chmod(file.name, 0o644)
    os.replace(file.name, out / f"{name}.svg")
    print(out / f"{name}.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gorgon", default=os.environ.get("GORGON", ROOT / "target/release/gorgon"))
    parser.add_argument("--demo", default="checkpoints/demo")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/src/images")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    known = scenes(given.demo)
    wrong = [name for name in given.names if name not in known]
    if wrong:
        parser.error(f"no scene is called {wrong[0]}: known are {', '.join(known)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or known:
        draw(str(given.gorgon), name, *known[name], given.out)


if __name__ == "__main__":
    main()
