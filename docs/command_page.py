"""The parser of the command, as docs/commands.md lists it."""

from __future__ import annotations

import argparse

from syncopate import cli


def make_parser() -> argparse.ArgumentParser:
    """The parser of `syncopate`, in whose help placeholders are filled in, as argparse does when it prints."""
    parser = cli.make_parser()
    _expand(parser)
    return parser


def _expand(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if action.help and "%(" in action.help:
            action.help = action.help % {**vars(action), "prog": parser.prog}
        if isinstance(action, argparse._SubParsersAction):
            for command in dict.fromkeys(action.choices.values()):
                _expand(command)
