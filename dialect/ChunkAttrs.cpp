//===- ChunkAttrs.cpp - attributes of the chunk dialect -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Chunk.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace syncopate::chunk;

#include "dialect/ChunkEnums.cpp.inc"

namespace syncopate::chunk::detail {

/// Tables are long, and made anew for every shape: to hash all values takes
/// longer than to copy them. Tables of one plan differ in their size or all
/// over, so a sample tells them apart; those that it does not are compared.
struct TableAttrStorage : AttributeStorage {
  using KeyTy = std::pair<ArrayRef<StringAttr>, ArrayRef<int64_t>>;

  TableAttrStorage(ArrayRef<StringAttr> columns, ArrayRef<int64_t> values)
      : columns(columns), values(values) {}

  KeyTy getAsKey() const { return {columns, values}; }
  bool operator==(const KeyTy &key) const { return getAsKey() == key; }

  static llvm::hash_code hashKey(const KeyTy &key) {
    constexpr size_t kSamples = 64;
    auto &[columns, values] = key;
    llvm::hash_code hash = llvm::hash_combine(columns, values.size());
    // An odd step meets all columns of tables that have an even number of them.
    size_t step = values.size() / kSamples | 1;
    for (size_t i = 0; i < values.size(); i += step)
      hash = llvm::hash_combine(hash, values[i]);
    return hash;
  }

  static TableAttrStorage *construct(AttributeStorageAllocator &allocator,
                                     KeyTy &&key) {
    return new (allocator.allocate<TableAttrStorage>()) TableAttrStorage(
        allocator.copyInto(key.first), allocator.copyInto(key.second));
  }

  ArrayRef<StringAttr> columns;
  ArrayRef<int64_t> values;
};

} // namespace syncopate::chunk::detail

#define GET_ATTRDEF_CLASSES
#include "dialect/ChunkAttrs.cpp.inc"

void ChunkDialect::registerAttrs() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/ChunkAttrs.cpp.inc"
      >();
}

LogicalResult StrategyAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   Algorithm, Direction, int64_t splits,
                                   Realization, TileOrder, int64_t groupM,
                                   int64_t pause, int64_t commCtas,
                                   DenseI64ArrayAttr waves, SlotShape,
                                   std::optional<Realization>) {
  if (splits < 0 || splits > kMaxSplits) // strategy_c1
    return emitError() << "expects splits to be in [0, " << kMaxSplits
                       << "], but got " << splits;
  if (groupM <= 0)
    return emitError() << "expects group_m to be positive, but got " << groupM;
  if (pause < 0 || pause > kMaxPause) // strategy_c2
    return emitError() << "expects pause to be in [0, " << kMaxPause
                       << "], but got " << pause;
  if (commCtas < 1 || commCtas > kMaxCommCtas) // strategy_c3
    return emitError() << "expects comm_ctas to be in [1, " << kMaxCommCtas
                       << "], but got " << commCtas;
  for (int64_t count : waves ? waves.asArrayRef() : ArrayRef<int64_t>())
    if (count <= 0) // strategy_c4
      return emitError() << "expects positive waves, but got " << count;
  return success();
}

StrategyAttr StrategyAttr::getDefault(MLIRContext *context) {
  // The defaults stand in ODS, whose generated code knows them as a parser.
  return cast<StrategyAttr>(parseAttribute("#chunk.strategy<>", context));
}

ArrayRef<StringAttr> TableAttr::getColumns() const {
  return getImpl()->columns;
}

ArrayRef<int64_t> TableAttr::getValues() const { return getImpl()->values; }

int64_t TableAttr::getColumn(StringRef name) const {
  for (auto [index, column] : llvm::enumerate(getColumns()))
    if (column.getValue() == name)
      return index;
  return -1;
}

TableAttr TableAttr::get(MLIRContext *context, ArrayRef<StringRef> columns,
                         ArrayRef<int64_t> values) {
  auto names = llvm::map_to_vector(
      columns, [&](StringRef name) { return StringAttr::get(context, name); });
  return get(context, ArrayRef<StringAttr>(names), values);
}

/// Parses `<col, col : [v, v], [v, v]>`.
Attribute TableAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> columns;
  SmallVector<int64_t> values;
  SMLoc loc = parser.getCurrentLocation();
  auto parseColumn = [&]() -> ParseResult {
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    columns.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  auto parseRow = [&]() -> ParseResult {
    size_t before = values.size();
    SMLoc rowLoc = parser.getCurrentLocation();
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
          return parser.parseInteger(values.emplace_back());
        }))
      return failure();
    if (values.size() - before != columns.size())
      return parser.emitError(rowLoc)
             << "expects a row of " << columns.size() << " values, but got "
             << values.size() - before;
    return success();
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(parseColumn))
    return {};
  if (succeeded(parser.parseOptionalColon()) &&
      parser.parseCommaSeparatedList(parseRow))
    return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    ArrayRef<StringAttr>(columns), ArrayRef<int64_t>(values));
}

void TableAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(getColumns(), printer, [&](StringAttr column) {
    printer << column.getValue();
  });
  if (getNumRows() > 0)
    printer << " : ";
  for (int64_t row = 0; row < getNumRows(); ++row) {
    printer << (row ? ", [" : "[");
    llvm::interleaveComma(getRow(row), printer);
    printer << ']';
  }
  printer << '>';
}

LogicalResult TableAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<StringAttr> columns,
                                ArrayRef<int64_t> values) {
  if (columns.empty())
    return emitError() << "expects a table of at least one column";
  llvm::SmallDenseSet<StringAttr> seen;
  for (StringAttr column : columns)
    if (!seen.insert(column).second)
      return emitError() << "expects unique columns, but got " << column
                         << " twice";
  if (values.size() % columns.size() != 0)
    return emitError() << "expects rows of " << columns.size()
                       << " values, but got " << values.size()
                       << " values in all";
  return success();
}
