"""The command `syncopate doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import argparse
from typing import Any

from syncopate.outcome import ExitCode, Outcome, add_json

__all__ = ["add_doctor_command"]


def add_doctor_command(commands: Any) -> None:
    """Adds the command to an argument parser's commands."""
    doctor = commands.add_parser(
        "doctor",
        help="say what this machine has of what is needed, and how to get the rest",
        description="Looks for all that compiling and running need. Ends with 0 if programs can be compiled here, and "
        "with 3 if not; whether they can be run is said, too.",
    )
    doctor.add_argument(
        "--measure", action="store_true", help="also measure copies between each two GPUs"
    )
    add_json(doctor)
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> Outcome:
    from syncopate.doctor import diagnose

    found = diagnose(measure=arguments.measure)
    code = ExitCode.DONE if found.can_compile else ExitCode.WRONG
    return Outcome(str(found), found.to_json(), code)
