//===- decompose/Emitter.cpp - transfers of one collective
//-----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/decompose/Emitter.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

Emitter::Emitter(CollectiveOpInterface op, Direction direction,
                 OpBuilder *builder)
    : op(op), direction(direction), builder(builder),
      members(op.getGroup().size()), blocks(op.getCutAxis() ? members : 1) {
  if (auto scatter = dyn_cast<ReduceScatterOp>(op.getOperation()))
    reduction = scatter.getReductionAttr();
  if (auto all = dyn_cast<AllReduceOp>(op.getOperation()))
    reduction = all.getReductionAttr();
  cutBlocks(1);
}

std::optional<int64_t> Emitter::getRoot() {
  auto broadcast = dyn_cast<BroadcastOp>(op.getOperation());
  if (!broadcast)
    return std::nullopt;
  ArrayRef<int64_t> group = op.getGroup();
  int64_t root = broadcast.getRoot();
  return llvm::find(group, root) - group.begin();
}

bool Emitter::isGathering() {
  return isa<AllGatherOp, AllReduceOp>(op.getOperation());
}

void Emitter::cutBlocks(int64_t count) {
  parts = count;
  boxes.clear();
  for (int64_t block = 0; block < blocks; ++block) {
    auto [offsets, sizes] = op.getBlock(block);
    auto *dim = llvm::find_if(sizes, [](int64_t size) { return size > 1; });
    if (dim == sizes.end())
      dim = sizes.begin();
    int64_t &offset = offsets[dim - sizes.begin()];
    int64_t end = offset + *dim, rows = llvm::divideCeilSigned(*dim, parts);
    for (int64_t part = 0; part < parts; ++part) {
      *dim = std::min(rows, end - offset);
      boxes.emplace_back(offsets, sizes);
      offset += *dim;
    }
  }
  writers.assign(builder ? members * blocks * parts : 0, Value());
}

void Emitter::move(int64_t block, int64_t from, int64_t to, int64_t part,
                   int64_t count, ReductionAttr how) {
  Box box = boxes[block * parts + part];
  for (int64_t next = block + 1; next < block + count; ++next)
    box.sizes[*op.getCutAxis()] +=
        boxes[next * parts + part].sizes[*op.getCutAxis()];
  if (box.isEmpty())
    return;
  llvm::SmallSetVector<Value, 4> after;
  auto add = [&](int64_t member) {
    Value last; // blocks that came together follow one another
    for (int64_t next = block; next < block + count; ++next) {
      Value writer = getWriter(member, next, part);
      if (writer && writer != last)
        after.insert(writer);
      last = writer;
    }
  };
  if (builder) {
    add(from);
    if (how)
      add(to);
  }
  Value token = emit(from, to, box.offsets, box.offsets, box.sizes, how,
                     after.getArrayRef());
  if (builder)
    for (int64_t next = block; next < block + count; ++next)
      getWriter(to, next, part) = token;
}

void Emitter::exchange(int64_t from, int64_t to) {
  auto exchange = cast<AllToAllOp>(op.getOperation());
  for (const AllToAllOp::Piece &piece : exchange.getPieces(from, to))
    emit(from, to, piece.srcOffsets, piece.dstOffsets, piece.sizes, {}, {});
}

Value Emitter::emit(int64_t from, int64_t to, ArrayRef<int64_t> srcOffsets,
                    ArrayRef<int64_t> dstOffsets, ArrayRef<int64_t> sizes,
                    ReductionAttr how, ValueRange after) {
  ++transfers;
  if (!builder)
    return {};
  ArrayRef<int64_t> group = op.getGroup();
  if (after.empty())
    after = op.getDependencies();
  RealizationAttr realization;
  if (auto named = op.getRealization())
    realization = RealizationAttr::get(builder->getContext(), *named);
  auto create = [&](auto kind) -> Value {
    return decltype(kind)::create(
        *builder, op.getLoc(), op.getSrc(), srcOffsets, op.getDst(), dstOffsets,
        sizes, group[from], group[to], how, after, realization);
  };
  tokens.push_back(isPull() ? create(GetOp{}) : create(PutOp{}));
  return tokens.back();
}

LogicalResult syncopate::decompose(Emitter &emitter, Algorithm algorithm) {
  CollectiveOpInterface op = emitter.getOp();
  if (isa<AllToAllOp>(op.getOperation()) && algorithm != Algorithm::Direct)
    return op->emitOpError()
           << "expects algorithm direct, but got "
           << stringifyAlgorithm(algorithm)
           << ": a block that is passed on by other members would need room "
              "there";
  switch (algorithm) {
  case Algorithm::Direct:
    decomposeDirect(emitter);
    return success();
  case Algorithm::Ring:
    decomposeRing(emitter);
    return success();
  case Algorithm::BidirectionalRing:
    decomposeBidirectionalRing(emitter);
    return success();
  case Algorithm::Hierarchical:
    return decomposeHierarchical(emitter);
  case Algorithm::RecursiveDoubling:
    return decomposeRecursiveDoubling(emitter);
  }
  llvm_unreachable("an algorithm that is none");
}
