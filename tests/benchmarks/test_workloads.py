"""bench/workloads for real, but tiny, with development builds and without Erlang and the library:
that every part works and finds its place on the page, not how fast anything is."""
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
# Generous, because the machine may have much else to do.
DEADLINE_S = 600


def test_every_part_of_workloads_finds_its_place(tmp_path):
    page = shutil.copy(ROOT / "docs/scaling/workloads.md", tmp_path)
    programs = {"BENCH_ACTORS": "bench-actors", "ORBIT": "orbit", "ACO": "aco"}
    environment = {**os.environ, **{key: str(TARGET / name) for key, name in programs.items()}}
    words = ["--quick", "--no-erlang", "--no-library", "--rounds", "1", "--page", page]
    done = subprocess.run([ROOT / "bench/workloads", *words], env=environment, text=True,
                          capture_output=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    text = pathlib.Path(page).read_text()
    rows = {"suite": "| bang |", "crashes": "| crash to next answer |",
            "tables": "| set, lookup |", "shards": "| roost |", "orbit": "| one loop |",
            "aco": "| wt40.001 | 913 |", "nodes": "| groups of two |", "de": "| spawning |"}
    for part, row in rows.items():
        first, last = (f"<!-- workloads {part}: {word} -->"
                       for word in (f"written by bench/workloads {part}, not by hand", "end"))
        assert row in text.split(first)[1].split(last)[0], text
    for drawing in ("suite", "tables", "shards-timers", "shards-cross", "orbit-workers",
                    "orbit-nodes"):
        assert (tmp_path / f"{drawing}.svg").read_text().startswith("<svg ")


def test_a_part_that_is_not_known_is_refused():
    done = subprocess.run([ROOT / "bench/workloads", "--only", "nothing"], text=True,
                          capture_output=True)
    known = "known are suite, crashes, tables, shards, orbit, nodes, de, aco"
    assert done.returncode == 1 and known in done.stderr
