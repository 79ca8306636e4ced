//===- SplitTransfers.cpp - transfers into smaller chunks -----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_SPLITTRANSFERSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// Where the number of pieces is chosen by size: what a piece has at least, and
/// how many there are at most. A piece takes a few microseconds to announce and
/// to start, and some tens to move; what nothing overlaps with is the last
/// piece, or the first (docs/results). Tiles of few rows would each read all
/// of the other factor: with pieces of 256 rows a GEMM took 5 % longer.
constexpr int64_t kPieceBytes = int64_t(8) << 20;
constexpr int64_t kPieceRows = 512;
constexpr int64_t kMaxPieces = 4;

struct SplitTransfers : impl::SplitTransfersPassBase<SplitTransfers> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    count = splits;
    if (count == 0)
      count = plan.getStrategyOrDefault().getSplits();
    if (count < 0 || count > StrategyAttr::kMaxSplits) {
      plan.emitOpError() << "expects splits to be in [0, "
                         << StrategyAttr::kMaxSplits << "], but got " << count;
      return signalPassFailure();
    }
    if (count == 1)
      return;
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>())
      if (kernel.getNeeds()) {
        if (count == 0)
          return;
        kernel.emitOpError()
            << "expects splits to be 1, but got " << count
            << ": what its tiles need is a number of transfers "
               "as the plan has them; split them there";
        return signalPassFailure();
      }
    // One pass object works on several plans, one after another.
    pieces.clear();
    joins.clear();
    SmallVector<TransferOpInterface> transfers =
        llvm::to_vector(plan.getBody().getOps<TransferOpInterface>());
    int64_t made = 0;
    for (TransferOpInterface transfer : transfers) {
      made += countPieces(transfer);
      if (made > PlanOp::kMaxTransfers) {
        plan.emitOpError() << "expects at most " << PlanOp::kMaxTransfers
                           << " transfers, but splits = " << count
                           << " would make more of its " << transfers.size();
        return signalPassFailure();
      }
    }
    for (TransferOpInterface transfer : transfers)
      split(transfer);
    for (TransferOpInterface transfer : llvm::reverse(transfers))
      if (pieces.contains(transfer->getResult(0)))
        transfer.erase();
  }

private:
  /// The first dimension of more than one row, or the end.
  static const int64_t *findDimension(ArrayRef<int64_t> sizes) {
    return llvm::find_if(sizes, [](int64_t size) { return size > 1; });
  }

  /// Rows of a piece along a dimension of `size`.
  int64_t getPieceRows(TransferOpInterface transfer, int64_t size) {
    if (count != 0)
      return llvm::divideCeilSigned(size, count);
    ArrayRef<int64_t> sizes = transfer.getSizes();
    int64_t most = std::min(transfer.getSrc().getType().getRegionBytes(sizes) /
                                kPieceBytes,
                            kMaxPieces);
    if (sizes.size() > 1)
      most = std::min(most, llvm::product_of(sizes.drop_back()) / kPieceRows);
    return llvm::divideCeilSigned(size, std::max<int64_t>(most, 1));
  }

  int64_t countPieces(TransferOpInterface transfer) {
    ArrayRef<int64_t> sizes = transfer.getSizes();
    const int64_t *longer = findDimension(sizes);
    if (longer == sizes.end())
      return 1;
    return llvm::divideCeilSigned(*longer, getPieceRows(transfer, *longer));
  }

  void split(TransferOpInterface transfer) {
    ArrayRef<int64_t> sizes = transfer.getSizes();
    const int64_t *longer = findDimension(sizes);
    if (longer == sizes.end() || countPieces(transfer) == 1)
      return;
    unsigned dim = longer - sizes.begin();
    int64_t rows = getPieceRows(transfer, sizes[dim]);
    OpBuilder builder(transfer);
    SmallVector<Value> made;
    for (int64_t begin = 0; begin < sizes[dim]; begin += rows) {
      SmallVector<int64_t> srcOffsets(transfer.getSrcOffsets());
      SmallVector<int64_t> dstOffsets(transfer.getDstOffsets());
      SmallVector<int64_t> pieceSizes(sizes);
      srcOffsets[dim] += begin;
      dstOffsets[dim] += begin;
      pieceSizes[dim] = std::min(rows, sizes[dim] - begin);
      Operation *piece = builder.clone(*transfer);
      piece->setAttr("src_offsets", builder.getDenseI64ArrayAttr(srcOffsets));
      piece->setAttr("dst_offsets", builder.getDenseI64ArrayAttr(dstOffsets));
      piece->setAttr("sizes", builder.getDenseI64ArrayAttr(pieceSizes));
      if (std::optional<ArrayRef<int64_t>> at = transfer.getCountAt();
          at && dim == 0)
        piece->setAttr("count_at", builder.getDenseI64ArrayAttr(
                                       {at->front(), at->back() + begin}));
      narrowDependencies(transfer, piece, made.size());
      made.push_back(piece->getResult(0));
    }
    Value token = JoinOp::create(builder, transfer.getLoc(), made);
    transfer->getResult(0).replaceAllUsesWith(token);
    joins[token] = transfer->getResult(0);
    pieces[transfer->getResult(0)] = std::move(made);
  }

  /// Where `piece` passes on piece `number` of what a predecessor brought, as
  /// one of its parts or alone, or adds to it, lets it come after that piece
  /// alone.
  void narrowDependencies(TransferOpInterface whole, Operation *piece,
                          size_t number) {
    for (OpOperand &operand : piece->getOpOperands()) {
      auto it = joins.find(operand.get());
      if (it == joins.end())
        continue;
      auto before = cast<TransferOpInterface>(it->second.getDefiningOp());
      bool forwards = false;
      if (before.getDst() == whole.getSrc() &&
          before.getDstRank() == whole.getSrcRank())
        for (int64_t part = 0; part < whole.getParts(); ++part)
          forwards |=
              before.getDstOffsets() == ArrayRef(whole.getPartOffsets(part));
      bool adds = whole.getReduction() && before.getDst() == whole.getDst() &&
                  before.getDstRank() == whole.getDstRank() &&
                  before.getDstOffsets() == whole.getDstOffsets();
      if ((forwards || adds) && before.getSizes() == whole.getSizes())
        operand.set(pieces[it->second][number]);
    }
  }

  /// Pieces per transfer; by its size if it is 0.
  int64_t count = 0;
  /// Tokens of the pieces of a split transfer, by its own token.
  llvm::DenseMap<Value, SmallVector<Value>> pieces;
  /// The token of the transfer whose pieces a join stands for.
  llvm::DenseMap<Value, Value> joins;
};

} // namespace
} // namespace syncopate
