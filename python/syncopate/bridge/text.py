"""Generic-form text: expansion of attribute and type aliases.

MLIR prints long attributes once, as ``#alias = …`` at the top of a file. A parser that does not know a dialect keeps
the body of ``!dialect.type<…>`` as an uninterpreted string, so an alias in there would lose its meaning. Location
aliases never occur inside such a body; every MLIR parser resolves them, and expanding them would multiply the size of
the text, so they stay as they are.
"""

import re

__all__ = ["expand_aliases"]

_DEFINITION = re.compile(r"^([#!][A-Za-z_$][\w$]*) = (.*)$")
# A string literal, or an alias: a name that is neither the dialect prefix of a longer name nor opened by '<'.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_$][\w$]*(?![\w$.<])')


def expand_aliases(text: str) -> str:
    """Expands every attribute and type alias in place, nested ones included.

    Args:
        text: A module as MLIR prints it.

    Returns:
        The same module without alias definitions, those of locations excepted.
    """
    aliases: dict[str, str] = {}
    body: list[str] = []

    def substitute(line: str) -> str:
        return _TOKEN.sub(lambda match: aliases.get(match[0], match[0]), line)

    # A definition follows those that it mentions, so one pass in file order resolves nesting.
    for line in text.splitlines():
        definition = _DEFINITION.match(line)
        if definition is None:
            body.append(substitute(line))
        elif definition[2].startswith("loc("):
            body.append(line)
        else:
            aliases[definition[1]] = substitute(definition[2])
    return "\n".join(body) + "\n"
