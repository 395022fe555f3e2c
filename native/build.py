"""Builds the C libraries of the codecs from the sources that crates ship: newer than those of most systems.

`make native` runs it. What comes out lies under build/native: static archives, headers and pkg-config files, which
setup.py finds before the system's own when PKG_CONFIG_PATH names them. Cargo fetches the sources (Cargo.toml says
which, Cargo.lock has their hashes); Rust compiles nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libraries import ARM, FLAGS, HERE, LIBRARIES, X86, Library


def run(command: list[str], **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}native: this command failed")
    return done.stdout


def fetch(folder: Path) -> None:
    """The sources of all crates, as Cargo.lock says."""
    if shutil.which("cargo") is None:
        sys.exit("native: cargo fetches the sources of the C libraries: install it, or build with those of the system")
    run(["cargo", "vendor", "--quiet", "--locked", "--manifest-path", str(HERE / "Cargo.toml"), str(folder)])


def prepare_snappy(sources: Path) -> None:
    """Snappy's build writes one header from a pattern; its version stands in the name of the crate's."""
    folder = sources / "snappy_src"
    version = re.search(
        r'^version = "[^"]*snappy\.(\d+)\.(\d+)\.(\d+)"', (folder / "Cargo.toml").read_text(), re.MULTILINE
    )
    if version is None:
        sys.exit("native: the crate snappy_src does not say the version of snappy")
    text = (folder / "snappy" / "snappy-stubs-public.h.in").read_text().replace("${HAVE_SYS_UIO_H_01}", "1")
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), version.groups(), strict=True):
        text = text.replace(f"${{PROJECT_VERSION_{name}}}", number)
    (folder / "snappy" / "snappy-stubs-public.h").write_text(text)


def prepare_jpeg(sources: Path) -> None:
    """libjpeg-turbo's build writes what it found out of the compiler and the system into headers, from patterns."""
    folder = sources / "turbojpeg-sys" / "libjpeg-turbo"
    found = re.search(r"^set\(VERSION ([\d.]+)\)", (folder / "CMakeLists.txt").read_text(), re.MULTILINE)
    year = re.search(r'^set\(COPYRIGHT_YEAR "([\d-]+)"\)', (folder / "CMakeLists.txt").read_text(), re.MULTILINE)
    if found is None or year is None:
        sys.exit("native: the crate turbojpeg-sys does not say the version of libjpeg-turbo")
    version = found[1]
    major, minor, revision = map(int, version.split("."))
    values = {
        "JPEG_LIB_VERSION": "62",  # of the interface, which everybody has
        "VERSION": version,
        "LIBJPEG_TURBO_VERSION_NUMBER": str((major * 1000 + minor) * 1000 + revision),
        "BUILD": "zvcore",
        "HIDDEN": '__attribute__((visibility("hidden")))',
        "INLINE": "__inline__ __attribute__((always_inline))",
        "THREAD_LOCAL": "__thread",
        "CMAKE_PROJECT_NAME": "libjpeg-turbo",
        "SIZE_T": "8",
        "COPYRIGHT_YEAR": year[1],
    }
    defined = {"C_ARITH_CODING_SUPPORTED", "D_ARITH_CODING_SUPPORTED", "HAVE_BUILTIN_CTZL"}
    if X86 or ARM:
        defined.add("WITH_SIMD")
    # Compilers have these since GCC 12 and clang 13.
    defined |= {"HAVE_VLD1_S16_X3", "HAVE_VLD1_U16_X2", "HAVE_VLD1Q_U8_X4"}
    for pattern in ("src/jconfig.h.in", "src/jconfigint.h.in", "src/jversion.h.in", "simd/arm/neon-compat.h.in"):
        text = (folder / pattern).read_text()
        text = re.sub(r"@(\w+)@", lambda name: values[name[1]], text)
        text = re.sub(
            r"#cmakedefine (\w+)(.*)",
            lambda name: f"#define {name[1]}{name[2]}" if name[1] in defined else f"#undef {name[1]}",
            text,
        )
        (folder / pattern.removesuffix(".in")).write_text(text)


def change(sources: Path, library: Library) -> None:
    """Change the sources of a library; a version that does not hold exactly what is to be changed is not built."""
    for each in library.changes:
        source = sources / library.crate / library.folder / each.path
        text = source.read_text()
        if text.count(each.theirs) != 1:
            sys.exit(f"native: {source} holds {each.theirs!r} {text.count(each.theirs)} times, expected once")
        source.write_text(text.replace(each.theirs, each.ours))


def version_in(header: Path) -> str:
    """The version that a header gives: as a string, or as three numbers."""
    text = header.read_text(errors="replace")
    if found := re.search(r'#\s*define\s+\w*VERSION(?:_STRING)?\s+"(\d+(?:\.\d+)+)', text):
        return found[1]
    numbers = [
        re.search(rf"#\s*define\s+\w*(?:VERSION_{part}|_{part})\s+(\d+)", text)
        for part in ("MAJOR", "MINOR", "(?:RELEASE|PATCH|PATCHLEVEL)")
    ]
    if not all(numbers):
        sys.exit(f"native: {header} does not say its version")
    return ".".join(number[1] for number in numbers if number)


@dataclass
class Builder:
    """One build of all libraries, into a folder of its own."""

    sources: Path
    target: Path
    objects: Path
    libraries: list[Library]
    extra: list[str] = field(default_factory=list)

    def build(self) -> None:
        for folder in (self.target, self.objects):
            shutil.rmtree(folder, ignore_errors=True)
        (self.target / "lib" / "pkgconfig").mkdir(parents=True)
        self.objects.mkdir(parents=True)
        for library in self.libraries:
            self.copy_headers(library)
            self.copy_licences(library)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2) as pool:
            compiled = {
                library.package: [(pool.submit(run, command), out) for command, out in self.commands(library)]
                for library in self.libraries
            }
            for library in self.libraries:
                parts = []
                for job, out in compiled[library.package]:
                    job.result()
                    parts.append(str(out))
                run(["ar", "rcs", str(self.target / "lib" / f"lib{library.archive}.a"), *parts])
                self.describe(library)

    def folder(self, library: Library) -> Path:
        return self.sources / library.crate / library.folder

    def copy_headers(self, library: Library) -> None:
        folder = self.folder(library)
        base = folder / "api" if library.archive == "lzma" else folder
        for pattern in library.headers:
            for header in sorted(folder.glob(pattern)):
                place = self.target / "include" / header.relative_to(base)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(header, place)

    def copy_licences(self, library: Library) -> None:
        place = self.target / "licences" / f"{library.package}.txt"
        place.parent.mkdir(exist_ok=True)
        texts = [(self.folder(library) / name).read_bytes() for name in library.licences]
        place.write_bytes(b"\n".join(texts))

    def commands(self, library: Library) -> list[tuple[list[str], Path]]:
        folder = self.folder(library)
        found = sorted({path.resolve() for pattern in library.sources for path in folder.glob(pattern)})
        found += [HERE / name for name in library.ours]
        found = [path for path in found if not any(path.match(pattern) for pattern in library.without)]
        commands = [self.command(library, source) for source in found]
        for flag, names in library.again.items():
            commands += [self.command(library, folder / name, flag) for name in names]
        if not commands:
            sys.exit(f"native: no sources of {library.package} in {folder}")
        return commands

    def command(self, library: Library, source: Path, *more: str) -> tuple[list[str], Path]:
        """What compiles one source, and where to."""
        folder = self.folder(library)
        name = "-".join((library.archive, source.parent.name, source.stem, *(flag.split("=")[-1] for flag in more)))
        out = self.objects / f"{name}.o"
        includes = [f"-I{folder / name}" for name in library.include]
        if source.suffix == ".asm":
            kind, system = ("macho64", "MACHO") if sys.platform == "darwin" else ("elf64", "ELF")
            places = [f"-I{source.parent}/", f"-I{source.parent.parent / 'nasm'}/"]
            command = ["nasm", "-f", kind, f"-D{system}", "-D__x86_64__", "-DPIC", *places, str(source), "-o", str(out)]
            return command, out
        compiler = os.environ.get("CXX", "c++") if source.suffix == ".cc" else os.environ.get("CC", "cc")
        own = [flag for pattern, flags in library.flags_of.items() if source.match(pattern) for flag in flags]
        # Its own headers first: the build's include folder may hold another library's of the same name.
        flags = [*FLAGS, *library.flags, *own, *more, *self.extra, *includes, f"-I{self.target / 'include'}"]
        return [*shlex.split(compiler), *flags, "-c", str(source), "-o", str(out)], out

    def describe(self, library: Library) -> None:
        """A pkg-config file. The archive is named by its path, so that nothing of the system's is linked instead."""
        by_name = {other.package: other for other in LIBRARIES}
        libs = []
        for name in (library.package, *library.uses):
            other = by_name[name]
            libs += [f"${{libdir}}/lib{other.archive}.a", *other.links]
        if sys.platform == "linux":
            # Another zstd in the process is neither used nor replaced.
            libs.append("-Wl,--exclude-libs,ALL")
        version = version_in(self.folder(library) / (library.version_header or library.headers[0]))
        text = "\n".join(
            [
                "prefix=${pcfiledir}/../..",
                "libdir=${prefix}/lib",
                "includedir=${prefix}/include",
                "",
                f"Name: {library.package}",
                f"Description: {library.package} of the crate {library.crate}, static",
                f"Version: {version}",
                f"Libs: {' '.join(libs)}",
                f"Cflags: {' '.join(('-I${includedir}', *library.tells))}",
                "",
            ]
        )
        (self.target / "lib" / "pkgconfig" / f"{library.package}.pc").write_text(text)


def fingerprint(arguments: list[str]) -> str:
    """What the build depends on: when it is the same there is nothing to do."""
    parts = [(HERE / name).read_text() for name in ("Cargo.toml", "Cargo.lock", "build.py", "libraries.py")]
    parts += [path.read_text() for path in sorted(HERE.glob("*.[ch]"))]
    parts += [run([*shlex.split(os.environ.get("CC", "cc")), "--version"]), *arguments]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def buildable() -> list[Library]:
    """The libraries whose programs are there."""
    found = []
    for library in LIBRARIES:
        if missing := [name for name in library.programs if shutil.which(name) is None]:
            print(f"native: {library.package} is not built, for want of {', '.join(missing)}", file=sys.stderr)
        else:
            found.append(library)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, help="where include/ and lib/ are to be made")
    arguments = parser.parse_args()
    target = arguments.target.resolve()
    stamp = target / "built-from"
    libraries = buildable()
    wanted = fingerprint([library.package for library in libraries])
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    work = target.with_name(f"{target.name}-work")
    fetch(work / "sources")
    prepare_snappy(work / "sources")
    prepare_jpeg(work / "sources")
    for library in libraries:
        change(work / "sources", library)
    Builder(work / "sources", target, work / "objects", libraries).build()
    stamp.write_text(wanted)
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
