"""The choice of vector instructions."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from zvcore.kernels import cpu, crc32c


def simd_path_of_a_new_process(limit: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ZVCORE_SIMD"}
    if limit is not None:
        environment["ZVCORE_SIMD"] = limit
    code = "from zvcore.kernels import cpu, crc32c; print(cpu.simd_path(), crc32c(b'123456789'))"
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_portable_is_always_there_and_first() -> None:
    assert cpu.available_paths()[0] == "portable"


def test_forcing_a_path_takes_its_instructions_and_no_others(simd_path: str) -> None:
    assert cpu.simd_path() == simd_path
    allowed = {
        "portable": set(),
        "sse42": {"sse4.2"},
        "avx2": {"sse4.2", "avx2", "bmi2", "vpclmulqdq"},
        "avx512": {"sse4.2", "avx2", "bmi2", "vpclmulqdq", "avx512"},
        "armv8": {"crc", "pmull"},
    }
    assert set(cpu.cpu_features()) <= allowed[simd_path]
    assert simd_path == "portable" or cpu.cpu_features()


def test_none_is_the_best_path(simd_path: str) -> None:
    cpu.force_path()
    assert cpu.simd_path() == cpu.available_paths()[-1]


def test_a_path_that_is_not_there_is_refused_and_changes_nothing() -> None:
    before = cpu.simd_path()
    with pytest.raises(ValueError, match="cannot take the path 'mmx'; it has portable"):
        cpu.force_path("mmx")
    assert cpu.simd_path() == before


@pytest.mark.parametrize("limit", [None, "", *cpu.available_paths()])
def test_the_environment_limits_the_path(limit: str | None) -> None:
    answer = simd_path_of_a_new_process(limit)
    assert answer.stdout.split() == [limit or cpu.available_paths()[-1], str(crc32c(b"123456789"))], answer.stderr


def test_a_wrong_limit_in_the_environment_is_an_error() -> None:
    answer = simd_path_of_a_new_process("turbo")
    assert answer.returncode != 0
    assert "ZVCORE_SIMD is 'turbo', but must be one of portable" in answer.stderr
