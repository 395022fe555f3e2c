"""Scripts for shell completion, made from the parser itself, so that they know what it knows."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, field

__all__ = ["script"]


@dataclass
class Option:
    """One option: its spellings, what it says of itself, and what follows it."""

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


@dataclass
class Word:
    """A command, or `zvcore` itself."""

    name: str
    help: str
    options: list[Option] = field(default_factory=list)
    # The possible values of each positional argument; empty: a path.
    places: list[tuple[str, ...]] = field(default_factory=list)


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a parser with commands."""
    top, commands = describe(parser)
    writer = {"bash": bash, "zsh": zsh, "fish": fish}[shell]
    return writer(parser.prog, top, commands)


def describe(parser: argparse.ArgumentParser) -> tuple[Word, list[Word]]:
    top = word(parser.prog, "", parser)
    commands = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            commands += [word(name, helps.get(name, ""), one) for name, one in action.choices.items()]
    return top, commands


def word(name: str, help: str, parser: argparse.ArgumentParser) -> Word:
    found = Word(name, help)
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        choices = tuple(str(choice) for choice in action.choices or ())
        if action.option_strings:
            text = (action.help or "").replace("%%", "%")
            found.options.append(Option(tuple(action.option_strings), text, action.nargs != 0, choices))
        else:
            found.places.append(choices)
    return found


def flags_of(found: Word) -> list[str]:
    return [flag for option in found.options for flag in option.flags]


def bash(prog: str, top: Word, commands: list[Word]) -> str:
    names = " ".join(command.name for command in commands)
    lines = [
        f"# bash completion for {prog}",
        f"_{prog}() {{",
        "    local word command='' i reply=''",
        '    word="${COMP_WORDS[COMP_CWORD]}"',
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case "${COMP_WORDS[i]}" in',
        f'            {"|".join(command.name for command in commands)}) command="${{COMP_WORDS[i]}}"; break ;;',
        "        esac",
        "    done",
        "    COMPREPLY=()",
        '    case "$command:${COMP_WORDS[COMP_CWORD-1]}" in',
    ]
    for found in [top, *commands]:
        name = "" if found is top else found.name
        for option in found.options:
            if option.takes_value:
                case = "|".join(f"{name}:{flag}" for flag in option.flags)
                if option.choices:
                    words = shlex.quote(" ".join(option.choices))
                    lines.append(f'        {case}) COMPREPLY=($(compgen -W {words} -- "$word")); return ;;')
                else:
                    lines.append(f'        {case}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
    lines += ["    esac", '    case "$command" in', f"        '') reply='{names} {' '.join(flags_of(top))}' ;;"]
    for found in commands:
        choices = [choice for place in found.places for choice in place]
        lines.append(f"        {found.name}) reply='{' '.join([*choices, *flags_of(found)])}' ;;")
    lines += [
        "    esac",
        '    if [[ -z "$command" || "$word" == -* ]]; then',
        '        COMPREPLY=($(compgen -W "$reply" -- "$word"))',
        "    else",
        '        COMPREPLY=($(compgen -f -- "$word"))',
    ]
    for found in commands:
        choices = [choice for place in found.places for choice in place]
        if choices:
            words = shlex.quote(" ".join(choices))
            lines.append(f'        [[ $command == {found.name} ]] && COMPREPLY=($(compgen -W {words} -- "$word"))')
    lines += ["    fi", "}", f"complete -o filenames -F _{prog} {prog}", ""]
    return "\n".join(lines)


def zsh(prog: str, top: Word, commands: list[Word]) -> str:
    lines = [f"#compdef {prog}", f"_{prog}() {{", "    local context state line", "    typeset -A opt_args"]
    lines.append("    _arguments -C \\")
    lines += [f"        {spec} \\" for option in top.options for spec in zsh_option(option)]
    lines += ["        '1: :->command' \\", "        '*:: :->rest'", '    case "$state" in', "        command)"]
    lines.append("            local -a commands=(")
    lines += [f"                {shlex.quote(f'{one.name}:{one.help}')}" for one in commands]
    lines += ["            )", f"            _describe -t commands '{prog} command' commands ;;", "        rest)"]
    lines.append('            case "$line[1]" in')
    for found in commands:
        specs = [spec for option in found.options for spec in zsh_option(option)]
        for number, choices in enumerate(found.places, 1):
            specs.append(shlex.quote(f"{number}: :({' '.join(choices)})" if choices else f"{number}: :_files"))
        lines.append(f"                {found.name})")
        lines.append(" \\\n".join(["                    _arguments", *(f"                        {s}" for s in specs)]))
        lines[-1] += " ;;"
    lines += ["            esac ;;", "    esac", "}", f"compdef _{prog} {prog}", ""]
    return "\n".join(lines)


def zsh_option(option: Option) -> list[str]:
    help = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = "" if not option.takes_value else f": :({' '.join(option.choices)})" if option.choices else ": :_files"
    return [shlex.quote(f"{flag}[{help}]{value}") for flag in option.flags]


def fish(prog: str, top: Word, commands: list[Word]) -> str:
    lines = [f"# fish completion for {prog}"]
    names = " ".join(command.name for command in commands)
    nothing = f"not __fish_seen_subcommand_from {names}"
    for found in commands:
        lines.append(f"complete -c {prog} -f -n {fish_quote(nothing)} -a {found.name} -d {fish_quote(found.help)}")
    for found in [top, *commands]:
        when = nothing if found is top else f"__fish_seen_subcommand_from {found.name}"
        for option in found.options:
            parts = [f"complete -c {prog} -n {fish_quote(when)}"]
            for flag in option.flags:
                parts.append(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}")
            if option.choices:
                parts.append(f"-x -a {fish_quote(' '.join(option.choices))}")
            elif option.takes_value:
                parts.append("-r")
            parts.append(f"-d {fish_quote(option.help)}")
            lines.append(" ".join(parts))
        choices = [choice for place in found.places for choice in place]
        if choices:
            lines.append(f"complete -c {prog} -f -n {fish_quote(when)} -a {fish_quote(' '.join(choices))}")
    return "\n".join([*lines, ""])


def fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
