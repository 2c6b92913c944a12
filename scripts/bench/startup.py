#!/usr/bin/env python3
"""Times how long the program takes to start: median and greatest of some runs, in milliseconds.

    scripts/bench/startup.py [GORGON] [RUNS]
"""

import shutil, statistics, subprocess, sys, time

gorgon = sys.argv[1] if len(sys.argv) > 1 else "target/release/gorgon"
runs = int(sys.argv[2]) if len(sys.argv) > 2 else 41
if shutil.which(gorgon) is None:
    sys.exit(f"{gorgon}: no such program")
for arguments in (["--version"], ["--help"], ["train", "--help"]):
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        subprocess.run([gorgon, *arguments], stdout=subprocess.DEVNULL, check=True)
        times.append(1e3 * (time.perf_counter() - begun))
    print(f"gorgon {' '.join(arguments)}: median {statistics.median(times):.1f} ms, greatest {max(times):.1f} ms")
