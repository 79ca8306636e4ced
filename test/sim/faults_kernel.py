"""Faults of the fused kernel: edits of its TritonGPU IR, each of which breaks one thing."""

from __future__ import annotations

from typing import Any

from fused_edits import (
    DoesNotApply,
    Edit,
    Fused,
    bypass,
    change,
    constant,
    contains,
    decide,
    drop,
    integer,
    kernel,
    never,
    pin,
    plus,
    producer,
    shift,
    users,
)
from sim_faults import Fault, Where
from sim_table import ENGINE, LDST, PULL, RING_PULL, Case

from syncopate.mlir import ir
from syncopate.sim.findings import Kind

RELAXED, ACQUIRE, RELEASE = 1, 2, 3
GPU, CTA = 1, 2
BARRIER = r"(gpu|ttg)\.barrier"
RMW = r"tt\.atomic_rmw"
TILE, COMMAND, CLOSE, OPEN = "wait_signals_entry", "run_commands_ldst", "close_call", "open_call"

D, R, U, X = Kind.DEADLOCK, Kind.RACE, Kind.UNWRITTEN, Kind.OUT_OF_BOUNDS
S, B, O, G, V = Kind.SHARED_RACE, Kind.BARRIER, Kind.OUTPUT, Kind.REGISTER, Kind.OVERFLOW


# Programs that have what a fault breaks.


def any_(_: Case) -> bool:
    return True


def ldst(case: Case) -> bool:
    return case.realization is LDST


def engine(case: Case) -> bool:
    return case.realization is ENGINE


def several_ctas(case: Case) -> bool:
    return case.config.num_ctas > 1


def ldst_of_several_ctas(case: Case) -> bool:
    return ldst(case) and several_ctas(case)


def engine_gets(case: Case) -> bool:
    return engine(case) and case.algorithm in (PULL, RING_PULL)


def engine_puts(case: Case) -> bool:
    """No tile of a rank waits for what its own engine copies."""
    return engine(case) and not engine_gets(case)


def ldst_gets(case: Case) -> bool:
    """The flags that tiles wait for are raised on their own GPU."""
    return ldst(case) and case.algorithm in (PULL, RING_PULL)


def reads_several_shards(case: Case) -> bool:
    """Some tile reads chunks that several ranks bring."""
    return case.shape[0] < 64 * case.world and case.algorithm is PUSH and not case.is_attention


def reads_own_input(case: Case) -> bool:
    """Tiles read the rank's own input where the caller keeps it."""
    whole_tiles = case.shape[0] % (64 * case.world) == 0
    return ldst(case) and tma_gemm(case) and whole_tiles


def tma(case: Case) -> bool:
    return not case.has_pointers


def tma_gemm(case: Case) -> bool:
    return tma(case) and not case.is_attention


def wgmma(case: Case) -> bool:
    return case.target == "sm_90"


def ampere(case: Case) -> bool:
    return case.target == "sm_80"


# Edits of a kind of their own.


def outer_wait(op: Any) -> bool:
    """Whether a branch of `wait_signals` is the one that skips a wait for nothing."""
    return contains(op, "scf.for")


def after_poll(op: Any) -> bool:
    """Whether a branch of `wait_signals` is the one that polls on."""
    return not contains(op, "scf.for")


def other_flag(*within: str) -> Edit:
    """Waits use the flag after theirs."""

    def edit(fused: Fused) -> None:
        for poll in fused.find(RMW, "_poll", *within, where=_is_first_poll):
            index = producer(poll.operands[0]).operands[1]
            _replace_by_more(index, 1)

    return edit


def _is_first_poll(op: Any) -> bool:
    return op.operation.parent.name != "scf.while"


def _replace_by_more(value: Any, by: int) -> None:
    """Whoever uses a value gets more."""
    uses = [(use.owner, use.operand_number) for use in value.uses]
    first = next(iter(_after(value.owner)))
    more = plus(value, by, first)
    for owner, number in uses:
        owner.operands[number] = more


def _after(op: Any) -> list[Any]:
    block = list(op.operation.block.operations)
    at = next(i for i, other in enumerate(block) if other.operation == op.operation)
    return [other.operation for other in block[at + 1 :]]


def other_call(by: int, *within: str) -> Edit:
    """Waits want the value of another call."""

    def edit(fused: Fused) -> None:
        for op in fused.find(r"arith\.select", *within, innermost="wait_signals", where=_is_wanted):
            op.operands[2] = plus(op.operands[2], by, op)

    return edit


def _is_wanted(op: Any) -> bool:
    made = producer(op.operands[2])
    return made is not None and made.name == "arith.muli"


def compare_without_wrapping(fused: Fused) -> None:
    """`seen < wanted` in place of `seen - wanted < 0`."""
    for op in fused.find(r"arith\.cmpi", "wait_signals", where=_is_difference):
        difference = producer(op.operands[0])
        op.operands[0], op.operands[1] = difference.operands[0], difference.operands[1]


def _is_difference(op: Any) -> bool:
    made = producer(op.operands[0])
    return made is not None and made.name == "arith.subi" and str(op.operands[0].type) == "i32"


def one_wait_only(fused: Fused) -> None:
    """Of several waits of a tile, only the first."""
    for op in fused.find(r"scf\.for", TILE, innermost="wait_signals"):
        op.operands[1] = plus(op.operands[0], 1, op)


def fence_first(fused: Fused) -> None:
    """The fence comes in front of the polls."""
    for op in fused.find(r"tt\.elementwise_inline_asm", TILE, innermost="fence_tma"):
        loops = [other for other in _block_of(op) if other.name == "scf.for"]
        op.move_before(loops[-1])


def _block_of(op: Any) -> list[Any]:
    return [other.operation for other in op.operation.block.operations]


def move_after(name: str, anchor: str, *within: str) -> Edit:
    """Operations change places with the next one of another name in their block."""

    def edit(fused: Fused) -> None:
        moved = 0
        for op in fused.find(name, *within):
            later = [other for other in _after(op) if other.name == anchor]
            if later:
                op.move_after(later[0])
                moved += 1
        if not moved:
            raise DoesNotApply(f"{name} before {anchor}")

    return edit


def move_before(name: str, anchor: str, *within: str) -> Edit:
    """Operations go in front of the last one of another name before them."""

    def edit(fused: Fused) -> None:
        moved = 0
        for op in fused.find(name, *within):
            block = _block_of(op)
            at = block.index(op)
            earlier = [other for other in block[:at] if other.name == anchor]
            if earlier:
                op.move_before(earlier[-1])
                moved += 1
        if not moved:
            raise DoesNotApply(f"{name} after {anchor}")

    return edit


def count_before_copy(fused: Fused) -> None:
    """A command is counted, and raised, before it is copied."""
    for op in fused.find(r"scf\.for", COMMAND, innermost="copy_region"):
        op.move_before(_block_of(op)[-1])


def barrier_late(fused: Fused) -> None:
    """The barrier comes after the count."""
    for op in fused.find(BARRIER, COMMAND):
        op.move_after(next(other for other in _after(op) if other.name == "tt.atomic_rmw"))


def copy_twice(fused: Fused) -> None:
    """A command's copy is repeated after it was counted and raised."""
    for op in fused.find(r"scf\.for", COMMAND, innermost="copy_region"):
        op.clone(ip=ir.InsertionPoint(_block_of(op)[-1]))


def copy_side(load_from: str, store_to: str) -> Edit:
    """Which side of a command the copy loop loads from and stores to."""

    def edit(fused: Fused) -> None:
        (store,) = fused.find(r"tt\.store", COMMAND, innermost="copy_region")
        (load,) = fused.find(
            r"tt\.load",
            COMMAND,
            innermost="copy_region",
            where=lambda op: "tensor" in str(op.results[0].type),
        )
        places = {"src": load.operands[0], "dst": store.operands[0]}
        if load_from == "dst":
            made = producer(places["dst"])
            _move_up(made, load)
        load.operands[0], store.operands[0] = places[load_from], places[store_to]

    return edit


def _move_up(op: Any, before: Any) -> None:
    """Moves an operation, and what it needs, in front of another of the same block."""
    for value in op.operands:
        made = producer(value)
        if (
            made is not None
            and made.operation.block == before.block
            and _block_of(before).index(made.operation) > _block_of(before).index(before)
        ):
            _move_up(made.operation, before)
    op.operation.move_before(before)


def copy_unmasked(fused: Fused) -> None:
    """The last block of a copy is as long as the others."""
    for op in fused.find(r"tt\.(load|store)", COMMAND, innermost="copy_region", where=_is_masked):
        last = len(op.operands) - 1
        op.operands[last] = constant(1, str(op.operands[last].type), op)


def _is_masked(op: Any) -> bool:
    return "xi1" in str(op.operands[len(op.operands) - 1].type)


def copy_offset(fused: Fused) -> None:
    """What a command stores lands four bytes too high."""
    for op in fused.find(r"tt\.store", COMMAND, innermost="copy_region"):
        made = producer(op.operands[0])
        made.operands[1] = plus(made.operands[1], 1, made)


def neighbours_command(fused: Fused) -> None:
    """Commands are read one row too far."""
    for op in _row_of_command(fused):
        op.operands[0] = plus(op.operands[0], 1, op)


def first_command_only(fused: Fused) -> None:
    """Every command is the first."""
    for op in _row_of_command(fused):
        op.operands[0] = constant(0, "i32", op)


def _row_of_command(fused: Fused) -> list[Any]:
    return fused.find(
        r"arith\.muli",
        innermost=COMMAND,
        where=lambda op: isinstance(op.operands[0].owner, type(op.operation.block)),
    )


def one_counter(fused: Fused) -> None:
    """All commands count on the first one's counter."""
    for op in fused.find(RMW, innermost=COMMAND):
        made = producer(op.operands[0])
        made.operands[1] = constant(0, "i32", made)


def counted(by: int, function: str) -> Edit:
    """The number of CTAs that have finished is off."""

    def edit(fused: Fused) -> None:
        for op in fused.find(RMW, innermost=function):
            for user in users(op):
                at = next(i for i, v in enumerate(user.operands) if v == op.results[0])
                user.operands[at] = plus(op.results[0], by, user)

    return edit


def finished(op: Any) -> bool:
    """Whether a branch is taken by the CTA that finds itself the last."""
    compared = producer(op.operands[0])
    total = (
        producer(compared.operands[1])
        if compared is not None and len(compared.operands) > 1
        else None
    )
    return total is not None and total.name == "arith.muli"


def raise_value(by: int, function: str) -> Edit:
    """Raised flags get another value."""

    def edit(fused: Fused) -> None:
        for op in fused.find(RMW, function, innermost="raise_signals", where=_is_exchange):
            made = producer(op.operands[1])
            made.operands[1] = plus(made.operands[1], by, made)

    return edit


def _is_exchange(op: Any) -> bool:
    return integer(op, "atomic_rmw_op") == 10


def raise_next(fused: Fused) -> None:
    """The rows of the signals that a command raises are one too far."""
    for op in fused.find(r"scf\.for", COMMAND, innermost="raise_signals"):
        for operand in (0, 1):
            op.operands[operand] = plus(op.operands[operand], 1, op)


def _epoch_stores(fused: Fused) -> list[Any]:
    """The stores of the engine's epoch and of the epoch, in this order."""
    return fused.find(r"tt\.store", innermost=CLOSE)


def epoch_stays(fused: Fused) -> None:
    """The epoch is not advanced."""
    _epoch_stores(fused)[-1].erase()


def engine_epoch_stays(fused: Fused) -> None:
    """The word that the engine copies to flags is not advanced."""
    _epoch_stores(fused)[0].erase()


def epoch_twice(fused: Fused) -> None:
    """The epoch is advanced by two."""
    for op in _epoch_stores(fused):
        op.operands[1] = plus(op.operands[1], 1, op)


def epoch_early(fused: Fused) -> None:
    """The epoch is advanced before the closing signals are raised."""
    stores = _epoch_stores(fused)
    first = _block_of(stores[0])[0]
    for op in stores:
        _move_up(op, first)


def epoch_before_count(fused: Fused) -> None:
    """Every CTA advances the epoch, before it is counted."""
    op = _epoch_stores(fused)[-1]
    (barrier,) = fused.find(BARRIER, innermost=CLOSE)
    made = producer(op.operands[1]).operation
    made.move_before(barrier)
    op.move_before(barrier)


def done_before_wait(fused: Fused) -> None:
    """The closing signals are raised before the closing waits are over."""
    for op in fused.find(r"scf\.if", CLOSE, innermost="wait_signals", where=outer_wait):
        op.move_before(_block_of(op)[-1])


def own_input_from_buffer(fused: Fused) -> None:
    """The tiles' own rows are read from the buffer, where nobody has put them."""
    for op in fused.find(r"arith\.select", where=_chooses_source):
        for user in users(producer(op.operands[0])):
            user.operands[0] = constant(0, "i1", user)


def _chooses_source(op: Any) -> bool:
    return "tensordesc" in str(op.results[0].type)


def first_tile(fused: Fused) -> None:
    """Whatever its position, the first row of the tile table is read."""
    for op in fused.find(r"arith\.muli", "read_tile_entry"):
        op.operands[0] = constant(0, "i32", op)


def _parity(fused: Fused) -> list[Any]:
    return fused.find(r"ttng\.wait_barrier")


def inverted_phase(fused: Fused) -> None:
    """mbarriers are waited for with the parity of the phase before."""
    for op in _parity(fused):
        op.operands[1] = plus(op.operands[1], 1, op)


def ring_of(change_by: int, which: str = "both") -> Edit:
    """The pipeline's slot numbers wrap around at another number of slots."""

    def edit(fused: Fused) -> None:
        found = fused.find(r"arith\.cmpi", where=_wraps_slots)
        for op in found:
            op.operands[1] = plus(op.operands[1], change_by, op)

    return edit


def _wraps_slots(op: Any) -> bool:
    bound = producer(op.operands[1])
    added = producer(op.operands[0])
    if integer(op, "predicate") != 5 or added is None or added.name != "arith.addi":
        return False
    if bound is None or bound.name != "arith.constant" or str(bound.results[0].type) != "i32":
        return False
    slots = [user for user in users(op) if user.name == "arith.select"]
    return any(inner.name == "ttg.memdesc_index" for user in slots for inner in users(user))


def slot_zero(of: str, operand: int) -> Edit:
    """An operand that is a slot of a ring is always its first one."""

    def edit(fused: Fused) -> None:
        for op in fused.find(of):
            made = producer(op.operands[operand])
            if made.name == "ttg.memdesc_index":
                made.operands[1] = constant(0, "i32", made)

    return edit


def load_target_zero(fused: Fused) -> None:
    """Loads of the pipeline all go to the first slot."""
    for op in fused.find(r"ttng\.async_tma_copy_global_to_local"):
        for value in op.operands:
            if "memdesc" in str(value.type) and "xi64" not in str(value.type):
                made = producer(value)
                if made.name == "ttg.memdesc_index":
                    made.operands[1] = constant(0, "i32", made)


def unpredicated(fused: Fused) -> None:
    """The pipeline goes on loading behind its last step."""
    for op in fused.find(r"ttng\.(async_tma_copy_global_to_local|barrier_expect)"):
        last = len(op.operands) - 1
        if str(op.operands[last].type) == "i1":
            op.operands[last] = constant(1, "i1", op)


def early_end_of_barriers(fused: Fused) -> None:
    """mbarriers are invalidated before the loop that uses them."""
    for op in fused.find(r"ttng\.inval_barrier"):
        loops = [other for other in _block_of(op) if other.name == "scf.for"]
        op.move_before(loops[-1])


def pass_over(name: str, **options: Any) -> Edit:
    """Takes out operations that only wait."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, **options):
            bypass(op)

    return edit


def unmasked(name: str) -> Edit:
    """Accesses of the local kernel lose their mask."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, "gemm_pointers", where=_has_mask):
            for at, value in enumerate(op.operands):
                if "xi1" in str(value.type):
                    op.operands[at] = constant(1, str(value.type), op)

    return edit


def _has_mask(op: Any) -> bool:
    return any("xi1" in str(value.type) for value in op.operands)


def pending(number: int) -> Any:
    """A wait for all but so many operations."""
    return lambda op: integer(op, "pendings") == number


def fault(name: str, broken: str, found: set[Kind], edit: Edit, on: Any = any_) -> Fault:
    return Fault(name, broken, Where.KERNEL, kernel(edit), frozenset(found), on)


WAIT_IF = {"innermost": "wait_signals", "where": outer_wait}
POLL_IF = {"innermost": "wait_signals", "where": after_poll}

KERNEL_FAULTS: tuple[Fault, ...] = (
    # Waits.
    fault("tile wait skipped", "Tiles do not wait for what they read.", {R, U}, never(r"scf\.if", TILE, **WAIT_IF)),
    fault("command wait skipped", "Commands wait neither for their source nor for their destination.", {R, U}, never(r"scf\.if", COMMAND, **WAIT_IF), ldst),
    fault("closing wait skipped", "A call ends although the copy engine may still be at work.", {R}, never(r"scf\.if", CLOSE, **WAIT_IF), engine_puts),
    fault("tile wait given up", "A tile that finds its flag not raised goes on.", {R, U}, never(r"scf\.if", TILE, **POLL_IF)),
    fault("command wait given up", "A command that finds its flag not raised goes on.", {R, U}, never(r"scf\.if", COMMAND, **POLL_IF), ldst),
    fault("wrong flag", "Tiles wait for the flag after theirs.", {R, U, D}, other_flag(TILE)),
    fault("wait for the call before", "Tiles are content with the data of the call before.", {R, U}, other_call(-1, TILE)),
    fault("wait for the call after", "Tiles wait for data of the next call.", {D}, other_call(1, TILE)),
    fault("comparison that does not wrap", "Flags are compared as numbers, not by their difference.", {R, U, D}, compare_without_wrapping),
    fault("first wait only", "Of several chunks, a tile waits for the first.", {R, U}, one_wait_only, reads_several_shards),
    # Acquire.
    fault("relaxed acquire of tiles", "Tiles poll with a relaxed load.", {R}, change(RMW, "sem", RELAXED, "_poll", TILE)),
    fault("relaxed acquire of commands", "Commands poll with a relaxed load.", {R}, change(RMW, "sem", RELAXED, "_poll", COMMAND), ldst),
    fault("relaxed acquire at the end", "The closing waits poll with a relaxed load.", {R}, change(RMW, "sem", RELAXED, "_poll", CLOSE), engine_puts),
    fault("relaxed slow path", "Only the poll of a wait that had to block is relaxed.", {R}, change(RMW, "sem", RELAXED, "_poll", "_block", TILE)),
    fault("narrow acquire of tiles", "Tiles acquire at the scope of their GPU.", {R}, change(RMW, "scope", GPU, "_poll", TILE), lambda c: not ldst_gets(c)),
    fault("narrow acquire of commands", "Commands acquire at the scope of their GPU.", {R}, change(RMW, "scope", GPU, "_poll", COMMAND), ldst),
    fault("narrow acquire at the end", "The closing waits acquire at the scope of their GPU.", {R}, change(RMW, "scope", GPU, "_poll", CLOSE), engine),
    # Release.
    fault("relaxed release of commands", "Flags of transfers are raised with a relaxed exchange.", {R}, change(RMW, "sem", RELAXED, "raise_signals", COMMAND), ldst),
    fault("relaxed release of calls", "The end of a call is told with a relaxed exchange.", {R}, change(RMW, "sem", RELAXED, "raise_signals", CLOSE)),
    fault("relaxed release of inputs", "That an input is in place is told with a relaxed exchange.", {R}, change(RMW, "sem", RELAXED, "raise_signals", OPEN), engine_gets),
    fault("narrow release of commands", "Flags of transfers are raised at the scope of the GPU.", {R}, change(RMW, "scope", GPU, "raise_signals", COMMAND), ldst),
    fault("narrow release of calls", "The end of a call is told at the scope of the GPU.", {R}, change(RMW, "scope", GPU, "raise_signals", CLOSE)),
    fault("narrow release of inputs", "That an input is in place is told at the scope of the GPU.", {R}, change(RMW, "scope", GPU, "raise_signals", OPEN), engine_gets),
    # Counters of CTAs.
    fault("command counter only acquires", "The CTA that counts a command does not release its part.", {R}, change(RMW, "sem", ACQUIRE, innermost=COMMAND), ldst_of_several_ctas),
    fault("command counter only releases", "The CTA that raises a command has not acquired the others' parts.", {R}, change(RMW, "sem", RELEASE, innermost=COMMAND), ldst_of_several_ctas),
    fault("command counter of one CTA", "Commands are counted at the scope of a CTA.", {R}, change(RMW, "scope", CTA, innermost=COMMAND), ldst_of_several_ctas),
    fault("call counter only acquires", "The CTA that counts itself does not release what it read.", {R}, change(RMW, "sem", ACQUIRE, innermost=CLOSE), several_ctas),
    fault("call counter only releases", "The last CTA has not acquired what the others read.", {R}, change(RMW, "sem", RELEASE, innermost=CLOSE), several_ctas),
    fault("call counter of one CTA", "CTAs are counted at the scope of a CTA.", {R}, change(RMW, "scope", CTA, innermost=CLOSE), several_ctas),
    fault("command counted too early", "A command counts as done when one CTA is missing.", {R, U, D}, counted(1, COMMAND), ldst),
    fault("command counted too late", "A command waits for one CTA more than there are.", {D}, counted(-1, COMMAND), ldst),
    fault("call counted too early", "A call counts as ended when one CTA is missing.", {R, U, D}, counted(1, CLOSE)),
    fault("call counted too late", "A call waits for one CTA more than there are.", {D}, counted(-1, CLOSE)),
    fault("every CTA raises", "Each CTA raises a command's flags when its own part is done.", {R, U}, decide(r"scf\.if", True, innermost=COMMAND, where=finished), ldst_of_several_ctas),
    fault("no CTA raises", "Nobody raises the flags of commands.", {D}, never(r"scf\.if", innermost=COMMAND, where=finished), ldst),
    fault("every CTA closes", "Each CTA ends the call.", {R, U, D, V}, decide(r"scf\.if", True, innermost=CLOSE, where=finished), several_ctas),
    fault("no CTA closes", "Nobody ends the call.", {D, R, U}, never(r"scf\.if", innermost=CLOSE, where=finished)),
    fault("one counter for all commands", "Commands count on the first one's counter.", {D}, one_counter, lambda c: ldst(c) and (c.world > 2 or c.splits > 1 or c.algorithm is PULL)),
    # Raising.
    fault("raised for the call after", "Flags of transfers are raised to the number of the next call.", {R, U}, raise_value(1, COMMAND), ldst),
    fault("raised for the call before", "Flags of transfers are raised to the number of the call before.", {D}, raise_value(-1, COMMAND), ldst),
    fault("flags go back", "Flags of transfers are lowered.", {V}, raise_value(-2, COMMAND), ldst),
    fault("another command's signals", "Commands raise the signals after theirs.", {D, R, U, X}, raise_next, ldst),
    fault("counted before copied", "A command is counted and raised before it is carried out.", {R, U}, count_before_copy, ldst),
    fault("no barrier before the count", "A command is counted while other threads still copy.", {R}, drop(BARRIER, COMMAND), ldst_of_several_ctas),
    fault("barrier after the count", "The barrier comes after the count.", {R}, barrier_late, ldst_of_several_ctas),
    fault("nobody opens", "Nobody says that an input is in place.", {D}, never(r"scf\.if", innermost=OPEN), engine_gets),
    fault("every CTA opens", "Each CTA says that the input is in place.", {V}, decide(r"scf\.if", True, innermost=OPEN), lambda c: engine_gets(c) and several_ctas(c)),
    # The end of a call.
    fault("epoch stays", "The number of the call is not advanced.", {R, U, D}, epoch_stays),
    fault("engine's epoch stays", "The word that the engine copies to flags is not advanced.", {D}, engine_epoch_stays, engine),
    fault("epoch advanced twice", "The number of the call is advanced by two.", {R, U, D}, epoch_twice),
    fault("epoch advanced early", "The closing signals are raised with the number of the next call.", {R, U}, epoch_early, lambda c: not engine_puts(c)),
    fault("epoch advanced by every CTA", "Each CTA advances the epoch before it is counted.", {R}, epoch_before_count, several_ctas),
    fault("done before it is", "The closing signals are raised before the closing waits.", {R}, done_before_wait, engine),
    # Copies.
    fault("last block left out", "The copy loop ends one block early.", {U, R}, shift(r"scf\.for", 1, -1, COMMAND, innermost="copy_region"), ldst),
    fault("first block left out", "The copy loop begins one block late.", {U, R}, shift(r"scf\.for", 0, 1, COMMAND, innermost="copy_region"), ldst),
    fault("every block by every CTA", "The copy loop of each CTA begins with the first block.", {R, U}, pin(r"scf\.for", 0, 0, COMMAND, innermost="copy_region"), ldst_of_several_ctas),
    fault("mask dropped", "The last block of a copy is as long as the others.", {R, U, X}, copy_unmasked, lambda c: ldst(c) and c.splits > 1),
    fault("four bytes off", "What a command stores lands four bytes too high.", {R, U, X}, copy_offset, ldst),
    fault("stored to the source", "A command stores to where it loads from.", {R, U}, copy_side("src", "src"), ldst),
    fault("copied the wrong way", "A command copies its destination to its source.", {R, U}, copy_side("dst", "src"), ldst),
    fault("copied twice", "A command is carried out again after its flags were raised.", {R}, copy_twice, ldst),
    fault("last command left out", "The last command is not carried out.", {D, U}, shift(r"scf\.for", 1, -1, innermost=COMMAND), ldst),
    fault("commands one row off", "Each command is the one after it.", {D, R, U, X}, neighbours_command, ldst),
    fault("first command only", "Every command is the first one.", {D, R, U}, first_command_only, lambda c: ldst(c) and (c.world > 2 or c.splits > 1 or c.algorithm is PULL)),
    # Tiles.
    fault("fence left out", "TMA reads what was acquired without a fence.proxy.async.", {R}, drop(r"tt\.elementwise_inline_asm", innermost="fence_tma"), tma),
    fault("fence before the wait", "The fence.proxy.async comes before the acquire.", {R}, fence_first, tma),
    fault("own rows from the buffer", "Tiles read the rank's own rows from the buffer instead of its input.", {R, U}, own_input_from_buffer, reads_own_input),
    fault("first tile only", "Every tile is the first.", {R, U, O}, first_tile),
    fault("stored one row off", "A tile is stored one row too low.", {R, O}, shift(r"ttng\.async_tma_copy_local_to_global", 1, 1), tma),
    # Pipelines with TMA.
    fault("no wait on an mbarrier", "Products do not wait for their operands.", {S}, drop(r"ttng\.wait_barrier"), tma),
    fault("constant phase", "mbarriers are always waited for with parity 1.", {S, D, B}, pin(r"ttng\.wait_barrier", 1, 1), tma),
    fault("inverted phase", "mbarriers are waited for with the parity of the phase before.", {S, D, B}, inverted_phase, tma),
    fault("wait on the first mbarrier", "Products always wait for the first slot.", {S, D, B}, slot_zero(r"ttng\.wait_barrier", 0), tma_gemm),
    fault("no expected bytes", "Loads are not announced to their mbarrier.", {B, D}, drop(r"ttng\.barrier_expect"), tma),
    fault("too few expected bytes", "mbarriers expect 16 bytes of their loads.", {B, D}, change(r"ttng\.barrier_expect", "size", 16), tma),
    fault("too many expected bytes", "mbarriers expect 16 bytes more than come.", {D}, change(r"ttng\.barrier_expect", "size", lambda size: size + 16), tma),
    fault("mbarrier of two arrivals", "mbarriers wait for two arrivals.", {D}, change(r"ttng\.init_barrier", "count", 2), tma),
    fault("mbarrier not initialized", "mbarriers are used as they are found.", {B}, drop(r"ttng\.init_barrier"), tma),
    fault("mbarrier invalidated early", "mbarriers are invalidated in front of the loop.", {B}, early_end_of_barriers, tma_gemm),
    fault("mbarrier not invalidated", "The memory of valid mbarriers is freed.", {B}, drop(r"ttng\.inval_barrier"), tma),
    fault("one slot too few", "Slots of the pipeline are used again one step too early.", {S, D, B}, ring_of(-1), tma_gemm),
    fault("one slot too many", "The pipeline uses a slot more than there are.", {X, S}, ring_of(1), tma_gemm),
    fault("one slot for all loads", "All loads of the pipeline go to the first slot.", {S}, load_target_zero, tma_gemm),
    fault("loads behind the end", "The pipeline goes on loading behind its last step.", {B, S, D}, unpredicated, tma_gemm),
    fault("one product too many in flight", "The loop waits for one product less.", {S, G}, change(r"ttng\.warp_group_dot_wait", "pendings", 2, where=pending(1)), tma_gemm),
    fault("products not waited for", "The loop does not wait for its products.", {S, G}, pass_over(r"ttng\.warp_group_dot_wait", where=pending(1)), tma_gemm),
    fault("accumulator in flight", "A tile is stored while its last product is in flight.", {G, S}, change(r"ttng\.warp_group_dot_wait", "pendings", 1, where=pending(0)), wgmma),
    fault("no wait for TMA stores", "Shared memory is written while a store reads it.", {S}, drop(r"ttng\.async_tma_store_wait"), tma),
    fault("wait for TMA stores too late", "A store is waited for when its memory has been written again.", {S}, move_after(r"ttng\.async_tma_store_wait", "ttg.local_store"), tma_gemm),
    fault("no fence before TMA stores", "TMA stores what was written without a fence.", {S}, drop(r"ttng\.fence_async_shared"), wgmma),
    fault("fence after TMA stores", "The fence comes after the store.", {S}, move_after(r"ttng\.fence_async_shared", "ttng.async_tma_copy_local_to_global"), tma),
    fault("stored before it is there", "A tile is stored before it is in shared memory.", {S}, move_before(r"ttng\.async_tma_copy_local_to_global", "ttg.local_store"), tma_gemm),
    # Pipelines with cp.async.
    fault("one cp.async group too many", "The loop waits for one group of copies less.", {S}, change(r"ttg\.async_wait", "num", lambda n: n + 1), ampere),
    fault("cp.async not waited for", "The loop does not wait for its copies.", {S}, change(r"ttg\.async_wait", "num", 100), ampere),
    fault("cp.async not committed", "Copies belong to no group.", {S}, pass_over(r"ttg\.async_commit_group"), ampere),
    fault("copies unmasked", "Loads of the local kernel lose their mask.", {X, U, R}, unmasked(r"(tt\.load|ttg\.async_copy_global_to_local)"), lambda c: c.has_pointers and c.shape[0] % 64 != 0),
    fault("output unmasked", "Stores of the local kernel lose their mask.", {X, R}, unmasked(r"tt\.store"), lambda c: c.has_pointers and c.shape[0] % 64 != 0),
)  # fmt: skip
"""In the order of a call: waits, memory order, counters, signals, copies, tiles, pipelines."""
