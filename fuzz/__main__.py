"""One target under libFuzzer, or one input without it.

    python -m fuzz TARGET [--in FOLDER] [libFuzzer's options]   fuzz; needs atheris and modules that were built for it
    python -m fuzz TARGET --replay FILE...                      run these inputs, with any build

Started by `fuzz/session.py`, which says what must be preloaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz import corpus


def fuzz(name: str, arguments: list[str], folder: Path | None) -> None:
    """With a folder, what the repository has of inputs goes there first."""
    import atheris

    # Everything of zvcore that is Python, also what is only imported when it is needed; compiled modules bring their
    # own counters.
    with atheris.instrument_imports(include=["zvcore", "zvcore_plugins"], enable_loader_override=False):
        from fuzz.harness import all_targets, attempt

        target = all_targets()[name]
        seeds = list(target.seeds())
        for seed in seeds:
            attempt(target, seed)
    if folder is not None:
        corpus.unpack([*corpus.load(name), *seeds], folder)
        arguments = [*arguments, str(folder)]

    def one_input(data: bytes) -> None:
        attempt(target, data)

    # Merging starts this again, as the shell finds it.
    atheris.Setup([f"{sys.executable} -m fuzz {name}", *arguments], one_input, internal_libfuzzer=False)
    atheris.Fuzz()


def replay(name: str, files: list[str]) -> None:
    from fuzz.harness import all_targets, attempt

    for file in files:
        taken = attempt(all_targets()[name], Path(file).read_bytes())
        print(f"{file}: {'taken' if taken else 'refused'}")


def main(arguments: list[str]) -> int:
    if not arguments or not arguments[0] or arguments[0].startswith("-"):
        from fuzz.harness import all_targets

        print("\n".join(all_targets()))
        return 0
    name, *rest = arguments
    if rest[:1] == ["--replay"]:
        replay(name, rest[1:])
    elif rest[:1] == ["--in"]:
        fuzz(name, rest[2:], Path(rest[1]))
    else:
        fuzz(name, rest, None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
