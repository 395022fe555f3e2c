"""`zvcore repair PATH`: leave out what is broken, keep what is sound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.commands import FormatNames

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "repair",
        parents=[common],
        help="leave out what is damaged, keep what is sound",
        description="Rewrite shards with their sound chunks and take out those that cannot be decoded, into a copy "
        "(--out) or in place, where everything that is replaced is kept beside it with .bak added to its name. Every "
        "loss is reported; nothing is guessed. Exit status 0: the result is sound, 1: problems remain, 2: wrong usage.",
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL")
    parser.add_argument("-o", "--out", metavar="DIR", help="make a sound copy there and change nothing here")
    parser.add_argument("--format", metavar="F", choices=FormatNames(), help="%(choices)s (default: detected)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    import zvcore
    from zvcore.care.several import SeveralDatasetsError
    from zvcore.commands import UsageError
    from zvcore.commands.terminal import asking, for_each, print_json, put, reading, say
    from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
    from zvcore.report import Problem, Report, What

    with reading(options.path), asking():
        try:
            report = zvcore.repair(options.path, options.out, threads=options.threads, format=options.format)
        except SeveralDatasetsError as error:
            raise UsageError(for_each(error, options.path, "repair", options.out)) from error
        except (MetadataError, CorruptDataError, UnsupportedError) as error:
            # Of what nothing can be repaired, programs want an answer, too.
            remains = Problem.of(error)
            if options.json:
                nothing_done = Report()
                nothing_done.tell(remains)
                print_json({**nothing_done.to_json(), "sound": False, "remaining": [remains.to_json()]})
            elif remains.damage:
                put(f"remains: {remains}")
            raise
    # What is there now has the last word.
    where = options.path if options.out is None else options.out
    try:
        after = zvcore.verify(where, threads=options.threads, format=options.format)
        remaining = [problem for problem in after.problems if problem.fatal]
        beyond = after.wrong - len(remaining)
    except zvcore.errors.NotFoundError:
        # The one file that was meant is gone, or nothing could be copied.
        remaining = [] if report.losses else [problem for problem in report.problems if problem.fatal]
        beyond = 0
    if options.out is not None:
        # The copy is sound without these. Whether they are, nobody knows.
        remaining += [loss for loss in report.losses if loss.kind is What.STORE]
    if options.json:
        told = {"remaining": [one.to_json() for one in remaining], **({"remaining_left_out": beyond} if beyond else {})}
        print_json({**report.to_json(), "sound": not remaining, **told})
        return 1 if remaining else 0
    for problem in report.problems:
        say(options, f"found: {problem}")
    for loss in report.losses:
        put(f"lost: {loss}")
    for problem in remaining:
        put(f"remains: {problem}")
    if beyond:
        put(f"remains: and {beyond} more")
    counts = ", ".join(f"{number} {what}" for what, number in report.counts.items() if number)
    say(options, f"{where}: {'problems remain' if remaining else 'sound now'} ({counts or 'nothing done'})")
    return 1 if remaining else 0
