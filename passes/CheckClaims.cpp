//===- CheckClaims.cpp - transfers do what the plan says they do ----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanGraph.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_CHECKCLAIMSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// Carries transfers out one after another, on names instead of bytes: of every
/// element of every rank it knows whose input it is, and which transfer brought
/// it there.
class Contents {
public:
  /// Elements that come from one input, all shifted alike.
  struct Piece {
    Place origin;
    /// Offset at the origin less the offset here.
    SmallVector<int64_t, 4> shift;
    /// The transfer that brought them; none for the rank's own input.
    std::optional<unsigned> writer;

    bool isSameAs(const Piece &other) const {
      return origin == other.origin && shift == other.shift;
    }
  };

  explicit Contents(PlanGraph &graph) : graph(graph) {
    for (InputOp input : graph.getPlan().getBody().getOps<InputOp>()) {
      Place place{input.getRank(), input.getBuffer()};
      write(place, Box(input.getOffsets(), input.getSizes()),
            {place, SmallVector<int64_t, 4>(input.getOffsets().size(), 0),
             std::nullopt});
    }
  }

  /// Carries out the next transfer.
  void move(unsigned id) {
    Box src = graph.getSrcBox(id), dst = graph.getDstBox(id);
    SmallVector<std::pair<Box, Piece>> moved;
    forEachPiece(graph.getSrcPlace(id), src,
                 [&](const Box &part, const Piece &piece) {
                   Box to = part;
                   Piece copy{piece.origin, piece.shift, id};
                   for (size_t i = 0; i < to.offsets.size(); ++i) {
                     int64_t distance = src.offsets[i] - dst.offsets[i];
                     to.offsets[i] -= distance;
                     copy.shift[i] += distance;
                   }
                   moved.emplace_back(std::move(to), std::move(copy));
                 });
    getMap(graph.getDstPlace(id)).subtract(dst);
    for (auto &[box, piece] : moved)
      write(graph.getDstPlace(id), std::move(box), std::move(piece));
  }

  /// Calls `visit` for each part of a region whose elements come from one
  /// input, in one go.
  void forEachPiece(Place place, const Box &region,
                    function_ref<void(const Box &, const Piece &)> visit) {
    getMap(place).forEachOverlap(region, [&](const Box &box, unsigned number) {
      Box part = box;
      for (size_t i = 0; i < part.offsets.size(); ++i) {
        int64_t end = std::min(box.offsets[i] + box.sizes[i],
                               region.offsets[i] + region.sizes[i]);
        part.offsets[i] = std::max(box.offsets[i], region.offsets[i]);
        part.sizes[i] = end - part.offsets[i];
      }
      visit(part, pieces[number]);
    });
  }

private:
  BoxMap &getMap(Place place) {
    auto [it, isNew] =
        maps.try_emplace({place.first, graph.getBufferIndex(place.second)});
    if (isNew)
      it->second = BoxMap(graph.getWriters(place).getDim());
    return it->second;
  }

  void write(Place place, Box box, Piece piece) {
    getMap(place).insert(std::move(box), pieces.size());
    pieces.push_back(std::move(piece));
  }

  PlanGraph &graph;
  std::map<std::pair<int64_t, int64_t>, BoxMap> maps;
  std::vector<Piece> pieces;
};

/// Compares what ranks hold with what a claim says.
class Checker {
public:
  Checker(PlanGraph &graph, Contents &contents, ClaimOp claim)
      : graph(graph), contents(contents), claim(claim),
        collective(cast<AllGatherOp>(claim.getBody().front().front())),
        isAncestor(graph.size()) {
    for (unsigned id : graph.getAncestors(claim.getDependencies()))
      isAncestor.set(id);
    for (unsigned id : graph.getAncestors(collective.getDependencies()))
      isAncestor.set(id);
  }

  LogicalResult check() {
    ArrayRef<int64_t> group = collective.getGroup();
    for (auto [member, owner] : llvm::enumerate(group)) {
      auto [offsets, sizes] = collective.getBlock(member);
      Box block(offsets, sizes);
      if (block.isEmpty())
        continue;
      for (int64_t rank : group)
        if (failed(checkBlock(member, owner, rank, block)))
          return failure();
    }
    return success();
  }

private:
  /// Rank `rank` holds in `block` what `owner` does.
  LogicalResult checkBlock(int64_t member, int64_t owner, int64_t rank,
                           const Box &block) {
    Place place{rank, collective.getBuffer()};
    SmallVector<Box> missing{block};
    std::optional<Box> wrong;
    std::optional<Contents::Piece> found;
    contents.forEachPiece(
        {owner, collective.getBuffer()}, block,
        [&](const Box &part, const Contents::Piece &expected) {
          contents.forEachPiece(
              place, part, [&](const Box &box, const Contents::Piece &piece) {
                subtract(missing, box);
                bool known = !piece.writer || isAncestor.test(*piece.writer);
                if (!wrong && (!known || !piece.isSameAs(expected))) {
                  wrong = box;
                  found = piece;
                }
              });
        });
    if (missing.empty() && !wrong)
      return success();
    Box where = wrong ? *wrong : missing.front();
    InFlightDiagnostic diag = claim.emitOpError();
    diag << "expects rank " << rank << " to hold block " << member
         << " of rank " << owner << ", but at offsets [" << where.offsets
         << "] sizes [" << where.sizes << "] it ";
    if (!wrong)
      return diag << "holds nothing";
    if (found->writer && !isAncestor.test(*found->writer))
      diag << "holds what a transfer brings that the claim does not come after";
    else {
      SmallVector<int64_t> from;
      for (auto [offset, shift] : llvm::zip(where.offsets, found->shift))
        from.push_back(offset + shift);
      diag << "holds what rank " << found->origin.first << " had in "
           << found->origin.second.getDefiningOp<BufferOp>().getNameAttr()
           << " at offsets [" << from << "]";
    }
    if (found->writer)
      diag.attachNote(graph.getTransfer(*found->writer).getLoc())
          << "the transfer that brings it";
    return diag;
  }

  PlanGraph &graph;
  Contents &contents;
  ClaimOp claim;
  AllGatherOp collective;
  llvm::BitVector isAncestor;
};

struct CheckClaims : impl::CheckClaimsPassBase<CheckClaims> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    PlanOp plan = getOperation();
    if (plan.getBody().getOps<ClaimOp>().empty())
      return;
    PlanGraph graph(plan);
    Contents contents(graph);
    unsigned next = 0;
    for (Operation &op : plan.getBody().getOps()) {
      if (isa<TransferOpInterface>(op))
        contents.move(next++);
      else if (auto claim = dyn_cast<ClaimOp>(op))
        if (failed(Checker(graph, contents, claim).check()))
          return signalPassFailure();
    }
  }
};

} // namespace
} // namespace syncopate
