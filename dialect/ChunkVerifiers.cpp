//===- ChunkVerifiers.cpp - constraints of the plan operations ------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each check carries the label that the constraint has in ODS.
//
//===----------------------------------------------------------------------===//

#include "dialect/ChunkVerifiers.h"

#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate::chunk;

/// The plan around `op`; its parent by HasParent.
static PlanOp getPlan(Operation *op) { return op->getParentOfType<PlanOp>(); }

LogicalResult syncopate::chunk::verifyName(Operation *op, StringAttr name) {
  StringRef text = name.getValue();
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  if (llvm::isLegalUTF8String(&begin,
                              reinterpret_cast<const llvm::UTF8 *>(text.end())))
    return success();
  return op->emitOpError() << "expects names in UTF-8, but got " << name;
}

LogicalResult syncopate::chunk::verifyRank(Operation *op, StringRef what,
                                           int64_t rank) {
  int64_t ranks = getPlan(op).getNumRanks();
  if (rank < 0 || rank >= ranks)
    return op->emitOpError() << "expects " << what << " rank to be in [0, "
                             << ranks << "), but got " << rank;
  return success();
}

static LogicalResult verifyRegion(Operation *op, StringRef what,
                                  BufferType type, ArrayRef<int64_t> offsets,
                                  ArrayRef<int64_t> sizes) {
  if (offsets.size() != type.getRank() || sizes.size() != type.getRank())
    return op->emitOpError()
           << "expects " << type.getRank() << " " << what
           << " offsets and sizes for " << type << ", but got "
           << offsets.size() << " and " << sizes.size();
  for (auto [dim, bound] : llvm::enumerate(type.getShape())) {
    if (sizes[dim] <= 0)
      return op->emitOpError() << "expects size of dimension " << dim
                               << " to be positive, but got " << sizes[dim];
    if (offsets[dim] < 0)
      return op->emitOpError()
             << "expects " << what << " offset of dimension " << dim
             << " not to be negative, but got " << offsets[dim];
    // Subtracting keeps a huge offset from wrapping around.
    if (!ShapedType::isDynamic(bound) &&
        (sizes[dim] > bound || offsets[dim] > bound - sizes[dim]))
      return op->emitOpError()
             << "expects " << what << " chunk to lie inside " << type
             << ", but dimension " << dim << " has offset " << offsets[dim]
             << " and size " << sizes[dim];
    if (sizes[dim] >= BufferType::kMaxBytes ||
        offsets[dim] >= BufferType::kMaxBytes - sizes[dim])
      return op->emitOpError()
             << "expects " << what
             << " chunk to end before 2^48, but dimension " << dim
             << " has offset " << offsets[dim] << " and size " << sizes[dim];
  }
  if (type.getRegionBytes(sizes) >= BufferType::kMaxBytes)
    return op->emitOpError()
           << "expects " << what << " chunk to have fewer than 2^48 bytes";
  return success();
}

size_t syncopate::chunk::getNumRowDims(BufferType src, BufferType dst,
                                       ArrayRef<int64_t> sizes) {
  size_t dims = 1;
  while (dims < sizes.size()) {
    size_t dim = sizes.size() - dims;
    if (sizes[dim] != src.getShape()[dim] || sizes[dim] != dst.getShape()[dim])
      break;
    ++dims;
  }
  return dims;
}

static LogicalResult verifySlices(Operation *op, BufferType src, BufferType dst,
                                  ArrayRef<int64_t> sizes) {
  constexpr int64_t maxSlices = 1 << 16;
  // Rows, and the stride between them.
  size_t inner = getNumRowDims(src, dst, sizes) + 1;
  int64_t slices = 1;
  for (int64_t size : sizes.drop_back(std::min<size_t>(inner, sizes.size())))
    slices *= size; // fewer than the bytes of the chunk
  if (slices > maxSlices)
    return op->emitOpError()
           << "expects a chunk of at most " << maxSlices
           << " slices of rows with one stride, but got " << slices;
  return success();
}

LogicalResult syncopate::chunk::verifyRoute(Operation *op,
                                            TypedValue<BufferType> srcBuffer,
                                            TypedValue<BufferType> dstBuffer,
                                            ArrayRef<int64_t> srcOffsets,
                                            ArrayRef<int64_t> dstOffsets,
                                            ArrayRef<int64_t> sizes,
                                            int64_t srcRank, int64_t dstRank) {
  BufferType src = srcBuffer.getType(), dst = dstBuffer.getType();
  // transfer_c1
  if (failed(verifyRank(op, "src", srcRank)) ||
      failed(verifyRank(op, "dst", dstRank)))
    return failure();
  // transfer_c2, transfer_c3
  if (failed(verifyRegion(op, "src", src, srcOffsets, sizes)) ||
      failed(verifyRegion(op, "dst", dst, dstOffsets, sizes)))
    return failure();
  // transfer_c4
  if (src.getElementType() != dst.getElementType())
    return op->emitOpError()
           << "expects src and dst to have the same element type, but got "
           << src.getElementType() << " and " << dst.getElementType();
  // transfer_c5
  if (srcRank == dstRank && srcBuffer == dstBuffer) {
    bool disjoint = false;
    for (auto [from, to, size] : llvm::zip(srcOffsets, dstOffsets, sizes))
      disjoint |= from + size <= to || to + size <= from;
    if (!disjoint)
      return op->emitOpError("expects src and dst chunks of the same buffer "
                             "on the same rank not to overlap");
  }
  return verifySlices(op, src, dst, sizes); // transfer_c6
}

LogicalResult syncopate::chunk::verifyWord(Operation *op, StringRef what,
                                           BufferType type, int64_t index) {
  if (type.getRank() != 1 || !type.getElementType().isInteger(32) ||
      !type.hasStaticShape())
    return op->emitOpError() << "expects " << what
                             << " to be read from a buffer of i32 of one known "
                                "dimension, but got "
                             << type;
  if (index < 0 || index >= type.getShape()[0])
    return op->emitOpError() << "expects " << what << " to be an element of "
                             << type << ", but got index " << index;
  return success();
}

static LogicalResult verifyCount(TransferOpInterface transfer) {
  TypedValue<BufferType> counts = transfer.getCounts();
  std::optional<ArrayRef<int64_t>> at = transfer.getCountAt();
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  if (!counts && !at)
    return success();
  if (!counts || !at || at->size() != 2) // transfer_c10
    return transfer.emitOpError(
        "expects a number of rows to be read as %buffer[index, past]");
  if (failed(verifyWord(transfer, "the number of rows", counts.getType(),
                        at->front())))
    return failure();
  if (at->back() < 0 || at->back() > limit)
    return transfer.emitOpError()
           << "expects the rows before the chunk to be in [0, 2^31), but got "
           << at->back();
  ArrayRef<int64_t> sizes = transfer.getSizes(); // transfer_c11
  size_t rowDims = getNumRowDims(transfer.getSrc().getType(),
                                 transfer.getDst().getType(), sizes);
  if (sizes.front() > limit || sizes.size() < 2 || rowDims + 1 < sizes.size())
    return transfer.emitOpError()
           << "expects fewer than 2^31 contiguous rows, the number of which is "
              "read, but got sizes ["
           << sizes << "]";
  return success();
}

/// Checks transfer_c7 but for where the parts lie.
static LogicalResult verifyParts(TransferOpInterface transfer) {
  constexpr int64_t maxParts = 4096;
  int64_t parts = transfer.getParts();
  std::optional<ArrayRef<int64_t>> step = transfer.getStep();
  ArrayRef<int64_t> sizes = transfer.getSizes();
  if (parts < 1 || parts > maxParts)
    return transfer.emitOpError() << "expects parts to be in [1, " << maxParts
                                  << "], but got " << parts;
  if (parts == 1 && step)
    return transfer.emitOpError("expects a step only with several parts");
  if (parts == 1)
    return success();
  if (!transfer.getReduction())
    return transfer.emitOpError("expects a reduction to combine its parts");
  if (!step || step->size() != sizes.size())
    return transfer.emitOpError()
           << "expects a step of " << sizes.size() << " entries, but got "
           << (step ? step->size() : 0);
  bool disjoint = false;
  for (auto [dim, distance] : llvm::enumerate(*step)) {
    if (distance < 0 || distance >= BufferType::kMaxBytes)
      return transfer.emitOpError()
             << "expects step of dimension " << dim
             << " to be in [0, 2^48), but got " << distance;
    disjoint |= distance >= sizes[dim];
  }
  if (!disjoint)
    return transfer.emitOpError()
           << "expects a step that keeps parts of sizes [" << sizes
           << "] apart, but got [" << *step << "]";
  return success();
}

/// Checks transfer_c8 and transfer_c9.
static LogicalResult verifyReduction(TransferOpInterface transfer) {
  int64_t limit = transfer.getReduction() ? transfer.getParts() : 0;
  if (transfer.getBehind() < 0 || transfer.getBehind() > limit)
    return transfer.emitOpError() << "expects behind to be in [0, " << limit
                                  << "], but got " << transfer.getBehind();
  if (!transfer.getUnordered())
    return success();
  if (transfer.getReduction() != Reduction::Sum || transfer.getParts() != 1)
    return transfer.emitOpError("expects an unordered reduction to be the sum "
                                "of one part");
  Type type = transfer.getDst().getType().getElementType();
  if (!type.isF32() && !type.isF16() && !type.isBF16() && !type.isInteger(32))
    return transfer.emitOpError()
           << "expects elements of f32, f16, bf16 or i32 to be added "
              "unordered, but got "
           << type;
  return success();
}

LogicalResult syncopate::chunk::verifyTransfer(Operation *op) {
  auto transfer = cast<TransferOpInterface>(op);
  if (failed(verifyParts(transfer)) || failed(verifyReduction(transfer)))
    return failure();
  for (int64_t part = 0; part < transfer.getParts(); ++part)
    if (failed(verifyRoute(op, transfer.getSrc(), transfer.getDst(),
                           transfer.getPartOffsets(part),
                           transfer.getDstOffsets(), transfer.getSizes(),
                           transfer.getSrcRank(), transfer.getDstRank())))
      return failure();
  return verifyCount(transfer);
}

LogicalResult PlanOp::verify() {
  if (getMesh().empty()) // plan_c1
    return emitOpError("expects mesh to have at least one entry");
  int64_t ranks = 1;
  for (int64_t size : getMesh()) {
    if (size <= 0)
      return emitOpError() << "expects mesh sizes to be positive, but got "
                           << size;
    // Dividing keeps a huge size from wrapping around.
    if (size > kMaxRanks / ranks)
      return emitOpError() << "expects at most " << kMaxRanks << " ranks";
    ranks *= size;
  }
  return verifyName(*this, getSymNameAttr());
}

LogicalResult BufferOp::verify() { return verifyName(*this, getNameAttr()); }

/// Runs after the verifiers of the body, so that its operations can be trusted.
LogicalResult PlanOp::verifyRegions() {
  llvm::StringMap<Operation *> names;
  llvm::DenseMap<int64_t, Operation *> schedules;
  llvm::DenseMap<std::pair<Value, uint64_t>, Operation *> outputs;
  SmallVector<ScheduleOp> unbound;
  KernelOp kernel;
  int64_t transfers = 0;
  auto report = [](Operation *op, const Twine &text, Operation *first,
                   StringRef note) -> LogicalResult {
    InFlightDiagnostic diag = op->emitOpError() << text;
    diag.attachNote(first->getLoc()) << note;
    return diag;
  };
  for (Operation &op : getBody().getOps()) {
    if (auto buffer = dyn_cast<BufferOp>(op)) { // plan_c2
      auto [it, isNew] = names.try_emplace(buffer.getName(), buffer);
      if (!isNew)
        return report(buffer,
                      "expects a unique name, but got \"" + buffer.getName() +
                          "\" again",
                      it->second, "first buffer of this name");
    } else if (auto other = dyn_cast<KernelOp>(op)) { // plan_c3
      if (kernel)
        return report(other, "expects to be the only kernel of its plan",
                      kernel, "the other kernel");
      kernel = other;
    } else if (auto schedule = dyn_cast<ScheduleOp>(op)) { // plan_c4
      auto [it, isNew] = schedules.try_emplace(schedule.getRank(), schedule);
      if (!isNew)
        return report(schedule,
                      "expects to be the only schedule of rank " +
                          Twine(schedule.getRank()),
                      it->second, "the other schedule");
      unbound.push_back(schedule);
    } else if (auto output = dyn_cast<OutputOp>(op)) { // output_c4
      auto [it, isNew] = outputs.try_emplace(
          std::make_pair(output.getBuffer(), output.getRank()), output);
      if (!isNew)
        return report(output,
                      "expects to be the only output of rank " +
                          Twine(output.getRank()) + " in its buffer",
                      it->second, "the other output");
    } else if (isa<TransferOpInterface>(op)) {
      ++transfers;
    } else if (!isa<InputOp, ProduceOp, CollectiveOpInterface, SpmdOp, ClaimOp,
                    JoinOp>(op)) {
      return op.emitOpError("expects an operation of a plan here"); // plan_c5
    }
  }
  if (transfers > kMaxTransfers) // plan_c6
    return emitOpError() << "expects at most " << kMaxTransfers
                         << " transfers, but got " << transfers;
  if (kernel && kernel.getNumTiles() > kMaxTilesOfRanks / getNumRanks())
    return kernel.emitOpError() // plan_c7
           << "expects at most " << kMaxTilesOfRanks
           << " tiles on all ranks together, but got " << kernel.getNumTiles()
           << " on each of " << getNumRanks();
  for (ScheduleOp schedule : unbound) // schedule_c2
    if (!kernel || schedule.getKernelAttr() != kernel.getKernelAttr())
      return schedule.emitOpError() << "expects a kernel of the plan, but got "
                                    << schedule.getKernelAttr();
  return success();
}

/// Checks input_c1 to input_c3, and their like of other operations.
template <typename RegionOp>
static LogicalResult verifyRankRegion(RegionOp op, StringRef what) {
  if (failed(verifyRank(op, "holding", op.getRank())))
    return failure();
  BufferType type = op.getBuffer().getType();
  if (failed(verifyRegion(op, what, type, op.getOffsets(), op.getSizes())))
    return failure();
  return verifySlices(op, type, type, op.getSizes());
}

LogicalResult InputOp::verify() { return verifyRankRegion(*this, "input"); }

LogicalResult ProduceOp::verify() {
  if (getReduction() && *getReduction() != Reduction::Sum) // produce_c4
    return emitOpError() << "expects tiles to add to what is there, but got "
                            "reduction "
                         << stringifyReduction(*getReduction());
  if (!getReduction() && !getDependencies().empty())
    return emitOpError("expects nothing to come after if its tiles overwrite "
                       "what is there");
  return verifyRankRegion(*this, "produced");
}

LogicalResult OutputOp::verify() { return verifyRankRegion(*this, "output"); }

LogicalResult syncopate::chunk::verifyGroup(Operation *op,
                                            ArrayRef<int64_t> group,
                                            size_t least) {
  if (group.size() < least)
    return op->emitOpError() << "expects a group of at least " << least
                             << " ranks, but got " << group.size();
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t rank : group) {
    if (failed(verifyRank(op, "group", rank)))
      return failure();
    if (!seen.insert(rank).second)
      return op->emitOpError() << "expects unique ranks in the group, but got "
                               << rank << " twice";
  }
  return success();
}

LogicalResult syncopate::chunk::verifyCollective(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  BufferType type = collective.getSrc().getType();
  std::optional<int64_t> axis = collective.getCutAxis();
  ArrayRef<int64_t> group = collective.getGroup();
  if (axis && (*axis < 0 || *axis >= static_cast<int64_t>(type.getRank())))
    return op->emitOpError() << "expects axis to be in [0, " << type.getRank()
                             << "), but got " << *axis; // collective_c1
  if (failed(verifyGroup(op, group, 2)))                // collective_c2
    return failure();
  if (!type.hasStaticShape()) // collective_c3
    return op->emitOpError()
           << "expects a buffer of static shape, but got " << type;
  if (auto named = collective.getRealization();
      named && *named != Realization::Nccl) // collective_c5
    return op->emitOpError()
           << "expects a collective's realization to be nccl, but got "
           << stringifyRealization(*named) << ", which transfers may have";
  // collective_c4; no block is larger than the first one.
  return verifySlices(op, type, type, collective.getBlock(0).second);
}

LogicalResult AllToAllOp::verify() {
  BufferType src = getSrc().getType(), dst = getDst().getType();
  if (getSrc() == getDst()) // all_to_all_c1
    return emitOpError("expects src and dst to be two buffers: a block cannot "
                       "come to a place that another one has not left");
  if (src.getElementType() != dst.getElementType()) // all_to_all_c2
    return emitOpError()
           << "expects src and dst to have the same element type, but got "
           << src.getElementType() << " and " << dst.getElementType();
  SmallVector<int64_t> shape(src.getShape()); // all_to_all_c3
  auto members = static_cast<int64_t>(getGroup().size());
  int64_t held = shape[getAxis()], &rows = shape[getAxis()];
  bool fits = getRows() && dst.getRank() == src.getRank() &&
              dst.getShape()[getAxis()] % members == 0;
  rows = fits ? dst.getShape()[getAxis()]
              : llvm::divideCeilSigned(rows, members) * members;
  if (dst.getShape() != ArrayRef(shape))
    return emitOpError() << "expects dst to have shape [" << shape
                         << "], but got [" << dst.getShape() << "]";
  if (getRows()) { // all_to_all_c4
    if (static_cast<int64_t>(getRows()->size()) != members * rows)
      return emitOpError() << "expects " << members * rows
                           << " rows, one for each row of dst at each of "
                           << members << " members, but got "
                           << getRows()->size();
    for (int64_t member = 0; member < members; ++member) {
      llvm::BitVector seen(held);
      for (int64_t row : getRows()->slice(member * rows, rows)) {
        if (row < -1 || row >= held)
          return emitOpError() << "expects rows to be in [-1, " << held
                               << "), but got " << row;
        if (row >= 0 && seen.test(row))
          return emitOpError()
                 << "expects member " << member
                 << " to send each row once, but got row " << row << " twice";
        if (row >= 0)
          seen.set(row);
      }
    }
  }
  auto collective = cast<CollectiveOpInterface>(getOperation());
  return verifySlices(*this, src, dst, collective.getBlock(0).second);
}

LogicalResult BroadcastOp::verify() {
  int64_t root = getRoot();
  if (!llvm::is_contained(getGroup(), root)) // broadcast_c1
    return emitOpError() << "expects root to be one of the group ["
                         << getGroup() << "], but got " << root;
  return success();
}

/// Runs after the verifier of the collective.
LogicalResult ClaimOp::verifyRegions() {
  Block &block = getBody().front();
  if (!llvm::hasSingleElement(block) ||
      !isa<CollectiveOpInterface>(block.front()))
    return emitOpError("expects one collective in its body"); // claim_c1
  if (!block.front().use_empty())
    return emitOpError("expects the token of its collective not to be used");
  return success();
}

LogicalResult JoinOp::verify() {
  if (getDependencies().empty()) // join_c1
    return emitOpError("expects at least one token");
  return success();
}

LogicalResult RolesOp::verify() {
  if (getRealizations().size() != getCommunicate().size()) // roles_c1
    return emitOpError() << "expects as many realizations as roles that "
                            "communicate, but got "
                         << getRealizations().size() << " and "
                         << getCommunicate().size();
  llvm::SmallDenseSet<Attribute> seen;
  for (Attribute realization : getRealizations())
    if (!seen.insert(realization).second)
      return emitOpError()
             << "expects one role for each realization, but got two for "
             << stringifyRealization(
                    cast<RealizationAttr>(realization).getValue());
  return success();
}
