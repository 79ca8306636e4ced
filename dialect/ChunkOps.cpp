//===- ChunkOps.cpp - plan operations: queries and custom syntax ----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Chunk.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate::chunk;

std::pair<SmallVector<int64_t, 4>, SmallVector<int64_t, 4>>
syncopate::chunk::getBlock(BufferType type, int64_t axis, int64_t members,
                           int64_t member) {
  int64_t extent = type.getShape()[axis];
  int64_t rows = llvm::divideCeilSigned(extent, members);
  SmallVector<int64_t, 4> offsets(type.getRank(), 0), sizes(type.getShape());
  offsets[axis] = std::min(member * rows, extent);
  sizes[axis] = std::min(rows, extent - offsets[axis]);
  return {offsets, sizes};
}

/// Parses `communicate ldst_dedicated {...} communicate ldst_colocated {...}`.
static ParseResult
parseCommunicationRoles(OpAsmParser &parser, ArrayAttr &realizations,
                        SmallVectorImpl<std::unique_ptr<Region>> &roles) {
  SmallVector<Attribute> names;
  while (succeeded(parser.parseOptionalKeyword("communicate"))) {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<Realization> realization = symbolizeRealization(name);
    if (!realization)
      return parser.emitError(loc)
             << "expects a known realization, but got '" << name << "'";
    names.push_back(RealizationAttr::get(parser.getContext(), *realization));
    if (parser.parseRegion(*roles.emplace_back(std::make_unique<Region>())))
      return failure();
  }
  realizations = parser.getBuilder().getArrayAttr(names);
  return success();
}

static void printCommunicationRoles(OpAsmPrinter &printer, RolesOp,
                                    ArrayAttr realizations,
                                    MutableArrayRef<Region> roles) {
  for (auto [name, role] : llvm::zip(realizations, roles)) {
    printer << " communicate "
            << stringifyRealization(cast<RealizationAttr>(name).getValue())
            << ' ';
    printer.printRegion(role);
  }
}

/// Parses what may stand behind `by`: an algorithm, a direction, or both.
static ParseResult parseAlgorithm(OpAsmParser &parser, AlgorithmAttr &algorithm,
                                  DirectionAttr &direction) {
  if (failed(parser.parseOptionalKeyword("by")))
    return success();
  MLIRContext *context = parser.getContext();
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  if (std::optional<Direction> named = symbolizeDirection(word)) {
    direction = DirectionAttr::get(context, *named);
    return success();
  }
  std::optional<Algorithm> named = symbolizeAlgorithm(word);
  if (!named)
    return parser.emitError(loc)
           << "expects an algorithm or a direction, but got '" << word << "'";
  algorithm = AlgorithmAttr::get(context, *named);
  for (Direction known : {Direction::Push, Direction::Pull})
    if (succeeded(parser.parseOptionalKeyword(stringifyDirection(known)))) {
      direction = DirectionAttr::get(context, known);
      break;
    }
  return success();
}

static void printAlgorithm(OpAsmPrinter &printer, Operation *,
                           AlgorithmAttr algorithm, DirectionAttr direction) {
  if (!algorithm && !direction)
    return;
  printer << "by";
  if (algorithm)
    printer << ' ' << stringifyAlgorithm(algorithm.getValue());
  if (direction)
    printer << ' ' << stringifyDirection(direction.getValue());
}

/// Parses `after(%t at map, %u)`, where no map is that of the same member.
static ParseResult
parseMemberTokens(OpAsmParser &parser,
                  SmallVectorImpl<OpAsmParser::UnresolvedOperand> &tokens,
                  ArrayAttr &members) {
  Builder &builder = parser.getBuilder();
  SmallVector<Attribute> maps;
  auto parseToken = [&]() -> ParseResult {
    if (parser.parseOperand(tokens.emplace_back()))
      return failure();
    AffineMapAttr map = AffineMapAttr::get(builder.getMultiDimIdentityMap(1));
    if (succeeded(parser.parseOptionalKeyword("at")) &&
        parser.parseAttribute(map))
      return failure();
    maps.push_back(map);
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("after")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseToken))
    return failure();
  members = builder.getArrayAttr(maps);
  return success();
}

static void printMemberTokens(OpAsmPrinter &printer, Operation *,
                              OperandRange tokens, ArrayAttr members) {
  if (tokens.empty())
    return;
  printer << "after(";
  llvm::interleaveComma(llvm::zip(tokens, members), printer, [&](auto pair) {
    auto [token, map] = pair;
    printer << token;
    if (!cast<AffineMapAttr>(map).getValue().isIdentity())
      printer << " at " << map;
  });
  printer << ')';
}

#include "dialect/ChunkInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "dialect/ChunkOps.cpp.inc"

//===----------------------------------------------------------------------===//
// PlanOp
//===----------------------------------------------------------------------===//

int64_t PlanOp::getNumRanks() {
  int64_t ranks = 1;
  for (int64_t size : getMesh())
    ranks *= size;
  return ranks;
}

StrategyAttr PlanOp::getStrategyOrDefault() {
  return getStrategy().value_or(StrategyAttr::getDefault(getContext()));
}

SmallVector<BufferOp> PlanOp::getBuffers() {
  return llvm::to_vector(getBody().getOps<BufferOp>());
}

//===----------------------------------------------------------------------===//
// AllToAllOp
//===----------------------------------------------------------------------===//

ArrayRef<int64_t> AllToAllOp::getRowsOf(int64_t from, int64_t to) {
  int64_t all = getDst().getType().getShape()[getAxis()];
  int64_t block = all / static_cast<int64_t>(getGroup().size());
  return getRows()->slice(from * all + to * block, block);
}

SmallVector<AllToAllOp::Piece> AllToAllOp::getPieces(int64_t from, int64_t to) {
  auto members = static_cast<int64_t>(getGroup().size());
  auto axis = static_cast<int64_t>(getAxis());
  auto [place, room] = getBlock(getDst().getType(), axis, members, from);
  SmallVector<Piece> pieces;
  if (!getRows()) {
    auto [offsets, sizes] = getBlock(getSrc().getType(), axis, members, to);
    if (sizes[axis] > 0)
      pieces.push_back({offsets, place, sizes});
    return pieces;
  }
  for (auto [k, row] : llvm::enumerate(getRowsOf(from, to))) {
    if (row < 0)
      continue;
    int64_t at = place[axis] + static_cast<int64_t>(k);
    if (!pieces.empty()) {
      Piece &last = pieces.back();
      int64_t size = last.sizes[axis];
      if (last.srcOffsets[axis] + size == row &&
          last.dstOffsets[axis] + size == at) {
        ++last.sizes[axis];
        continue;
      }
    }
    pieces.push_back({place, place, room});
    pieces.back().srcOffsets[axis] = row;
    pieces.back().dstOffsets[axis] = at;
    pieces.back().sizes[axis] = 1;
  }
  return pieces;
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

int64_t KernelOp::getNumTiles() {
  int64_t tiles = 1;
  for (int64_t size : getTiles())
    tiles *= size;
  return tiles;
}

int64_t KernelOp::getNumWholeTiles() {
  int64_t tiles = getNumTiles();
  auto ctas = static_cast<int64_t>(getCtas());
  return getParts() > 1 ? tiles - tiles % ctas : tiles;
}

int64_t KernelOp::getNumPositions() {
  int64_t whole = getNumWholeTiles();
  return whole + (getNumTiles() - whole) * static_cast<int64_t>(getParts());
}

int64_t KernelOp::getTileAt(int64_t position) {
  int64_t past = position - getNumWholeTiles();
  return past < 0
             ? position
             : getNumWholeTiles() + past / static_cast<int64_t>(getParts());
}

std::optional<int64_t> KernelOp::getPartAt(int64_t position) {
  int64_t past = position - getNumWholeTiles();
  if (past < 0)
    return std::nullopt;
  return past % static_cast<int64_t>(getParts());
}

TypedValue<BufferType> KernelOp::getBoundBuffer(StringRef name) {
  for (auto [buffer, arg] : llvm::zip(getBuffers(), getArgNames()))
    if (cast<StringAttr>(arg).getValue() == name)
      return cast<TypedValue<BufferType>>(buffer);
  return {};
}

SmallVector<FootprintOp> KernelOp::getFootprints() {
  return llvm::to_vector(getBody().getOps<FootprintOp>());
}

bool FootprintOp::takesStep() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  return getMap().getNumDims() > kernel.getTiles().size();
}

StepsOp KernelOp::getSteps(int64_t rank) {
  for (auto steps : getBody().getOps<StepsOp>())
    if (!steps.getRank() || static_cast<int64_t>(*steps.getRank()) == rank)
      return steps;
  return {};
}

std::optional<std::pair<int64_t, int64_t>>
StepsOp::getRange(ArrayRef<int64_t> coordinates) {
  int64_t begin = 0, end = kMaxStep;
  for (AffineExpr expr : getBegin().getResults()) {
    std::optional<int64_t> value = evaluate(expr, coordinates);
    if (!value)
      return std::nullopt;
    begin = std::max(begin, *value);
  }
  std::optional<int64_t> last;
  for (AffineExpr expr : getEnd().getResults()) {
    std::optional<int64_t> value = evaluate(expr, coordinates);
    if (!value)
      return std::nullopt;
    last = std::min(last.value_or(*value), *value);
  }
  if (begin > kMaxStep || *last > kMaxStep)
    return std::nullopt;
  end = std::max(begin, *last);
  return std::pair(begin, end);
}

std::optional<int64_t> KernelOp::getInteger(StringRef name) {
  if (DictionaryAttr integers = getIntegersAttr())
    if (auto value = integers.getAs<IntegerAttr>(name))
      return value.getInt();
  return std::nullopt;
}

/// Parses `@gemm tiles [4, 2] ctas 8 args(%a as "a") after(%t) : types {...}`.
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  FlatSymbolRefAttr kernel;
  DenseI64ArrayAttr tiles;
  IntegerAttr ctas, commCtas, parts;
  SmallVector<OpAsmParser::UnresolvedOperand> buffers, needs, dependencies;
  SmallVector<Attribute> names;
  SmallVector<Type> types, needsType;
  auto parseArg = [&]() -> ParseResult {
    StringAttr name;
    if (parser.parseOperand(buffers.emplace_back()) ||
        parser.parseKeyword("as") || parser.parseAttribute(name))
      return failure();
    names.push_back(name);
    return success();
  };
  if (parser.parseAttribute(kernel, "kernel", result.attributes) ||
      parser.parseKeyword("tiles"))
    return failure();
  tiles = dyn_cast_or_null<DenseI64ArrayAttr>(
      DenseI64ArrayAttr::parse(parser, Type{}));
  if (!tiles)
    return failure();
  result.addAttribute("tiles", tiles);
  if (parser.parseKeyword("ctas") ||
      parser.parseAttribute(ctas, builder.getI64Type(), "ctas",
                            result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("comm_ctas")) &&
      parser.parseAttribute(commCtas, builder.getI64Type(), "comm_ctas",
                            result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("parts")) &&
      parser.parseAttribute(parts, builder.getI64Type(), "parts",
                            result.attributes))
    return failure();
  if (parser.parseKeyword("args") ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseArg))
    return failure();
  SMLoc needsLoc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("needs"))) {
    IntegerAttr first;
    if (parser.parseLParen() || parser.parseOperand(needs.emplace_back()) ||
        parser.parseLSquare() ||
        parser.parseAttribute(first, builder.getI64Type(), "needs_at",
                              result.attributes) ||
        parser.parseRSquare() ||
        parser.parseColonType(needsType.emplace_back()) || parser.parseRParen())
      return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("after")) &&
      parser.parseOperandList(dependencies, AsmParser::Delimiter::Paren))
    return failure();
  SMLoc typeLoc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalColon()) && parser.parseTypeList(types))
    return failure();
  if (parser.resolveOperands(buffers, types, typeLoc, result.operands) ||
      parser.resolveOperands(needs, needsType, needsLoc, result.operands) ||
      parser.resolveOperands(dependencies, builder.getType<TokenType>(),
                             result.operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  result.addAttribute("arg_names", builder.getArrayAttr(names));
  result.addAttribute("operandSegmentSizes",
                      builder.getDenseI32ArrayAttr(
                          {static_cast<int32_t>(buffers.size()),
                           static_cast<int32_t>(needs.size()),
                           static_cast<int32_t>(dependencies.size())}));
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, /*arguments=*/{}))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printAttributeWithoutType(getKernelAttr());
  printer << " tiles [";
  llvm::interleaveComma(getTiles(), printer);
  printer << "] ctas " << getCtas();
  if (getCommCtas() > 0)
    printer << " comm_ctas " << getCommCtas();
  if (getParts() != 1)
    printer << " parts " << getParts();
  printer << " args(";
  llvm::interleaveComma(llvm::zip(getBuffers(), getArgNames()), printer,
                        [&](auto pair) {
                          printer << std::get<0>(pair) << " as ";
                          printer.printAttribute(std::get<1>(pair));
                        });
  printer << ')';
  if (getNeeds())
    printer << " needs(" << getNeeds() << '[' << *getNeedsAt()
            << "] : " << getNeeds().getType() << ')';
  if (!getDependencies().empty()) {
    printer << " after(";
    printer.printOperands(getDependencies());
    printer << ')';
  }
  if (!getBuffers().empty()) {
    printer << " : ";
    llvm::interleaveComma(getBuffers().getTypes(), printer);
  }
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"kernel", "tiles", "ctas", "comm_ctas", "parts",
                            "arg_names", "needs_at", "operandSegmentSizes"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}
