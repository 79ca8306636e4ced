//===- CheckClaims.cpp - transfers do what the plan says they do ----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanGraph.h"

#include "llvm/ADT/BitVector.h"

#include <deque>

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_CHECKCLAIMSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// One input's part in an element.
struct Contribution {
  Place origin;
  /// Offset at the origin less the offset here.
  SmallVector<int64_t, 4> shift;

  auto key(PlanGraph &graph) const {
    return std::tuple(origin.first, graph.getBufferIndex(origin.second), shift);
  }
};

/// What an element is made of: one input, or several combined.
struct Content {
  SmallVector<Contribution, 1> parts;
  /// How they are combined; none for a single one.
  std::optional<Reduction> reduction;
  /// Whether parts are combined in several ways, which is no collective.
  bool isMixed = false;
  /// Whether it may not have come: how many rows do is read at run time.
  bool isCounted = false;

  bool isSameAs(const Content &other, PlanGraph &graph) const {
    return !isMixed && !other.isMixed && !isCounted && !other.isCounted &&
           reduction == other.reduction &&
           llvm::equal(parts, other.parts, [&](auto &a, auto &b) {
             return a.key(graph) == b.key(graph);
           });
  }
  void shift(size_t dim, int64_t distance) {
    for (Contribution &part : parts)
      part.shift[dim] += distance;
  }
  /// Adds the parts of `other`. A maximum does not mind a part twice.
  void combine(const Content &other, Reduction kind, PlanGraph &graph) {
    auto fits = [&](const Content &content) {
      return !content.isMixed && content.reduction.value_or(kind) == kind;
    };
    isMixed = !fits(*this) || !fits(other);
    isCounted |= other.isCounted;
    reduction = kind;
    llvm::append_range(parts, other.parts);
    llvm::sort(parts,
               [&](auto &a, auto &b) { return a.key(graph) < b.key(graph); });
    if (kind != Reduction::Sum)
      parts.erase(llvm::unique(parts,
                               [&](auto &a, auto &b) {
                                 return a.key(graph) == b.key(graph);
                               }),
                  parts.end());
  }
};

/// The part of `box` inside `region`.
Box intersect(const Box &box, const Box &region) {
  Box part = box;
  for (size_t i = 0; i < part.offsets.size(); ++i) {
    int64_t end = std::min(box.offsets[i] + box.sizes[i],
                           region.offsets[i] + region.sizes[i]);
    part.offsets[i] = std::max(box.offsets[i], region.offsets[i]);
    part.sizes[i] = end - part.offsets[i];
  }
  return part;
}

/// Carries transfers out one after another, on names instead of bytes: of every
/// element of every rank it knows what it is made of, and which transfer
/// brought it there.
class Memory {
public:
  struct Piece {
    Content content;
    /// The transfer that wrote it; none for what the rank brings along.
    std::optional<unsigned> writer;
  };

  explicit Memory(PlanGraph &graph) : graph(graph) {
    Block &body = graph.getPlan().getBody().front();
    for (InputOp input : body.getOps<InputOp>())
      addOrigin(input);
    for (ProduceOp produce : body.getOps<ProduceOp>())
      addOrigin(produce);
  }

  /// Carries out a transfer, of which each part is combined with what is there.
  void move(unsigned id) {
    for (const Box &src : graph.getSrcBoxes(id))
      move(id, src);
  }

  /// Lets tiles add to what is there.
  void accumulate(ProduceOp produce) {
    Place place{produce.getRank(), produce.getBuffer()};
    Box region(produce.getOffsets(), produce.getSizes());
    SmallVector<std::pair<Box, Piece>> sums;
    forEachPiece(place, region, [&](const Box &box, const Piece &piece) {
      Piece sum = piece;
      sum.content.combine(makeOrigin(place), *produce.getReduction(), graph);
      sums.emplace_back(box, std::move(sum));
    });
    getMap(place).subtract(region);
    for (auto &[box, piece] : sums)
      write(place, std::move(box), std::move(piece));
  }

  /// Calls `visit` for each part of a region whose elements are made and were
  /// brought alike.
  void forEachPiece(Place place, const Box &region,
                    function_ref<void(const Box &, const Piece &)> visit) {
    getMap(place).forEachOverlap(region, [&](const Box &box, unsigned number) {
      visit(intersect(box, region), pieces[number]);
    });
  }

private:
  void move(unsigned id, const Box &src) {
    Box dst = graph.getDstBox(id);
    Place from = graph.getSrcPlace(id), to = graph.getDstPlace(id);
    std::optional<Reduction> reduction = graph.getTransfer(id).getReduction();
    SmallVector<std::pair<Box, Piece>> moved;
    forEachPiece(from, src, [&](const Box &part, const Piece &piece) {
      Box there = part;
      Piece copy{piece.content, id};
      copy.content.isCounted |= graph.getTransfer(id).getCounts() != nullptr;
      for (size_t i = 0; i < there.offsets.size(); ++i) {
        int64_t distance = src.offsets[i] - dst.offsets[i];
        there.offsets[i] -= distance;
        copy.content.shift(i, distance);
      }
      if (!reduction) {
        moved.emplace_back(std::move(there), std::move(copy));
        return;
      }
      forEachPiece(to, there, [&](const Box &box, const Piece &old) {
        Piece sum{old.content, id};
        sum.content.combine(copy.content, *reduction, graph);
        moved.emplace_back(box, std::move(sum));
      });
    });
    getMap(to).subtract(dst);
    for (auto &[box, piece] : moved)
      write(to, std::move(box), std::move(piece));
  }

  /// A region that a rank brings along is made of itself.
  template <typename RegionOp> void addOrigin(RegionOp op) {
    Place place{op.getRank(), op.getBuffer()};
    write(place, Box(op.getOffsets(), op.getSizes()),
          {makeOrigin(place), std::nullopt});
  }

  static Content makeOrigin(Place place) {
    auto type = cast<BufferType>(place.second.getType());
    SmallVector<int64_t, 4> none(type.getRank(), 0);
    Content content;
    content.parts.push_back({place, none});
    return content;
  }

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
  std::deque<Piece> pieces;
};

/// Compares what ranks hold with what a claim says.
class Checker {
public:
  Checker(PlanGraph &graph, Memory &memory, ClaimOp claim)
      : graph(graph), memory(memory), claim(claim),
        collective(
            cast<CollectiveOpInterface>(claim.getBody().front().front())),
        before(graph), isAncestor(graph.size()) {
    for (unsigned id : graph.getAncestors(claim.getDependencies()))
      isAncestor.set(id);
    for (unsigned id : graph.getAncestors(collective.getDependencies()))
      before.move(id);
    if (auto op = dyn_cast<ReduceScatterOp>(collective.getOperation()))
      reduction = op.getReduction();
    if (auto op = dyn_cast<AllReduceOp>(collective.getOperation()))
      reduction = op.getReduction();
  }

  LogicalResult check() {
    ArrayRef<int64_t> group = collective.getGroup();
    Operation *op = collective.getOperation();
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return checkBlock("the buffer", getBlock(0),
                        static_cast<int64_t>(broadcast.getRoot()), group);
    for (auto [member, owner] : llvm::enumerate(group)) {
      std::string name = "block " + std::to_string(member);
      if (auto exchange = dyn_cast<AllToAllOp>(op)) {
        for (auto [number, source] : llvm::enumerate(group))
          for (const auto &piece : exchange.getPieces(number, member))
            if (failed(checkBlock(name, Box(piece.srcOffsets, piece.sizes),
                                  source, owner, piece.dstOffsets)))
              return failure();
        continue;
      }
      Box block = getBlock(member);
      if (block.isEmpty())
        continue;
      // Who has a part in the block, and who holds it in the end.
      ArrayRef<int64_t> sources = reduction ? group : ArrayRef(owner);
      ArrayRef<int64_t> holders =
          isa<ReduceScatterOp>(op) ? ArrayRef(owner) : group;
      if (failed(checkBlock(name, block, sources, holders)))
        return failure();
    }
    return success();
  }

private:
  using Contents = SmallVector<std::pair<Box, Content>>;

  Box getBlock(int64_t member) {
    auto [offsets, sizes] = collective.getBlock(member);
    return Box(offsets, sizes);
  }

  /// `holders` hold what `sources` had in a block of the source, at `offsets`
  /// of the destination if these are not the same.
  LogicalResult checkBlock(StringRef name, const Box &block,
                           ArrayRef<int64_t> sources, ArrayRef<int64_t> holders,
                           ArrayRef<int64_t> offsets = {}) {
    auto expected = combine(name, block, sources);
    if (failed(expected))
      return failure();
    std::string what =
        reduction ? "the " + stringifyReduction(*reduction).str() +
                        " of all members' " + name.str()
                  : name.str() + " of rank " + std::to_string(sources.front());
    Box there = block;
    if (!offsets.empty())
      there.offsets.assign(offsets.begin(), offsets.end());
    for (auto &[box, content] : *expected)
      for (size_t dim = 0; dim < there.offsets.size(); ++dim) {
        int64_t distance = block.offsets[dim] - there.offsets[dim];
        box.offsets[dim] -= distance;
        content.shift(dim, distance);
      }
    for (int64_t rank : holders)
      if (failed(checkRank(what, rank, there, *expected)))
        return failure();
    return success();
  }

  /// What a block is to be made of, part by part: the contents of `sources`
  /// when the collective starts.
  FailureOr<Contents> combine(StringRef name, const Box &block,
                              ArrayRef<int64_t> sources) {
    Contents result;
    for (auto [number, rank] : llvm::enumerate(sources)) {
      Contents next;
      SmallVector<Box> missing{block};
      before.forEachPiece({rank, collective.getSrc()}, block,
                          [&](const Box &part, const Memory::Piece &piece) {
                            subtract(missing, part);
                            if (number == 0) {
                              next.emplace_back(part, piece.content);
                              return;
                            }
                            for (auto &[box, content] : result) {
                              if (!box.intersects(part))
                                continue;
                              next.emplace_back(intersect(box, part), content);
                              next.back().second.combine(piece.content,
                                                         *reduction, graph);
                            }
                          });
      if (!missing.empty())
        return claim.emitOpError()
               << "expects rank " << rank << " to hold " << name
               << " when the collective starts, but at offsets ["
               << missing.front().offsets << "] sizes ["
               << missing.front().sizes << "] it holds nothing";
      result = std::move(next);
    }
    return result;
  }

  /// Rank `rank` holds what is expected in a block.
  LogicalResult checkRank(StringRef what, int64_t rank, const Box &block,
                          const Contents &expected) {
    SmallVector<Box> missing{block};
    std::optional<std::pair<Box, Memory::Piece>> wrong;
    for (auto &[part, content] : expected)
      memory.forEachPiece(
          {rank, collective.getDst()}, part,
          [&](const Box &box, const Memory::Piece &piece) {
            subtract(missing, box);
            if (!wrong &&
                (!isKnown(piece) || !piece.content.isSameAs(content, graph)))
              wrong = {box, piece};
          });
    if (missing.empty() && !wrong)
      return success();
    const Box &where = wrong ? wrong->first : missing.front();
    InFlightDiagnostic diag = claim.emitOpError();
    diag << "expects rank " << rank << " to hold " << what
         << ", but at offsets [" << where.offsets << "] sizes [" << where.sizes
         << "] it ";
    if (!wrong)
      return diag << "holds nothing";
    const Memory::Piece &piece = wrong->second;
    if (!isKnown(piece))
      diag << "holds what a transfer brings that the claim does not come after";
    else
      describe(diag, where, piece.content);
    if (piece.writer)
      diag.attachNote(graph.getTransfer(*piece.writer).getLoc())
          << "the transfer that brings it";
    return diag;
  }

  bool isKnown(const Memory::Piece &piece) {
    return !piece.writer || isAncestor.test(*piece.writer);
  }

  static void describe(InFlightDiagnostic &diag, const Box &where,
                       const Content &content) {
    diag << "holds ";
    if (content.reduction)
      diag << "the " << stringifyReduction(*content.reduction) << " of ";
    for (auto [number, part] : llvm::enumerate(content.parts)) {
      SmallVector<int64_t> from;
      for (auto [offset, shift] : llvm::zip(where.offsets, part.shift))
        from.push_back(offset + shift);
      diag << (number ? " and " : "") << "what rank " << part.origin.first
           << " had in "
           << part.origin.second.getDefiningOp<BufferOp>().getNameAttr()
           << " at offsets [" << from << "]";
    }
    if (content.isMixed)
      diag << ", combined in several ways";
    if (content.isCounted)
      diag << ", in as many rows as are counted at run time";
  }

  PlanGraph &graph;
  Memory &memory;
  ClaimOp claim;
  CollectiveOpInterface collective;
  /// What ranks hold when the collective starts.
  Memory before;
  llvm::BitVector isAncestor;
  std::optional<Reduction> reduction;
};

struct CheckClaims : impl::CheckClaimsPassBase<CheckClaims> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    PlanOp plan = getOperation();
    if (plan.getBody().getOps<ClaimOp>().empty())
      return;
    PlanGraph graph(plan);
    if (failed(graph.requireDecomposed()))
      return signalPassFailure();
    Memory memory(graph);
    unsigned next = 0;
    for (Operation &op : plan.getBody().getOps()) {
      if (isa<TransferOpInterface>(op))
        memory.move(next++);
      else if (auto produce = dyn_cast<ProduceOp>(op)) {
        if (produce.getReduction())
          memory.accumulate(produce);
      } else if (auto claim = dyn_cast<ClaimOp>(op))
        if (failed(Checker(graph, memory, claim).check()))
          return signalPassFailure();
    }
  }
};

} // namespace
} // namespace syncopate
