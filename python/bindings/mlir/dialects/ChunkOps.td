// MLIR's CMake functions write generated Python next to where the .td file
// stands, so that the dialect needs a second one here.
include "dialect/ChunkOps.td"
