"""The chunk dialect: operations, enums, types and attributes."""

from .._mlir_libs import _syncopate
from ._chunk_enum_gen import *  # noqa: F403
from ._chunk_ops_gen import *  # noqa: F403

_syncopate.bind_classes(_syncopate)

BufferType = _syncopate.BufferType
TableAttr = _syncopate.TableAttr
TokenType = _syncopate.TokenType
