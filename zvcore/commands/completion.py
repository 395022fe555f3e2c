"""`zvcore completion SHELL`: a script that lets a shell complete the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish")

HOW = """\
bash:  source <(zvcore completion bash)          # in ~/.bashrc
zsh:   source <(zvcore completion zsh)           # in ~/.zshrc, after compinit
fish:  zvcore completion fish | source           # in ~/.config/fish/config.fish
"""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    import argparse

    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        parents=[common],
        help="print a script for shell completion",
        description="Print a script that teaches a shell the commands and options of zvcore.",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="for which shell")
    return parser


def run(options: argparse.Namespace) -> int:
    from zvcore.commands.cli import make_parser
    from zvcore.commands.shell_scripts import script

    print(script(make_parser(), options.shell), end="")
    return 0
