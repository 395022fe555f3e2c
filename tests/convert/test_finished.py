"""Running a conversion again: what was finished is a success that says so, what was interrupted says how to resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

import zvcore
from tests.convert.interrupting import MEMORY, source
from tests.processes import PATIENCE
from zvcore.commands import cli
from zvcore.converting.note import FINISHED, KEY
from zvcore.errors import ConflictError, UnfinishedConversionWarning

DESTINATIONS = {
    "array": {"format": "zarr3"},
    "pyramid": {"format": "zarr3", "levels": 1},
    "n5": {"format": "n5", "chunks": (24, 24, 24)},
    "volume": {"format": "precomputed", "levels": 1},
}


class Stop(Exception):
    pass


def after(units):
    def tell(done, total):
        if done >= units:
            raise Stop

    return tell


def state(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("options", DESTINATIONS.values(), ids=DESTINATIONS)
def test_a_finished_conversion_run_again_is_a_success_that_says_so(options, tmp_path):
    source(tmp_path / "src", (40, 40, 40))
    src, dst = tmp_path / "src", tmp_path / "dst"
    first = zvcore.convert(src, dst, **options)
    assert first.status == "sound" and not first.already_finished
    before = state(dst)
    again = zvcore.convert(src, dst, **options)
    assert again.ok and again.already_finished and again.status == "was already finished"
    assert "was already finished" in str(again) and again.to_json()["already_finished"]
    assert state(dst) == before, "nothing is written"
    plan = zvcore.plan(src, dst, **options)
    assert plan.finished and "was already finished" in str(plan)
    assert zvcore.verify(dst).problems == []
    assert zvcore.convert(src, dst, **options, overwrite=True).units


def test_on_the_command_line_it_succeeds_too(tmp_path, capfd):
    source(tmp_path / "src", (40, 40, 40))
    command = ["convert", str(tmp_path / "src"), str(tmp_path / "dst"), "--format", "zarr3"]
    assert cli.main(command) == 0
    capfd.readouterr()
    assert cli.main(command) == 0
    assert "was already finished" in capfd.readouterr().err


def test_run_again_with_verify_it_compares(tmp_path):
    source(tmp_path / "src", (40, 40, 40))
    src, dst = tmp_path / "src", tmp_path / "dst"
    zvcore.convert(src, dst, format="zarr3")
    assert zvcore.convert(src, dst, format="zarr3", verify=True).verified is True
    zvcore.open(dst, "r+")[3, 4, 5] = 255
    report = zvcore.convert(src, dst, format="zarr3", verify=True)
    assert report.verified is False and not report.ok and report.status == "damaged"
    assert "was changed since" in str(report)


@pytest.mark.parametrize("options", DESTINATIONS.values(), ids=DESTINATIONS)
def test_what_was_found_to_differ_is_no_longer_finished(options, tmp_path):
    source(tmp_path / "src", (40, 40, 40))
    src, dst = tmp_path / "src", tmp_path / "dst"
    zvcore.convert(src, dst, **options)
    made = zvcore.open(dst, "r+")
    array = made if isinstance(made, zvcore.Array) else made[next(iter(made))]
    array[3, 4, 5] = 255
    assert not zvcore.convert(src, dst, **options, verify=True).ok
    with pytest.raises(ConflictError):
        zvcore.convert(src, dst, **options)
    assert (array[3, 4, 5] == 255).all(), "what was changed on purpose is not written over unasked"
    assert zvcore.convert(src, dst, **options, overwrite=True, verify=True).ok


@pytest.mark.parametrize(
    "other",
    [{"codec": "zstd"}, {"region": np.s_[:32, :32, :32]}, {"levels": 1}, {"dtype": "u2"}, {"format": "n5"}],
    ids=str,
)
def test_with_other_options_it_is_refused(other, tmp_path):
    source(tmp_path / "src", (40, 40, 40))
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3")
    with pytest.raises(ConflictError, match="something is here already; overwrite=True"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", **{"format": "zarr3", **other})


def test_another_part_of_the_source_is_another_conversion(tmp_path):
    """The documents are the same."""
    source(tmp_path / "src", (40, 40, 40))
    src, dst = tmp_path / "src", tmp_path / "dst"
    zvcore.convert(src, dst, format="zarr3", region=np.s_[:16])
    with pytest.raises(ConflictError):
        zvcore.convert(src, dst, format="zarr3", region=np.s_[16:32])


def test_what_was_taken_away_since_is_not_finished(tmp_path):
    source(tmp_path / "src", (40, 40, 40))
    src, dst = tmp_path / "src", tmp_path / "dst"
    zvcore.convert(src, dst, format="zarr3", levels=1)
    (dst / "1" / "zarr.json").unlink()
    with pytest.raises(ConflictError):
        zvcore.convert(src, dst, format="zarr3", levels=1)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "mark": "x"}', "[" * 9999])
def test_a_record_that_cannot_be_read_is_none(text, tmp_path):
    source(tmp_path / "src", (20, 20, 20))
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3")
    (tmp_path / "dst" / FINISHED).write_text(text)
    with pytest.raises(ConflictError):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3")


def test_what_repair_and_compact_make_of_a_finished_destination_is_sound(tmp_path):
    source(tmp_path / "src", (40, 40, 40))
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", shards=(32, 32, 32))
    assert not zvcore.repair(tmp_path / "dst", tmp_path / "copy").losses
    assert zvcore.verify(tmp_path / "copy").problems == []
    assert zvcore.compact(tmp_path / "dst").ok and zvcore.verify(tmp_path / "dst").problems == []


def test_others_find_nothing_strange_in_a_group(tmp_path):
    import zarr

    source(tmp_path / "src", (40, 40, 40))
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", levels=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(name for name, _ in zarr.open_group(tmp_path / "dst", mode="r").members()) == ["0", "1"]


# --- interrupted


def test_an_interrupted_conversion_says_how_to_resume_it(tmp_path):
    source(tmp_path / "src")
    with pytest.raises(Stop) as caught:
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", memory=MEMORY, threads=1, progress=after(3))
    [note] = caught.value.__notes__
    assert note.startswith("the conversion is not finished (3 of ") and note.endswith("run again, resumes it")


def test_a_refused_conversion_has_nothing_to_resume(tmp_path):
    source(tmp_path / "src", (20, 20, 20))
    with pytest.raises(zvcore.errors.ZvcoreError) as caught:
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", codec="nonsense")
    assert not hasattr(caught.value, "__notes__")


HINDERED = """
import sys
from zvcore.commands import cli
from zvcore.converting.journal import Journal

add = Journal.add

def tell(self, step, unit):
    add(self, step, unit)
    print("one", flush=True)
    sys.stdin.readline()

Journal.add = tell
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_ended_says_how_to_resume(sent, status, tmp_path):
    values = source(tmp_path / "src")
    command = ["convert", str(tmp_path / "src"), str(tmp_path / "dst"), "--format", "zarr3", "--memory", str(MEMORY)]
    process = subprocess.Popen(
        [sys.executable, "-c", HINDERED, "--threads", "1", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "one\n"
    os.kill(process.pid, sent)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert "zvcore: the conversion is not finished (1 of " in said and "run again, resumes it" in said
    assert "Traceback" not in said
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", memory=MEMORY)
    assert report.resumed and np.array_equal(zvcore.open(tmp_path / "dst")[...], values)


def test_with_other_memory_units_are_others_and_none_is_taken_for_done(tmp_path):
    values = source(tmp_path / "src")
    src, dst = tmp_path / "src", tmp_path / "dst"
    with pytest.raises(Stop):
        zvcore.convert(src, dst, format="zarr3", chunks=(20, 20, 20), memory=MEMORY, threads=1, progress=after(8))
    report = zvcore.convert(src, dst, format="zarr3", chunks=(20, 20, 20), memory=8 * MEMORY)
    assert report.resumed < report.units
    assert np.array_equal(zvcore.open(dst)[...], values)


# --- members


@pytest.mark.parametrize("options", [DESTINATIONS["pyramid"], {**DESTINATIONS["n5"], "levels": 1}], ids=["zarr3", "n5"])
def test_a_member_of_an_unfinished_conversion_is_opened_with_a_warning(options, tmp_path):
    source(tmp_path / "src")
    dst = tmp_path / "dst"
    with pytest.raises(Stop):
        zvcore.convert(tmp_path / "src", dst, **options, memory=MEMORY, threads=1, progress=after(1))
    level = next(path for path in sorted(dst.iterdir()) if path.is_dir())
    (tmp_path / "link").symlink_to(level)
    for place in (level, tmp_path / "link"):
        with pytest.warns(UnfinishedConversionWarning, match="an unfinished conversion: 1 of") as caught:
            zvcore.open(place)
        assert str(dst) in str(caught[0].message)
    assert (dst / KEY).exists()
    zvcore.convert(tmp_path / "src", dst, **options, memory=MEMORY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zvcore.open(level)
