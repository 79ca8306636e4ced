//===- ChunkAttrs.td - attributes and enums of the chunk dialect ----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKATTRS_TD
#define SYNCOPATE_DIALECT_CHUNKATTRS_TD

include "dialect/ChunkBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Chunk_I32Enum<string name, string text, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, text, cases> {
  let cppNamespace = "::syncopate::chunk";
  let genSpecializedAttr = 0;
}

def Chunk_Realization : Chunk_I32Enum<"Realization",
    "how a transfer is carried out", [
      I32EnumAttrCase<"CopyEngine", 0, "copy_engine">,
      I32EnumAttrCase<"TmaDedicated", 1, "tma_dedicated">,
      I32EnumAttrCase<"TmaColocated", 2, "tma_colocated">,
      I32EnumAttrCase<"LdstDedicated", 3, "ldst_dedicated">,
      I32EnumAttrCase<"LdstColocated", 4, "ldst_colocated">,
      I32EnumAttrCase<"Nccl", 5, "nccl">]>;

def Chunk_RealizationAttr
    : EnumAttr<Chunk_Dialect, Chunk_Realization, "realization">;

def Chunk_RealizationArrayAttr
    : TypedArrayAttrBase<Chunk_RealizationAttr, "realizations">;

def Chunk_Algorithm : Chunk_I32Enum<"Algorithm",
    "between which members the parts of a collective travel", [
      I32EnumAttrCase<"Direct", 0, "direct">,
      I32EnumAttrCase<"Ring", 1, "ring">,
      I32EnumAttrCase<"BidirectionalRing", 2, "bidirectional_ring">,
      I32EnumAttrCase<"Hierarchical", 3, "hierarchical">,
      I32EnumAttrCase<"RecursiveDoubling", 4, "recursive_doubling">]>;

def Chunk_AlgorithmAttr
    : EnumAttr<Chunk_Dialect, Chunk_Algorithm, "algorithm">;

def Chunk_Direction : Chunk_I32Enum<"Direction",
    "which side carries the transfers of a collective out", [
      I32EnumAttrCase<"Push", 0, "push">,
      I32EnumAttrCase<"Pull", 1, "pull">]>;

def Chunk_DirectionAttr
    : EnumAttr<Chunk_Dialect, Chunk_Direction, "direction">;

def Chunk_Reduction : Chunk_I32Enum<"Reduction",
    "how what arrives is combined with what is there", [
      I32EnumAttrCase<"Sum", 0, "sum">,
      I32EnumAttrCase<"Max", 1, "max">,
      I32EnumAttrCase<"Min", 2, "min">]>;

def Chunk_ReductionAttr
    : EnumAttr<Chunk_Dialect, Chunk_Reduction, "reduction">;

def Chunk_TileOrder : Chunk_I32Enum<"TileOrder",
    "the order in which a rank computes its tiles", [
      I32EnumAttrCase<"Arrival", 0, "arrival">,
      I32EnumAttrCase<"Grouped", 1, "grouped">,
      I32EnumAttrCase<"Paced", 2, "paced">,
      I32EnumAttrCase<"Wave", 3, "wave">,
      I32EnumAttrCase<"Given", 4, "given">]>;

def Chunk_TileOrderAttr
    : EnumAttr<Chunk_Dialect, Chunk_TileOrder, "tile_order">;

def Chunk_SlotShape : Chunk_I32Enum<"SlotShape",
    "what library calls take of a matrix at a time", [
      I32EnumAttrCase<"Rows", 0, "rows">,
      I32EnumAttrCase<"Tiles", 1, "tiles">]>;

def Chunk_SlotShapeAttr
    : EnumAttr<Chunk_Dialect, Chunk_SlotShape, "slot_shape">;

def Chunk_Access : Chunk_I32Enum<"Access", "direction of an access", [
      I32EnumAttrCase<"Read", 0, "read">,
      I32EnumAttrCase<"Write", 1, "write">]>;

def Chunk_AccessAttr : EnumAttr<Chunk_Dialect, Chunk_Access, "access">;

/// A field of an attribute that may be left out, with the value it has then.
class Chunk_Field<string type, string value>
    : DefaultValuedParameter<type, value>;
class Chunk_EnumField<EnumInfo enumInfo, string value>
    : EnumParameter<enumInfo> {
  let defaultValue = enumInfo.cppType # "::" # value;
}

def Chunk_StrategyAttr : AttrDef<Chunk_Dialect, "Strategy"> {
  let mnemonic = "strategy";
  let summary = "the choices made for a plan";
  let description = [{
    What the passes of `syncopate-plan-pipeline` use where a transfer does not
    say otherwise: the algorithm of collectives and the direction of their
    transfers, the number of pieces a transfer is split into, the realization,
    the tile order, the number of row tiles that stay together in it, how long a
    co-located role rests after each block that it stores to another rank, in
    nanoseconds, the number of CTAs that dedicated realizations have, if
    there are any, how many waves of tiles go into each library call, the last
    number for all further ones; without any, there are at most eight calls of
    as many waves each; whether such calls take whole rows of tiles or single
    tiles; and the realization of transfers between nodes, which are ranks that
    differ in another than the last dimension of the mesh.

    With `splits = 0`, that number is chosen for each transfer by its size:
    at most four pieces, of 8 MiB and 512 rows or more.

    A field that is left out has its default: `algorithm = direct`,
    `direction = push`, `splits = 0`, `realization = ldst_colocated`,
    `order = arrival`, `group_m = 8`, `pause = 500`, `comm_ctas = 8`, no `waves`,
    `slots = rows`, and no `between`, so that `realization` is that of all transfers. A plan without a strategy has all of them.

    Constraints:
    * (strategy_c1) `splits` is in [0, 4096], and `group_m` is positive.
    * (strategy_c2) `pause` is in [0, 1000000].
    * (strategy_c3) `comm_ctas` is in [1, 65536].
    * (strategy_c4) each number of `waves` is positive.

    Example: `#chunk.strategy<splits = 4, realization = copy_engine>`.
  }];
  let parameters = (ins
      Chunk_EnumField<Chunk_Algorithm, "Direct">:$algorithm,
      Chunk_EnumField<Chunk_Direction, "Push">:$direction,
      Chunk_Field<"int64_t", "0">:$splits,
      Chunk_EnumField<Chunk_Realization, "LdstColocated">:$realization,
      Chunk_EnumField<Chunk_TileOrder, "Arrival">:$order,
      Chunk_Field<"int64_t", "8">:$group_m,
      Chunk_Field<"int64_t", "500">:$pause,
      Chunk_Field<"int64_t", "8">:$comm_ctas,
      OptionalParameter<"::mlir::DenseI64ArrayAttr">:$waves,
      Chunk_EnumField<Chunk_SlotShape, "Rows">:$slots,
      OptionalParameter<"std::optional<::syncopate::chunk::Realization>">:$between);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Pieces that a transfer is split into at most.
    static constexpr int64_t kMaxSplits = 4096;
    /// Longest rest between blocks that the strategy accepts, in nanoseconds.
    static constexpr int64_t kMaxPause = 1000000;
    /// Most CTAs that dedicated realizations may have.
    static constexpr int64_t kMaxCommCtas = 65536;
    /// The strategy whose fields are all left out.
    static StrategyAttr getDefault(::mlir::MLIRContext *context);
  }];
}

def Chunk_TableAttr : AttrDef<Chunk_Dialect, "Table"> {
  let mnemonic = "table";
  let summary = "an integer table with named columns";
  let description = [{
    The form in which a schedule leaves the compiler: the fused kernel and the
    host runner read these rows.

    Constraints:
    * (table_c1) there is at least one column, and column names are unique.
    * (table_c2) the number of values is a multiple of the number of columns.

    Example: `#chunk.table<signal, count : [0, 1], [1, 1]>`.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$columns,
                        ArrayRefParameter<"int64_t">:$values);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  // Its hash looks at a sample of the values only.
  let genStorageClass = 0;
  let extraClassDeclaration = [{
    int64_t getNumRows() const {
      return getValues().size() / getColumns().size();
    }
    ::llvm::ArrayRef<int64_t> getRow(int64_t row) const {
      return getValues().slice(row * getColumns().size(),
                               getColumns().size());
    }
    /// Index of the column called `name`, or -1.
    int64_t getColumn(::llvm::StringRef name) const;
    /// A table with columns of these names; `values` are row by row.
    static TableAttr get(::mlir::MLIRContext *context,
                         ::llvm::ArrayRef<::llvm::StringRef> columns,
                         ::llvm::ArrayRef<int64_t> values);
  }];
}

#endif // SYNCOPATE_DIALECT_CHUNKATTRS_TD
