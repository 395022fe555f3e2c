"""Functions that are called with what another, or a question, is made of."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

import zvcore
from zvcore.forging.questions import Question


@pytest.mark.parametrize("front", [zvcore.mesh, zvcore.skeletonize, zvcore.plan])
def test_a_missing_argument_is_told_of_the_function_that_was_called(front: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{front.__name__}\(\) missing a required"):
        front()


@pytest.mark.parametrize("front", [zvcore.mesh, zvcore.skeletonize])
def test_a_misspelt_argument_is_told_of_the_function_that_was_called(front: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{front.__name__}\(\) got an unexpected keyword argument 'dusts'"):
        front("seg", dusts=3)


def test_what_is_asked_of_both_makers_of_objects_is_told_of_both() -> None:
    mesh, bones = (inspect.signature(front).parameters for front in (zvcore.mesh, zvcore.skeletonize))
    for one in fields(Question):
        assert mesh[one.name].annotation == bones[one.name].annotation
    assert mesh["box"].default != bones["box"].default
