"""Of many problems the first are told, and how many there are of each kind."""

from __future__ import annotations

import json

import pytest

import zvcore
from zvcore.commands import cli

COUNT = 60


@pytest.fixture
def damaged(tmp_path):
    """An array of empty chunk files, one that is cut short, and one that no reader looks for."""
    path = tmp_path / "a.zarr"
    zvcore.create(path, format="zarr3", shape=(COUNT,), dtype="u2", chunks=(1,), codec=None)
    (path / "c").mkdir()
    for number in range(COUNT):
        (path / "c" / str(number)).write_bytes(b"1" if number == 7 else b"")
    (path / "c" / "stray").write_bytes(b"")
    return path


def test_few_problems_are_all_told(damaged, capsys):
    report = zvcore.verify(damaged)
    assert sum(report.kinds().values()) == len(report.problems) == COUNT + 1
    assert cli.main(["verify", str(damaged)]) == 1
    assert capsys.readouterr().out.count("\n") == COUNT + 2
    assert cli.main(["verify", "--json", str(damaged)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["problems"]) == COUNT + 1 and "left_out" not in answer
    assert answer["kinds"] == report.kinds()


def test_of_many_problems_the_first_are_told_and_all_are_counted(damaged, capsys):
    kinds = zvcore.verify(damaged).kinds()
    assert cli.main(["verify", "--limit", "5", str(damaged)]) == 1
    *first, more, verdict = capsys.readouterr().out.splitlines()
    assert len(first) == 5 and more.startswith(f"and {COUNT - 4} more")
    assert all(f"{number} {kind}" in more for kind, number in kinds.items())
    assert f"{COUNT} problems, 1 oddity" in verdict
    assert cli.main(["verify", "--limit", "5", "--json", str(damaged)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["problems"]), answer["left_out"], answer["kinds"]) == (5, COUNT - 4, kinds)
    assert not answer["ok"] and answer["status"] == "damaged"
    assert cli.main(["verify", "--limit", "0", str(damaged)]) == 1
    assert capsys.readouterr().out.count("\n") == COUNT + 2


def test_a_limit_hides_no_damage_behind_oddities(damaged, capsys):
    for number in range(COUNT):
        (damaged / "c" / f"0stray{number}").write_bytes(b"")
    assert cli.main(["verify", "--limit", "5", str(damaged)]) == 1
    assert not any(line.startswith("odd") for line in capsys.readouterr().out.splitlines())
    assert cli.main(["verify", "--limit", "5", "--json", str(damaged)]) == 1
    assert all(one["fatal"] for one in json.loads(capsys.readouterr().out)["problems"])
