"""The numbers of `syncopate.abi` as device functions can use them: compile-time constants of Triton."""

import enum
from typing import Final

import triton.language as tl

from syncopate import abi
from syncopate.abi import (
    CommandField,
    CommandReduction,
    ContextWord,
    FaultField,
    FaultPlace,
    GroupField,
    ProfileEvent,
    ProfileLane,
    ProfileRecord,
    Realization,
    SignalField,
    SignalKind,
    StateWord,
    StepField,
    TileField,
    TileGroupField,
    WaitField,
)


def _constant(member: enum.IntEnum | int) -> tl.constexpr:
    return tl.constexpr(int(member))


STATE: Final = _constant(ContextWord.STATE)
FLAGS: Final = _constant(ContextWord.FLAGS)
TILES: Final = _constant(ContextWord.TILES)
WAITS: Final = _constant(ContextWord.WAITS)
SIGNALS: Final = _constant(ContextWord.SIGNALS)
COMMANDS: Final = _constant(ContextWord.COMMANDS)
COMM_CTAS: Final = _constant(ContextWord.COMM_CTAS)
OPEN: Final = _constant(ContextWord.OPEN)
CLOSE_WAIT: Final = _constant(ContextWord.CLOSE_WAIT)
CLOSE_SIGNAL: Final = _constant(ContextWord.CLOSE_SIGNAL)
FAULT: Final = _constant(ContextWord.FAULT)
TIMEOUT_NS: Final = _constant(ContextWord.TIMEOUT_NS)
RANK: Final = _constant(ContextWord.RANK)
NUM_CTAS: Final = _constant(ContextWord.NUM_CTAS)
INPUT_BEGIN: Final = _constant(ContextWord.INPUT_BEGIN)
INPUT_END: Final = _constant(ContextWord.INPUT_END)
GROUPS: Final = _constant(ContextWord.GROUPS)
TILE_GROUPS: Final = _constant(ContextWord.TILE_GROUPS)
GROUP_COUNTERS: Final = _constant(ContextWord.GROUP_COUNTERS)
RECORDS: Final = _constant(ContextWord.RECORDS)
RING_ROLE: Final = _constant(ContextWord.RING_ROLE)
BEFORE_TILES: Final = _constant(ContextWord.BEFORE_TILES)
NEEDS: Final = _constant(ContextWord.NEEDS)
STEPS: Final = _constant(ContextWord.STEPS)
PROFILE: Final = _constant(ContextWord.PROFILE)
PROFILE_RECORDS: Final = _constant(ContextWord.PROFILE_RECORDS)
SLOTS: Final = _constant(ContextWord.SLOTS)
SLOT_COLUMNS: Final = _constant(ContextWord.SLOT_COLUMNS)
SLOT_ROWS: Final = _constant(ContextWord.SLOT_ROWS)
FIRST_ROLE: Final = _constant(Realization.TMA_DEDICATED)
FIRST_ROLE_WORD: Final = _constant(ContextWord.TMA_DEDICATED_COMMANDS)
NUM_REALIZATIONS: Final = _constant(len(Realization))

STATE_EPOCH: Final = _constant(StateWord.EPOCH)
STATE_FINISHED: Final = _constant(StateWord.FINISHED)
STATE_ABORTED: Final = _constant(StateWord.ABORTED)
STATE_ENGINE_EPOCH: Final = _constant(StateWord.ENGINE_EPOCH)
STATE_ENGINE_ONE: Final = _constant(StateWord.ENGINE_ONE)
STATE_LOST: Final = _constant(StateWord.LOST)
STATE_COMMANDS: Final = _constant(StateWord.COMMANDS)

TILE_STRIDE: Final = _constant(abi.TILE_STRIDE)
TILE_C0: Final = _constant(TileField.C0)
TILE_C1: Final = _constant(TileField.C1)
TILE_C2: Final = _constant(TileField.C2)
TILE_WAIT_BEGIN: Final = _constant(TileField.WAIT_BEGIN)
TILE_WAIT_END: Final = _constant(TileField.WAIT_END)
TILE_STEP_BEGIN: Final = _constant(TileField.STEP_BEGIN)
TILE_STEP_END: Final = _constant(TileField.STEP_END)

STEP_STRIDE: Final = _constant(abi.STEP_STRIDE)
STEP_STEP: Final = _constant(StepField.STEP)
STEP_WAIT_BEGIN: Final = _constant(StepField.WAIT_BEGIN)
STEP_WAIT_END: Final = _constant(StepField.WAIT_END)
TILE_NUMBER: Final = _constant(TileField.NUMBER)

GROUP_STRIDE: Final = _constant(abi.GROUP_STRIDE)
GROUP_COUNT: Final = _constant(GroupField.COUNT)
GROUP_SIGNAL_BEGIN: Final = _constant(GroupField.SIGNAL_BEGIN)
GROUP_SIGNAL_END: Final = _constant(GroupField.SIGNAL_END)
TILE_GROUP_STRIDE: Final = _constant(abi.TILE_GROUP_STRIDE)
TILE_GROUP_GROUP: Final = _constant(TileGroupField.GROUP)
TILE_GROUP_ACCUMULATES: Final = _constant(TileGroupField.ACCUMULATES)
TILE_GROUP_WAIT_BEGIN: Final = _constant(TileGroupField.WAIT_BEGIN)
TILE_GROUP_WAIT_END: Final = _constant(TileGroupField.WAIT_END)
TILE_GROUP_COMMAND_BEGIN: Final = _constant(TileGroupField.COMMAND_BEGIN)
TILE_GROUP_COMMAND_END: Final = _constant(TileGroupField.COMMAND_END)
TILE_GROUP_RECORD: Final = _constant(TileGroupField.RECORD)
TILE_GROUP_ROWS: Final = _constant(TileGroupField.ROWS)
TILE_GROUP_SLOT: Final = _constant(TileGroupField.SLOT)

WAIT_STRIDE: Final = _constant(abi.WAIT_STRIDE)
WAIT_SIGNAL: Final = _constant(WaitField.SIGNAL)
WAIT_COUNT: Final = _constant(WaitField.COUNT)

SIGNAL_STRIDE: Final = _constant(abi.SIGNAL_STRIDE)
SIGNAL_ADDRESS: Final = _constant(SignalField.ADDRESS)
SIGNAL_KIND: Final = _constant(SignalField.KIND)
KIND_EPOCH: Final = _constant(SignalKind.EPOCH)
KIND_ADD: Final = _constant(SignalKind.ADD)

COMMAND_STRIDE: Final = _constant(abi.COMMAND_STRIDE)
COMMAND_SRC: Final = _constant(CommandField.SRC)
COMMAND_DST: Final = _constant(CommandField.DST)
COMMAND_ROWS: Final = _constant(CommandField.ROWS)
COMMAND_ROW_BYTES: Final = _constant(CommandField.ROW_BYTES)
COMMAND_SRC_STRIDE: Final = _constant(CommandField.SRC_STRIDE)
COMMAND_DST_STRIDE: Final = _constant(CommandField.DST_STRIDE)
COMMAND_WAIT_BEGIN: Final = _constant(CommandField.WAIT_BEGIN)
COMMAND_WAIT_END: Final = _constant(CommandField.WAIT_END)
COMMAND_SIGNAL_BEGIN: Final = _constant(CommandField.SIGNAL_BEGIN)
COMMAND_SIGNAL_END: Final = _constant(CommandField.SIGNAL_END)
COMMAND_FROM_INPUT: Final = _constant(CommandField.FROM_INPUT)
COMMAND_PAUSE: Final = _constant(CommandField.PAUSE)
COMMAND_REDUCTION: Final = _constant(CommandField.REDUCTION)
COMMAND_PARTS: Final = _constant(CommandField.PARTS)
COMMAND_PART_STRIDE: Final = _constant(CommandField.PART_STRIDE)
COMMAND_BEHIND: Final = _constant(CommandField.BEHIND)
COMMAND_COUNT: Final = _constant(CommandField.COUNT)
COMMAND_COUNT_PAST: Final = _constant(CommandField.COUNT_PAST)
REDUCTION_NONE: Final = _constant(CommandReduction.NONE)
REDUCTION_SUM: Final = _constant(CommandReduction.SUM)
REDUCTION_MAX: Final = _constant(CommandReduction.MAX)
REDUCTION_UNORDERED_SUM: Final = _constant(CommandReduction.UNORDERED_SUM)

FAULT_SET: Final = _constant(FaultField.SET)
FAULT_RANK: Final = _constant(FaultField.RANK)
FAULT_SIGNAL: Final = _constant(FaultField.SIGNAL)
FAULT_WANTED: Final = _constant(FaultField.WANTED)
FAULT_SEEN: Final = _constant(FaultField.SEEN)
FAULT_WHERE: Final = _constant(FaultField.WHERE)
FAULT_EPOCH: Final = _constant(FaultField.EPOCH)

WHERE_TILE: Final = _constant(FaultPlace.TILE)
WHERE_COMMAND: Final = _constant(FaultPlace.COMMAND)
WHERE_CLOSE: Final = _constant(FaultPlace.CLOSE)
WHERE_GUARD: Final = _constant(FaultPlace.GUARD)

LANES: Final = _constant(abi.PROFILE_LANES)
LANE_COUNT: Final = _constant(ProfileLane.COUNT)
LANE_SM: Final = _constant(ProfileLane.SM)
LANE_RECORDS: Final = _constant(len(ProfileLane))
RECORD_STRIDE: Final = _constant(len(ProfileRecord))
RECORD_TIME: Final = _constant(ProfileRecord.TIME)
RECORD_EVENT: Final = _constant(ProfileRecord.EVENT)
ROLE_BEGIN: Final = _constant(ProfileEvent.ROLE_BEGIN)
ROLE_END: Final = _constant(ProfileEvent.ROLE_END)
TILE_BEGIN: Final = _constant(ProfileEvent.TILE_BEGIN)
TILE_END: Final = _constant(ProfileEvent.TILE_END)
COMMAND_BEGIN: Final = _constant(ProfileEvent.COMMAND_BEGIN)
COMMAND_END: Final = _constant(ProfileEvent.COMMAND_END)
WAIT_BEGIN: Final = _constant(ProfileEvent.WAIT_BEGIN)
WAIT_END: Final = _constant(ProfileEvent.WAIT_END)
RING_BEGIN: Final = _constant(ProfileEvent.RING_BEGIN)
RING_END: Final = _constant(ProfileEvent.RING_END)
