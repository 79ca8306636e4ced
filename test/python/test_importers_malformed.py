"""Files that are wrong: one error, with file, line and construct."""

import random
import re

import pytest
from import_faults_hlo import HLO
from import_faults_layouts import GOOD as LAYOUTS_GOOD
from import_faults_layouts import LAYOUTS
from import_faults_mercury import GOOD as MERCURY_GOOD
from import_faults_mercury import MERCURY
from import_faults_msccl import MSCCL
from import_faults_mscclpp import MSCCLPP
from import_faults_partitions import GOOD as PARTITIONS_GOOD
from import_faults_partitions import PARTITIONS, SCATTER
from import_faults_shardy import GOOD, HLO_GOOD, HLO_SHARDINGS, SHARDY
from import_faults_stablehlo import STABLEHLO
from import_faults_taccl import JSON, TACCL
from import_files import FILES
from import_tensor_files import CASES as TENSOR_CASES
from import_tensor_files import hlo, stablehlo

from syncopate.errors import PlanError
from syncopate.importers import Format, prove, read_exchanges, read_steps

pytestmark = pytest.mark.any_triton

CASES = [
    *(("msccl-xml", name, case) for name, case in MSCCL.items()),
    *(("mscclpp-json", name, case) for name, case in MSCCLPP.items()),
    *(("taccl-json", name, case) for name, case in TACCL.items()),
    *(
        (form, name, (text, None, None, said, there))
        for form in ("mscclpp-json", "taccl-json")
        for name, (text, said, there) in JSON.items()
    ),
]


MORE = {
    "partitions-json": PARTITIONS,
    "stablehlo": STABLEHLO | SHARDY,
    "hlo": HLO | HLO_SHARDINGS,
    "layouts-json": LAYOUTS,
    "mercury-json": MERCURY,
}
CASES += [(form, name, case) for form, cases in MORE.items() for name, case in cases.items()]


def read(text, form, file):
    """All that an import does before it makes a plan for a shape, if the format leaves that open."""
    if Format(form).has_steps:
        prove(read_steps(text, form, file))
        return
    for exchange in read_exchanges(text, form, file):
        exchange.build()


@pytest.mark.parametrize("form", Format)
def test_there_are_enough_kinds(form):
    assert len([case for case in CASES if case[0] == form.value]) >= 30


@pytest.mark.parametrize(("form", "name", "case"), CASES, ids=lambda value: str(value)[:40])
def test_wrong_file_is_one_error_with_line_and_construct(form, name, case):
    text, old, new, said, there = case
    if old is not None:
        assert old in text, name
        text = text.replace(old, new, 1)
    with pytest.raises(PlanError) as caught:
        read(text, form, "wrong.file")
    message = str(caught.value)
    place = re.match(r"wrong\.file:(\d+): ", message)
    assert place, message
    assert re.search(said, message), message
    lines = text.split("\n")
    assert 1 <= int(place[1]) <= len(lines)
    assert there in lines[int(place[1]) - 1], message


def test_text_that_is_none_is_refused():
    with pytest.raises(PlanError, match=r"x\.xml:2: expects text"):
        read_steps("<algo\n\ud800/>", "msccl-xml", "x.xml")


TOKEN = re.compile(r'"[^"\n]*"|\w+|[^\w\s]|\s+')
WORDS = [
    "0",
    "1",
    "2",
    "-1",
    '"s"',
    '"r"',
    '"i"',
    "99999999999",
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "é",
    "",
]


def mutate(text, generator):
    tokens = TOKEN.findall(text)
    for _ in range(generator.choice([1, 1, 1, 2, 4])):
        at = generator.randrange(len(tokens))
        change = generator.randrange(6)
        if change == 0:
            tokens[at] = generator.choice(WORDS)
        elif change == 1:
            del tokens[at : at + generator.choice([1, 1, 5, 40])]
        elif change == 2:
            tokens.insert(at, tokens[generator.randrange(len(tokens))])
        elif change == 3:
            other = generator.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif change == 4:
            tokens[at] = tokens[generator.randrange(len(tokens))]
        elif tokens[at].strip('"').isdigit():
            number = str(int(tokens[at].strip('"')) + generator.choice([-1, 1, 1000]))
            tokens[at] = f'"{number}"' if tokens[at].startswith('"') else number
        if not tokens:
            tokens = [""]
    return "".join(tokens)


MUTATED = {
    **{name: (form, [write(2), write(3)]) for name, (form, _, write) in FILES.items()},
    "stablehlo": ("stablehlo", [stablehlo(case) for case in TENSOR_CASES.values()]),
    "generic stablehlo": (
        "stablehlo",
        [stablehlo(case, generic=True) for case in TENSOR_CASES.values()],
    ),
    "shardy": ("stablehlo", [GOOD]),
    "layouts": ("layouts-json", [LAYOUTS_GOOD]),
    "mercury": ("mercury-json", [MERCURY_GOOD]),
    "partitions": ("partitions-json", [PARTITIONS_GOOD, SCATTER]),
    "shardings": ("hlo", [HLO_GOOD]),
    "hlo": ("hlo", [hlo(case) for case in TENSOR_CASES.values() if case.axis == case.concat]),
}


@pytest.mark.parametrize("name", MUTATED)
def test_mutated_file_is_refused_or_right(name):
    """Nothing but a `PlanError` that begins with file and line comes out; what is taken is the collective."""
    form, texts = MUTATED[name]
    generator = random.Random(name)
    refused = 0
    for _ in range(300):
        text = mutate(generator.choice(texts), generator)
        try:
            read(text, form, "f")
        except PlanError as error:
            refused += 1
            assert re.match(r"f:\d+: \S", str(error)), error
    # Much of a module of XLA is of no interest here.
    assert (100 if Format(form).has_steps else 50) < refused <= 300
