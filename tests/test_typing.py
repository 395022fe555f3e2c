"""What type checkers are told of `zvcore.create` and `zvcore.open` is what these take.

What they make of it, `make types` asks mypy and pyright, about the files in `tests/typing`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore import opening
from zvcore.format import formats
from zvcore.options import Opening, UsualCreation
from zvcore.precomputed.encodings import get_encoding

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = {
    "n5": "DatasetOptions",
    "precomputed": "VolumeOptions",
    "zarr2": "ArrayOptions",
    "zarr3": "ArrayOptions",
}
# What the overloads say for themselves.
SAID = {"format", "dtype", "data"}
ENCODINGS = (
    "raw",
    "compressed_segmentation",
    "jpeg",
    "png",
    "jxl",
    "compresso",
    "crackle",
    "fpzip",
    "kempressed",
    "zfpc",
)


def keywords(function: Any) -> set[str]:
    return {one.name for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY}


def stub() -> ast.Module:
    return ast.parse(resources.files("zvcore").joinpath("fronts.pyi").read_text())


def overloads(name: str) -> list[ast.FunctionDef]:
    return [node for node in stub().body if isinstance(node, ast.FunctionDef) and node.name == name]


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_options_of_a_format_are_those_that_it_takes(name: str) -> None:
    told = getattr(importlib.import_module(f"zvcore.{name}.options"), OPTIONS[name]).__annotations__
    format = formats()[name]
    taken = keywords(format.creator()) - SAID - {*format.inner_options}
    if name == "precomputed":
        taken |= {"lossless", *(member for one in ENCODINGS for member in get_encoding(one).members)}
    assert set(told) == taken


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_options_of_opening_a_format_are_those_that_it_takes(name: str) -> None:
    told = importlib.import_module(f"zvcore.{name}.options").OpenOptions.__annotations__
    assert set(told) == {*formats()[name].open_options, *Opening.__annotations__}


def test_only_formats_that_type_checkers_are_told_of_have_options_for_opening() -> None:
    ours = {name for name, one in formats().items() if type(one).__module__.startswith("zvcore.")}
    assert {name for name in ours if formats()[name].open_options} == set(OPTIONS)


def test_every_format_that_makes_arrays_has_overloads() -> None:
    named = {
        node.value
        for one in overloads("create")
        for node in ast.walk(one.args.kwonlyargs[0])
        if isinstance(node, ast.Constant)
    }
    own = {name for name, one in formats().items() if one.makes_arrays and type(one).__module__.startswith("zvcore.")}
    assert named == own == set(OPTIONS)


def test_what_is_told_of_all_formats_is_what_create_and_open_take() -> None:
    assert set(UsualCreation.__annotations__) == keywords(opening.create) - SAID
    assert set(Opening.__annotations__) == keywords(opening.open)


@pytest.mark.parametrize("name", ["create", "open"])
def test_overloads_and_functions_have_the_same_positions_and_defaults(name: str) -> None:
    function = getattr(opening, name)
    assert getattr(zvcore, name) is function
    actual = inspect.signature(function).parameters
    for one in overloads(name):
        told = [argument.arg for argument in one.args.args]
        assert told == [*actual][: len(told)]
        defaults = dict(zip(reversed(told), map(ast.literal_eval, reversed(one.args.defaults))))
        assert defaults == {argument: actual[argument].default for argument in defaults}


def test_the_modules_that_only_type_checkers_need_are_not_imported() -> None:
    program = (
        "import sys, tempfile, numpy, zvcore\n"
        "zvcore.create(tempfile.mkdtemp() + '/a', format='zarr3', data=numpy.zeros(3))\n"
        "print({'zvcore.options', 'zvcore.zarr3.options', 'typing_extensions'} & {*sys.modules})"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert answer.stdout == "set()\n"


def test_arrays_can_be_annotated_with_their_items_where_annotations_are_evaluated(tmp_path: Path) -> None:
    made = zvcore.create(tmp_path / "a", format="zarr3", data=np.arange(4, dtype=np.uint16))
    assert isinstance(made, zvcore.Array)
    assert zvcore.Array[np.uint16].__origin__ is zvcore.Array
    assert zvcore.precomputed.ScaleArray[np.uint16].__origin__ is zvcore.precomputed.ScaleArray
    assert type(pickle.loads(pickle.dumps(made))) is type(made)


def test_the_package_says_that_it_has_types() -> None:
    assert resources.files("zvcore").joinpath("py.typed").is_file()
