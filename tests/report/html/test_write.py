"""The file: beside report.md, the same for a copied run, whole or not at all, bounded for a long run."""

from __future__ import annotations

import html
import json
import shutil
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.report.html import page
from roleagent_lite.report.html.write import save, write_all, write_html
from tests.report import make


@pytest.fixture
def done(tmp_path: Path) -> Path:
    make.whole_run(tmp_path / "first").close()
    return tmp_path / "first"


def test_one_file_lies_in_the_run(done: Path) -> None:
    before = {p.name for p in done.iterdir()}
    assert write_html(done) == done / "report.html"
    assert {p.name for p in done.iterdir()} - before == {"report.html"}


def test_all_files_of_a_report_come_from_one_reading(done: Path) -> None:
    assert write_all(str(done)) == done / "report.md"
    data = json.loads((done / "report.json").read_text())
    page_text = (done / "report.html").read_text()
    assert data["schema"] == 1 and data["sealed"]["words"] in html.unescape(page_text)
    assert (done / "success.svg").exists()


def test_a_copied_run_gives_the_same_page(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "elsewhere" / "first")
    assert write_html(tmp_path / "elsewhere" / "first").read_bytes() == write_html(done).read_bytes()


def test_empty_and_partial_runs_have_a_page(tmp_path: Path) -> None:
    make.new_run(tmp_path / "empty").close()
    assert "No episode has been played yet" in write_html(tmp_path / "empty").read_text()
    make.whole_run(tmp_path / "part", finished=False).close()
    assert "Partial" in write_html(tmp_path / "part").read_text()


def test_no_run_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run at"):
        write_html(tmp_path / "nothing")


def test_res_05_the_old_page_survives_a_full_disk_and_a_stop(tmp_path: Path) -> None:
    path = save(tmp_path / "report.html", ["old"])

    def full(error: BaseException) -> Iterator[str]:
        yield "half"
        raise error

    with pytest.raises(RoleAgentError, match=r"cannot write .*report.html: No space left on device"):
        save(path, full(OSError(28, "No space left on device")))
    with pytest.raises(KeyboardInterrupt):
        save(path, full(KeyboardInterrupt()))
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_long_run_is_never_whole_in_memory(tmp_path: Path) -> None:
    observation = " ".join(f"thing {i * 7919 % 10007} on shelf {i}." for i in range(900))
    with make.new_run(tmp_path / "r") as run:
        for i in range(150):
            step = replace(make.step(), observation=f"{i} {observation}", outcome=f"{observation} {i}")
            make.play(run, make.episode(make.task(i), make.SEED, steps=[step] * 5))
        size = run.trajectories.path.stat().st_size
        from roleagent_lite.report.write import build

        report = build(run)
        tracemalloc.start()
        try:
            longest = max(len(piece) for piece in page.document(report))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size > 20_000_000
    assert peak < 6_000_000, f"{peak:,} bytes for a table of {size:,}"
    assert longest < 1_000_000
