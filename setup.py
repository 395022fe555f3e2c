"""Builds the Cython modules: every `.pyx` under `zvcore/` and `plugins/` becomes an extension module.

Switches, all environment variables:
  ZVCORE_REQUIRE_NATIVE=1   a missing C library is an error, not a slower codec
  ZVCORE_DEBUG=1            bounds checks, overflow checks and assertions on
  ZVCORE_SANITIZE=1         AddressSanitizer and UndefinedBehaviorSanitizer (see `make sanitize`)
  ZVCORE_LINETRACE=1        line tracing, for profilers and coverage
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

ROOT = Path(__file__).parent


def switch(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


REQUIRE_NATIVE = switch("ZVCORE_REQUIRE_NATIVE")
DEBUG = switch("ZVCORE_DEBUG")
SANITIZE = switch("ZVCORE_SANITIZE")
LINETRACE = switch("ZVCORE_LINETRACE")

# The one place for compiler directives.
DIRECTIVES = {
    "language_level": 3,
    "freethreading_compatible": True,
    "binding": True,
    "embedsignature": True,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": not DEBUG,
    "linetrace": LINETRACE,
}


@dataclass(frozen=True)
class Library:
    """A C library that one plugin links."""

    pkg_config: str
    header: str
    link: str
    debian: str


# Which library the native part of which plugin needs: plugins/_<name>.pyx is built only when it is there.
LIBRARIES = {
    "_gzip": Library("libdeflate", "libdeflate.h", "deflate", "libdeflate-dev"),
    "_zstd": Library("libzstd", "zstd.h", "zstd", "libzstd-dev"),
    "_lz4": Library("liblz4", "lz4frame.h", "lz4", "liblz4-dev"),
    "_blosc": Library("blosc", "blosc.h", "blosc", "libblosc-dev"),
    "_bzip2": Library("bzip2", "bzlib.h", "bz2", "libbz2-dev"),
    "_xz": Library("liblzma", "lzma.h", "lzma", "liblzma-dev"),
}


def compile_flags() -> tuple[list[str], list[str]]:
    """(compiler, linker) flags for every extension. Never anything that depends on the build host's CPU."""
    if SANITIZE:
        checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
        return ["-O1", "-g", *checks], checks
    if DEBUG:
        return ["-O0", "-g"], []
    return ["-O3", "-g0", "-fno-strict-aliasing"], []


def pkg_config(package: str) -> tuple[list[str], list[str]] | None:
    """(compiler, linker) flags that pkg-config knows for a package, or None."""
    command = shlex.split(os.environ.get("PKG_CONFIG", "pkg-config"))
    try:
        answers = [
            subprocess.run([*command, flag, package], capture_output=True, text=True, check=True).stdout
            for flag in ("--cflags", "--libs")
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return shlex.split(answers[0]), shlex.split(answers[1])


def compiles(library: Library, compiler_flags: list[str], linker_flags: list[str]) -> bool:
    """Whether a program that includes the header and links the library can be built."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(f"#include <stddef.h>\n#include <stdio.h>\n#include <{library.header}>\nint main(void) {{ return 0; }}\n")
        command = [*compiler, str(source), "-o", str(Path(folder, "probe")), *compiler_flags, *linker_flags]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def find_library(library: Library) -> tuple[list[str], list[str]] | None:
    """(compiler, linker) flags for a library, by pkg-config or by trying the plain names."""
    for flags in (pkg_config(library.pkg_config), ([], [f"-l{library.link}"])):
        if flags is not None and compiles(library, *flags):
            return flags
    return None


def extensions() -> list[Extension]:
    compiler_flags, linker_flags = compile_flags()
    found = []
    missing = []
    for source in sorted([*ROOT.glob("zvcore/**/*.pyx"), *ROOT.glob("plugins/*.pyx")]):
        relative = source.relative_to(ROOT)
        name = ".".join(relative.with_suffix("").parts).replace("plugins.", "zvcore_plugins.", 1)
        flags: tuple[list[str], list[str]] = ([], [])
        library = LIBRARIES.get(source.stem) if relative.parts[0] == "plugins" else None
        if library is not None:
            answer = find_library(library)
            if answer is None:
                missing.append(f"{library.header} (Debian: {library.debian})")
                continue
            flags = answer
        found.append(
            Extension(
                name,
                [str(relative)],
                include_dirs=["zvcore/include", "zvcore/kernels", numpy.get_include()],
                define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
                extra_compile_args=[*compiler_flags, *flags[0]],
                extra_link_args=[*linker_flags, *flags[1]],
                depends=[str(header.relative_to(ROOT)) for header in ROOT.glob("zvcore/**/*.h")],
            )
        )
    if missing:
        text = "C libraries that were not found: " + ", ".join(missing)
        if REQUIRE_NATIVE:
            sys.exit(f"{text}\nInstall them, or unset ZVCORE_REQUIRE_NATIVE to build slower codecs instead.")
        print(f"warning: {text}; these codecs will work through Python", file=sys.stderr)
    return found


setup(
    packages=[*find_packages(include=["zvcore", "zvcore.*"]), "zvcore_plugins"],
    package_dir={"zvcore": "zvcore", "zvcore_plugins": "plugins"},
    package_data={"*": ["*.pxd", "*.pyi", "py.typed", "*.h"], "zvcore": ["include/*.h"]},
    exclude_package_data={"*": ["*.c"]},
    ext_modules=cythonize(
        extensions(),
        compiler_directives=DIRECTIVES,
        nthreads=0 if sys.platform == "darwin" else (os.cpu_count() or 1),
        emit_linenums=DEBUG,
    ),
    zip_safe=False,
)
