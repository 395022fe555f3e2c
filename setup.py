"""Builds the Cython modules: every `.pyx` under `zvcore/` and `plugins/` becomes an extension module.

Switches, all environment variables:
  ZVCORE_REQUIRE_NATIVE=1   a missing C library is an error, not a slower codec
  ZVCORE_WITHOUT=a,b        build as if these libraries (names of `LIBRARIES`) were not installed
  ZVCORE_DEBUG=1            bounds checks on, no optimisation, debug symbols
  ZVCORE_SANITIZE=1         AddressSanitizer and UndefinedBehaviorSanitizer (see `make sanitize`)
  ZVCORE_SANITIZE=fuzzer    the same, and coverage for libFuzzer: needs CC=clang (see `make fuzz`)
  ZVCORE_PREBUILT=1         compile nothing: `setup.py build_ext --inplace` has done it (an editable install by `make`)

Generated C and object files go to `build/<kind of build>/`, so the kinds do not mix.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import Cython
import numpy
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
Flags = tuple[list[str], list[str]]  # for the compiler, for the linker


def switch(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


REQUIRE_NATIVE = switch("ZVCORE_REQUIRE_NATIVE")
WITHOUT = set(filter(None, os.environ.get("ZVCORE_WITHOUT", "").split(",")))
DEBUG = switch("ZVCORE_DEBUG")
SANITIZE = switch("ZVCORE_SANITIZE")
PREBUILT = switch("ZVCORE_PREBUILT")
FUZZER = os.environ.get("ZVCORE_SANITIZE") == "fuzzer"
KIND = "fuzzer" if FUZZER else "sanitize" if SANITIZE else "debug" if DEBUG else "release"
BUILD = f"build/{KIND}"
# What the sources held when they were last built.
BUILT_FROM = Path(BUILD, "contents.json")

# The one place for compiler directives. None of them may change what a program means, only what is checked.
DIRECTIVES = {
    "language_level": 3,
    "freethreading_compatible": True,
    "binding": True,
    "embedsignature": True,
    "boundscheck": DEBUG,
    "initializedcheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
}

# Memoryviews and other helpers that Cython would otherwise copy into every module: 40 % of the time to compile.
SHARED = "zvcore._cython"


@dataclass(frozen=True)
class Library:
    """A C library that native modules link: how to find it, and the package that has it."""

    pkg_config: str
    header: str
    link: str
    debian: str


LIBRARIES = {
    "libdeflate": Library("libdeflate", "libdeflate.h", "deflate", "libdeflate-dev"),
    "libzstd": Library("libzstd", "zstd.h", "zstd", "libzstd-dev"),
    "liblz4": Library("liblz4", "lz4frame.h", "lz4", "liblz4-dev"),
    "libxxhash": Library("libxxhash", "xxhash.h", "xxhash", "libxxhash-dev"),
    "blosc": Library("blosc", "blosc.h", "blosc", "libblosc-dev"),
    "bzip2": Library("bzip2", "bzlib.h", "bz2", "libbz2-dev"),
    "liblzma": Library("liblzma", "lzma.h", "lzma", "liblzma-dev"),
    "libjpeg": Library("libjpeg", "jpeglib.h", "jpeg", "libjpeg-dev"),
}

# Which libraries which native modules need: they are built only when these are there.
NEEDS = {
    "zvcore_plugins._gzip": ["libdeflate"],
    "zvcore_plugins._zstd": ["libzstd"],
    "zvcore_plugins._lz4": ["liblz4", "libxxhash"],
    "zvcore_plugins._blosc": ["blosc"],
    "zvcore_plugins._bzip2": ["bzip2"],
    "zvcore_plugins._xz": ["liblzma"],
    "zvcore.precomputed._jpeg_chunks": ["libjpeg"],
}

# Libraries that modules do without, by code of their own; with them `ZV_HAVE_<LIBRARY>` is defined.
HELPED_BY = {"zvcore.kernels.crc32": ["libdeflate"]}


def general_flags() -> Flags:
    """Flags for every extension. Never anything that depends on the build host's CPU."""
    if SANITIZE:
        checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
        if FUZZER:
            # Cython calls functions through pointers of other types; the preloaded runtime is atheris' own.
            checks += ["-fsanitize=fuzzer-no-link", "-fno-sanitize=function,vptr"]
        # Python's own flags contain -fwrapv, with which a sum of sizes that overflows would go unseen.
        return ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-wrapv", *checks], checks
    if DEBUG:
        return ["-O0", "-g"], []
    symbols = [] if "-g" in shlex.split(os.environ.get("CFLAGS", "")) else ["-g0"]
    # Cython's min() and max() compare a plain 1 with unsigned numbers.
    return ["-O3", "-fno-strict-aliasing", "-Wno-sign-compare", *symbols], []


def pkg_config(flag: str, package: str) -> str | None:
    """What pkg-config says about a package; None if it does not know it."""
    command = shlex.split(os.environ.get("PKG_CONFIG", "pkg-config"))
    try:
        return subprocess.run([*command, flag, package], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def links(library: Library, flags: Flags) -> bool:
    """Whether a program that includes the header and links the library can be built."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    options = shlex.split(" ".join(os.environ.get(name, "") for name in ("CPPFLAGS", "CFLAGS", "LDFLAGS")))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(
            f"#include <stddef.h>\n#include <stdio.h>\n#include <{library.header}>\nint main(void) {{ return 0; }}\n"
        )
        command = [*compiler, *options, *flags[0], str(source), "-o", str(Path(folder, "probe")), *flags[1]]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


@cache
def find_library(name: str) -> Flags | None:
    """Flags for a library, by pkg-config or by trying the plain names; None if it is not there."""
    library = LIBRARIES[name]
    if name in WITHOUT:
        return None
    described = (pkg_config("--cflags", library.pkg_config), pkg_config("--libs", library.pkg_config))
    for compiler_flags, linker_flags in (described, ("", f"-l{library.link}")):
        if compiler_flags is not None and linker_flags is not None:
            flags = shlex.split(compiler_flags), shlex.split(linker_flags)
            if links(library, flags):
                return flags
    return None


def build_facts() -> list[tuple[str, str]]:
    """Macros for `zvcore/_build.pyx`, which tells users what their installation was built with."""
    versions = {
        name: pkg_config("--modversion", LIBRARIES[name].pkg_config) for name in LIBRARIES if find_library(name)
    }
    libraries = ",".join(f"{name}={version or ''}" for name, version in versions.items())
    facts = {"KIND": KIND, "NUMPY": numpy.__version__, "LIBRARIES": libraries}
    return [(f"ZVCORE_BUILD_{name}", json.dumps(value)) for name, value in facts.items()]


def extension(name: str, sources: list[str], libraries: list[str]) -> Extension:
    compiler_flags, linker_flags = general_flags()
    helping = [library for library in HELPED_BY.get(name, []) if find_library(library) is not None]
    for library in [*libraries, *helping]:
        found = find_library(library)
        assert found is not None
        compiler_flags += found[0]
        linker_flags += found[1]
    headers = sorted(path.relative_to(ROOT) for room in ("zvcore", "plugins") for path in ROOT.glob(f"{room}/**/*.h"))
    return Extension(
        name,
        sources,
        # Absolute, because the generated C lies elsewhere.
        include_dirs=[*sorted({str(ROOT / header.parent) for header in headers}), numpy.get_include()],
        define_macros=[
            ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
            *(build_facts() if name == "zvcore._build" else []),
            *((f"ZV_HAVE_{library.upper()}", "1") for library in helping),
        ],
        extra_compile_args=compiler_flags,
        extra_link_args=linker_flags,
        # `make native` builds the archives that are linked: another build of them is another module.
        depends=[*map(str, headers), *(flag for flag in linker_flags if flag.endswith(".a"))],
    )


def extensions() -> list[Extension]:
    if unknown := WITHOUT - LIBRARIES.keys():
        sys.exit(f"ZVCORE_WITHOUT: no such library: {', '.join(sorted(unknown))}; there are: {', '.join(LIBRARIES)}")
    found = [extension(SHARED, [f"{SHARED.replace('.', '/')}.c"], [])]
    missing: dict[str, list[str]] = {}
    for source in sorted([*ROOT.glob("zvcore/**/*.pyx"), *ROOT.glob("plugins/*.pyx")]):
        relative = source.relative_to(ROOT)
        name = ".".join(relative.with_suffix("").parts).replace("plugins.", "zvcore_plugins.", 1)
        libraries = NEEDS.get(name, [])
        absent = [library for library in libraries if find_library(library) is None]
        for library in absent:
            missing.setdefault(library, []).append(source.stem.removeprefix("_"))
        if not absent:
            found.append(extension(name, [str(relative)], libraries))
    if missing:
        lines = [
            f"  {library} for {', '.join(users)}: Debian package {LIBRARIES[library].debian}"
            for library, users in missing.items()
        ]
        text = "\n".join(["zvcore did not find these C libraries (header and library):", *lines])
        if REQUIRE_NATIVE:
            sys.exit(f"{text}\nInstall them, or unset ZVCORE_REQUIRE_NATIVE to get slower codecs instead.")
        print(f"warning: {text}\nThese codecs will work through Python, slower.", file=sys.stderr)
    return found


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def contents() -> dict[str, str]:
    """What the sources of native code hold, by their paths."""
    found = [
        file
        for kind in ("pyx", "pxd", "h", "c")
        for top in ("zvcore", "plugins")
        for file in ROOT.glob(f"{top}/**/*.{kind}")
    ]
    return {str(file.relative_to(ROOT)): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}


def date_by_content() -> None:
    """Give sources that do not hold what they were last built from the present date.

    Cython and setuptools compare dates, which say little after a checkout or a copy.
    """
    if not BUILT_FROM.exists():
        return
    before = json.loads(BUILT_FROM.read_text())
    for name, content in contents().items():
        if before.get(name) != content:
            os.utime(ROOT / name)


def modules() -> list[Extension]:
    date_by_content()
    return cythonize(
        extensions(),
        compiler_directives=DIRECTIVES,
        # numpy's own .pxd goes into the generated C, which then needs the headers of that version.
        build_dir=f"{BUILD}/cython-{Cython.__version__}-numpy-{numpy.__version__}",
        shared_utility_qualified_name=SHARED,
        # Worker processes only where they are forked: others would run this script again.
        nthreads=processors() if sys.platform == "linux" and sys.version_info < (3, 14) else 0,
        emit_linenums=DEBUG or SANITIZE,
    )


class BuildExtensions(build_ext):
    """Several modules at a time; rebuilds when the content of sources changes, or the flags."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = processors()

    def build_extensions(self) -> None:
        settings = [Cython.__version__, sys.version, os.environ.get("CC"), os.environ.get("CFLAGS"), DIRECTIVES]
        settings += [(e.name, e.define_macros, e.extra_compile_args, e.extra_link_args) for e in self.extensions]
        text = json.dumps(settings, indent=1)
        stamp = Path(self.build_temp, "settings.json")
        if not stamp.exists() or stamp.read_text() != text:
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.write_text(text)
        for module in self.extensions:
            module.depends = [*module.depends, str(stamp)]
        built_from = contents()
        super().build_extensions()
        BUILT_FROM.write_text(json.dumps(built_from, indent=1))
        # What an earlier build left of modules that are gone would go into the wheel.
        current = {Path(self.get_ext_fullpath(module.name)).resolve() for module in self.extensions}
        for package in ("zvcore", "zvcore_plugins"):
            for file in Path(self.build_lib, package).rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
                if file.resolve() not in current:
                    file.unlink()

    def copy_extensions_to_source(self) -> None:
        # setuptools leaves a newer file alone, also when it comes from another kind of build.
        builder = self.get_finalized_command("build_py")
        for module in self.extensions:
            inplace, built = map(Path, self._get_inplace_equivalent(builder, module))
            if inplace.exists() and built.exists() and not filecmp.cmp(inplace, built, shallow=False):
                inplace.unlink()
        super().copy_extensions_to_source()


if __name__ == "__main__":
    # Beside the sources it would be taken for an installed zvcore, with the entry points of whenever it was written.
    Path(BUILD).mkdir(parents=True, exist_ok=True)
    setup(
        packages=[
            *find_packages(include=["zvcore", "zvcore.*"]),
            "zvcore_plugins",
            "zvcore_plugins.without_libraries",
        ],
        package_dir={"zvcore": "zvcore", "zvcore_plugins": "plugins"},
        package_data={
            "": ["*.pxd", "*.pyi", *(["*.so"] if PREBUILT else [])],
            "zvcore": ["py.typed", "include/*.h", "tools/*.yaml"],
        },
        include_package_data=False,
        ext_modules=[] if PREBUILT else modules(),
        options={"build": {"build_base": BUILD}, "egg_info": {"egg_base": BUILD}},
        cmdclass={"build_ext": BuildExtensions},
        zip_safe=False,
    )
