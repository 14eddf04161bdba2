"""What a large WebShop catalogue needs: seconds and memory to read it, to index it, and for one search.

Writes made-up items to a temporary file in the original's schema and reads them in a process of its own, so
that the peak of memory is that of reading alone.

    python benchmarks/webshop_large.py [--items 100000]
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from roleagent_lite.envs.webshop import made
from roleagent_lite.envs.webshop.index import Index
from roleagent_lite.envs.webshop.products import read_products, rows_in


def write(path: Path, count: int) -> None:
    """`count` items: the made-up catalogue again and again, under other asins."""
    items, _, _ = made.make()
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, item in enumerate(itertools.islice(itertools.cycle(items), count)):
            file.write(("," if number else "") + json.dumps({**item, "asin": f"B{number:09d}"}))
        file.write("]")


def read(path: Path, folder: Path) -> None:
    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before, start = peak(), time.process_time()
    products = read_products(rows_in(path), {})
    spent = time.process_time() - start
    print(f"read {len(products):,} items: {spent:.1f} CPU s, {peak() - before:,.0f} MiB more")
    index, start, wall = Index(products, folder), time.process_time(), time.perf_counter()
    index.search(["mug"])
    spent = time.process_time() - start
    print(f"indexed: {spent:.1f} CPU s, {time.perf_counter() - wall:.1f} s, peak {peak():,.0f} MiB")
    wall = time.perf_counter()
    for word in ("lamp", "socks", "jacket", "candle", "tea"):
        index.search([word, "for", "travel"])
    print(f"one search: {(time.perf_counter() - wall) / 5 * 1000:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read is not None:
        read(asked.read, asked.read.parent / "index")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.json"
        write(path, asked.items)
        print(f"file: {path.stat().st_size / 2**20:,.0f} MiB", flush=True)
        subprocess.run([sys.executable, __file__, "--read", str(path)], check=True)


if __name__ == "__main__":
    main()
