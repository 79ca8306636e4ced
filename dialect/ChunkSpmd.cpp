//===- ChunkSpmd.cpp - the rank-affine form of transfers
//---------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Chunk.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace syncopate::chunk;

//===----------------------------------------------------------------------===//
// SpmdOp
//===----------------------------------------------------------------------===//

LogicalResult SpmdOp::verify() {
  return verifyGroup(*this, getGroup(), 1); // spmd_c1
}

LogicalResult SpmdOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.empty()) // spmd_c2
    return emitOpError("expects at least one transfer in its body");
  for (Operation &op : block)
    if (!isa<TransferOp>(op))
      return op.emitOpError("expects a chunk.transfer in the body of a "
                            "chunk.spmd");
  return success();
}

//===----------------------------------------------------------------------===//
// TransferOp
//===----------------------------------------------------------------------===//

std::optional<Route> TransferOp::getRoute(int64_t member) {
  ArrayRef<int64_t> group = cast<SpmdOp>((*this)->getParentOp()).getGroup();
  int64_t peer = *evaluate(getPeer().getResult(0), member);
  bool push = getDirection() == Direction::Push;
  Route route;
  route.srcRank = group[push ? member : peer];
  route.dstRank = group[push ? peer : member];
  for (unsigned dim = 0; dim < getSizes().size(); ++dim) {
    int64_t size = getSizes()[dim];
    auto place = [&](AffineMap map, BufferType type,
                     SmallVectorImpl<int64_t> &offsets) {
      int64_t bound = type.getShape()[dim];
      int64_t offset = *evaluate(map.getResult(dim), member);
      if (!ShapedType::isDynamic(bound))
        size = std::min(size, bound - offset);
      offsets.push_back(offset);
    };
    place(getSrcOffsets(), getSrc().getType(), route.srcOffsets);
    place(getDstOffsets(), getDst().getType(), route.dstOffsets);
    if (size <= 0)
      return std::nullopt;
    route.sizes.push_back(size);
  }
  return route;
}

int64_t TransferOp::getMember(unsigned token, int64_t member) {
  AffineMap map = cast<AffineMapAttr>(getMembers()[token]).getValue();
  return *evaluate(map.getResult(0), member);
}

LogicalResult TransferOp::verify() {
  auto spmd = cast<SpmdOp>((*this)->getParentOp());
  auto members = static_cast<int64_t>(spmd.getGroup().size());
  auto checkMap = [&](StringRef what, AffineMap map,
                      size_t results) -> LogicalResult {
    if (map.getNumDims() != 1 || map.getNumSymbols() ||
        map.getNumResults() != results || !isAffine(map))
      return emitOpError() << "expects an affine map from a position to "
                           << results << " " << what << ", but got "
                           << AffineMapAttr::get(map);
    return success();
  };
  size_t dims = getSizes().size();
  for (BufferType type : {getSrc().getType(), getDst().getType()})
    if (type.getRank() != dims)
      return emitOpError() << "expects " << type.getRank() << " sizes for "
                           << type << ", but got " << dims;
  for (int64_t size : getSizes())
    if (size <= 0 || size >= BufferType::kMaxBytes)
      return emitOpError() << "expects sizes to be in [1, 2^48), but got "
                           << size;
  // spmd_transfer_c1
  if (failed(checkMap("offsets", getSrcOffsets(), dims)) ||
      failed(checkMap("offsets", getDstOffsets(), dims)) ||
      failed(checkMap("position", getPeer(), 1)))
    return failure();
  if (getMembers().size() != getDependencies().size())
    return emitOpError() << "expects as many maps as tokens, but got "
                         << getMembers().size() << " and "
                         << getDependencies().size();
  for (Attribute map : getMembers())
    if (failed(checkMap("position", cast<AffineMapAttr>(map).getValue(), 1)))
      return failure();
  for (Value token : getDependencies()) { // spmd_transfer_c4
    Operation *other = token.getDefiningOp();
    if (other->getParentOp() == spmd)
      continue;
    InFlightDiagnostic diag = emitOpError(
        "expects to come after transfers of the same chunk.spmd; what comes "
        "before all of it belongs behind its group");
    diag.attachNote(other->getLoc()) << "the other operation";
    return diag;
  }
  auto checkPosition = [&](StringRef what, AffineMap map,
                           int64_t member) -> LogicalResult {
    std::optional<int64_t> position = evaluate(map.getResult(0), member);
    if (position && *position >= 0 && *position < members)
      return success();
    InFlightDiagnostic diag = emitOpError();
    diag << "expects " << what << " of member " << member << " to be in [0, "
         << members << "), but got ";
    return position ? diag << *position : diag << "what does not fit 64 bits";
  };
  bool moves = false;
  for (int64_t member = 0; member < members; ++member) {
    if (failed(checkPosition("peer", getPeer(), member))) // spmd_transfer_c2
      return failure();
    for (Attribute map : getMembers())
      if (failed(checkPosition("member to come after",
                               cast<AffineMapAttr>(map).getValue(), member)))
        return failure();
    for (AffineMap map : {getSrcOffsets(), getDstOffsets()})
      for (AffineExpr expr : map.getResults()) { // spmd_transfer_c3
        std::optional<int64_t> offset = evaluate(expr, member);
        if (offset && *offset >= 0)
          continue;
        InFlightDiagnostic diag = emitOpError();
        diag << "expects offsets of member " << member
             << " not to be negative, but got ";
        return offset ? diag << *offset : diag << "what does not fit 64 bits";
      }
    std::optional<Route> route = getRoute(member);
    if (!route)
      continue;
    moves = true;
    if (failed(verifyRoute(*this, getSrc(), getDst(), route->srcOffsets,
                           route->dstOffsets, route->sizes, route->srcRank,
                           route->dstRank)))
      return failure();
  }
  if (!moves) // spmd_transfer_c5
    return emitOpError("expects a chunk inside of both buffers for some member "
                       "at least");
  return success();
}
