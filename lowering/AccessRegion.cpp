//===- AccessRegion.cpp - which region a tile accesses --------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/AccessRegion.h"
#include "lowering/SplitTiles.h"
#include "lowering/TritonModule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

LogicalResult AccessRegions::fail(const Twine &why, Value value) {
  reason = why.str();
  culprit = value;
  return failure();
}

LogicalResult AccessRegions::add(Operation *op, bool write) {
  isWrite = write;
  addresses.clear();
  StringRef name = op->getName().getStringRef();
  if (name == (write ? "tt.store" : "tt.load")) {
    if (failed(collectByPointer(op)))
      return failure();
  } else if (name == (write ? "tt.descriptor_store" : "tt.descriptor_load")) {
    if (failed(collectByDescriptor(op)))
      return failure();
  } else {
    bool adds = name == "tt.atomic_rmw" || name == "tt.descriptor_reduce";
    return fail(adds && write
                    ? name + " adds to what other tiles, or calls, have left "
                             "there: a region is ready when all tiles that "
                             "have it in their footprints are"
                    : name + " goes by indices that are not followed");
  }
  addSurroundings(op);
  for (const Address &address : addresses)
    if (failed(addAddress(address)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

LogicalResult AccessRegions::collectByPointer(Operation *op) {
  PointerValue pointer = values.getPointer(op->getOperand(0));
  if (pointer.base && pointer.base != argument)
    return success(); // by another argument
  if (!pointer.offset.isKnown())
    return fail("its address " + pointer.offset.reason, pointer.offset.culprit);
  unsigned maskNumber = isWrite ? 2 : 1;
  Mask mask;
  if (op->getNumOperands() > maskNumber)
    mask = values.getMask(op->getOperand(maskNumber));
  if (mask.never)
    return success();
  for (Case item : pointer.offset.cases) {
    item.exact &= mask.exact;
    if (item.require(mask.conditions))
      addresses.push_back({std::move(item), {}});
  }
  return success();
}

/// What a descriptor is before loops that do not change it.
static Value getDescriptorSource(Value descriptor) {
  while (auto carried = dyn_cast<BlockArgument>(descriptor)) {
    auto loop = dyn_cast<scf::ForOp>(carried.getOwner()->getParentOp());
    if (!loop || carried == loop.getInductionVar())
      break;
    unsigned index = carried.getArgNumber() - loop.getNumInductionVars();
    if (loop.getYieldedValues()[index] != carried)
      break;
    descriptor = loop.getInitArgs()[index];
  }
  return descriptor;
}

LogicalResult AccessRegions::collectByDescriptor(Operation *op) {
  Value descriptor = getDescriptorSource(op->getOperand(0));
  Operation *made = descriptor.getDefiningOp();
  bool isMade = isNamed(made, "tt.make_tensor_descriptor");
  if (!isMade && descriptor != argument) {
    auto other = dyn_cast<BlockArgument>(descriptor);
    if (other && isNamed(other.getOwner()->getParentOp(), "tt.func"))
      return success(); // another argument
    return fail("which descriptor it takes is not understood", descriptor);
  }
  if (isWrite ? op->getNumOperands() < 2 : op->getNumResults() != 1)
    return fail("it has no data");
  Value data = isWrite ? op->getOperand(1) : op->getResult(0);
  ValueRange indices = op->getOperands().drop_front(isWrite ? 2 : 1);
  auto block = dyn_cast<RankedTensorType>(data.getType());
  if (!block || !block.hasStaticShape())
    return fail("its block has a dynamic dimension");
  // The base, and a size and a stride of each dimension.
  size_t rank = isMade ? (made->getNumOperands() - 1) / 2 : type.getRank();
  if (isMade && made->getNumOperands() != 1 + 2 * rank)
    return fail("its descriptor has another number of sizes than of strides");
  if (indices.size() != rank || block.getRank() != static_cast<int64_t>(rank))
    return fail("it has " + Twine(indices.size()) +
                " dimensions, but the buffer has " + Twine(rank));
  Address first{Case{}, {}};
  addresses.push_back(first);
  if (isMade) {
    PointerValue pointer = values.getPointer(made->getOperand(0));
    if (pointer.base && pointer.base != argument)
      return addresses.clear(), success();
    if (!pointer.offset.isKnown())
      return fail("the base of its descriptor " + pointer.offset.reason,
                  pointer.offset.culprit);
    addresses.clear();
    for (const Case &item : pointer.offset.cases)
      addresses.push_back({item, {}});
  }
  for (auto [dim, value] : llvm::enumerate(indices)) {
    const Offset &offset = values.getOffset(value);
    if (!offset.isKnown())
      return fail("the offset of dimension " + Twine(dim) + " " + offset.reason,
                  offset.culprit);
    int64_t size = 0, stride = 0;
    if (isMade) {
      Value sizeValue = made->getOperand(1 + dim);
      Value strideValue = made->getOperand(1 + rank + dim);
      auto sizeConstant = values.getOffset(sizeValue).getConstant();
      auto strideConstant = values.getOffset(strideValue).getConstant();
      if (!sizeConstant || !strideConstant)
        return fail("the shape or stride of its descriptor is not known",
                    sizeConstant ? strideValue : sizeValue);
      size = *sizeConstant;
      stride = *strideConstant;
    }
    Sum lane(Variable{Variable::Lane,
                      static_cast<unsigned>(dim),
                      {},
                      block.getDimSize(dim) - 1,
                      true});
    std::vector<Address> extended;
    for (const Address &address : addresses)
      for (const Case &item : offset.cases) {
        Address more = address;
        more.under.exact &= item.exact;
        if (!more.under.require(item.conditions))
          continue;
        Sum index = item.sum + lane;
        if (!isMade) {
          more.dims.push_back(index);
        } else {
          // What lies outside the descriptor's shape is not accessed.
          if (!more.under.require(index) ||
              !more.under.require(Sum(size - 1) - index))
            continue;
          more.under.sum = more.under.sum + index * stride;
        }
        extended.push_back(std::move(more));
      }
    addresses = std::move(extended);
  }
  return success();
}

void AccessRegions::addSurroundings(Operation *op) {
  std::vector<Address> kept;
  for (Address &address : addresses) {
    bool runs = true;
    for (Operation *inner = op, *parent = op->getParentOp();
         !isNamed(parent, "tt.func");
         inner = parent, parent = parent->getParentOp()) {
      if (auto branch = dyn_cast<scf::IfOp>(parent)) {
        // One of the CTAs of a tile takes it.
        if (isLastPart(branch) && canSplit(kernel, branch) &&
            inner->getParentRegion() == &branch.getThenRegion())
          continue;
        bool negated = inner->getParentRegion() == &branch.getElseRegion();
        Mask mask = values.getMask(branch.getCondition(), negated);
        address.under.exact &= mask.exact;
        runs &= !mask.never && address.under.require(mask.conditions);
      } else if (auto loop = dyn_cast<scf::ForOp>(parent)) {
        if (!findMarkers(loop, kTileMarker).empty())
          continue;
        // What stands in a loop that may not run may not be accessed.
        address.under.exact &= values.getCounter(loop).exact;
      } else {
        address.under.exact = false;
      }
    }
    if (runs)
      kept.push_back(std::move(address));
  }
  addresses = std::move(kept);
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

LogicalResult AccessRegions::addAddress(Address address) {
  if (address.dims.empty()) {
    if (llvm::any_of(type.getShape().drop_front(), ShapedType::isDynamic))
      return fail("rows of a dynamic length have no known stride");
    std::optional<SmallVector<Sum>> dims = splitIndices(address);
    if (!dims)
      return addRows(address);
    address.dims = std::move(*dims);
  }
  return addBox(address);
}

/// The last index of a dimension; none if it is dynamic.
static std::optional<int64_t> getLast(BufferType type, size_t dim) {
  int64_t size = type.getShape()[dim];
  return ShapedType::isDynamic(size) ? std::nullopt
                                     : std::optional<int64_t>(size - 1);
}

/// True if `condition` says that `index` is at least 0.
static bool isLowerEnd(const Sum &condition, const Sum &index) {
  return condition == index;
}

/// True if `condition` says that `index` is at most `last`.
static bool isUpperEnd(const Sum &condition, const Sum &index,
                       std::optional<int64_t> last) {
  return last && condition + index == Sum(*last);
}

std::optional<SmallVector<Sum>>
AccessRegions::splitIndices(const Address &address) {
  size_t rank = type.getRank();
  SmallVector<Sum> dims(rank);
  for (const Sum::Term &term : address.under.sum.getTerms()) {
    int64_t factor = term.factor;
    for (size_t dim = 0; dim < rank; ++dim) {
      dims[dim] = dims[dim] + Sum(term.variable) * (factor / strides[dim]);
      factor %= strides[dim];
    }
  }
  // The constant goes where no index becomes negative.
  int64_t constant = address.under.sum.getConstant();
  for (size_t dim = 0; dim < rank; ++dim) {
    int64_t part = llvm::divideFloorSigned(constant, strides[dim]);
    dims[dim] = dims[dim] + Sum(part);
    constant -= part * strides[dim];
  }
  for (size_t dim = 1; dim < rank; ++dim) {
    std::optional<int64_t> last = getLast(type, dim);
    Bounds range = dims[dim].getBounds();
    bool begins = range.least && *range.least >= 0;
    bool ends = range.greatest && *range.greatest <= *last;
    for (const Sum &condition : address.under.conditions) {
      begins |= isLowerEnd(condition, dims[dim]);
      // A mask may end earlier than the row.
      Sum end = condition + dims[dim];
      ends |= end.getBounds().greatest && *end.getBounds().greatest <= *last;
    }
    if (!begins || !ends)
      return std::nullopt;
  }
  return dims;
}

/// True if the sum takes, within a tile, every value between its least and its
/// greatest.
static bool isDense(const Sum &sum) {
  SmallVector<std::pair<int64_t, int64_t>> steps;
  for (const Sum::Term &term : sum.getTerms())
    if (term.variable.kind != Variable::Coordinate) {
      if (!term.variable.exact || !term.variable.greatest)
        return false;
      steps.push_back({std::abs(term.factor), *term.variable.greatest});
    }
  llvm::sort(steps);
  int64_t reach = 0;
  for (auto [factor, greatest] : steps) {
    if (factor > reach + 1)
      return false;
    reach += factor * greatest;
  }
  return true;
}

LogicalResult AccessRegions::addRows(const Address &address) {
  const Sum &sum = address.under.sum;
  int64_t row = strides.front();
  std::optional<Sum> least = sum.leastInTile(), greatest = sum.greatestInTile();
  std::optional<int64_t> last = getLast(type, 0);
  SmallVector<Sum> conditions;
  for (const Sum &condition : address.under.conditions)
    if (!isLowerEnd(condition, sum) &&
        !(last && isUpperEnd(condition, sum, (*last + 1) * row - 1)))
      conditions.push_back(condition);
  if (!least || !greatest)
    return fail("its address runs on for an unknown length");
  Bounds length = (*greatest - *least).getBounds();
  if (!length.greatest)
    return fail("its address runs on for an unknown length");
  auto [whole, rest] = least->splitBy(row);
  SmallVector<Sum> offsets(type.getRank());
  SmallVector<int64_t> sizes(type.getShape());
  offsets[0] = whole.dividedBy(row);
  Bounds begin = rest.getBounds();
  if (!begin.least || *begin.least < 0 || !begin.greatest)
    return fail("its address begins at an unknown place in a row");
  // Tiles begin at multiples of this behind the begin of a row.
  int64_t unit = std::gcd(row, rest.getConstant());
  for (const Sum::Term &term : rest.getTerms())
    unit = std::gcd(unit, term.factor);
  if (!(rest == Sum(0)))
    offsets[0] = offsets[0] +
                 Sum(Variable{Variable::Coordinate, 0,
                              rest.toExpr(kernel.getContext()).floorDiv(row),
                              *begin.greatest / row, false});
  sizes[0] = (row - unit + *length.greatest) / row + 1;
  if (isWrite &&
      (!address.under.exact || !conditions.empty() || !isDense(sum) ||
       !(rest == Sum(0)) || (*length.greatest + 1) % row != 0))
    return fail("what it writes is neither a box of the buffer nor whole rows");
  return addRegion(offsets, sizes, getShift(conditions));
}

LogicalResult AccessRegions::checkCovered(const Address &address) {
  llvm::DenseSet<std::pair<int, unsigned>> used;
  bool covered = address.under.exact;
  for (auto [dim, index] : llvm::enumerate(address.dims)) {
    covered &= isDense(index);
    for (const Sum::Term &term : index.getTerms())
      if (term.variable.kind != Variable::Coordinate)
        covered &=
            used.insert({term.variable.kind, term.variable.number}).second;
  }
  for (const Sum &condition : address.under.conditions)
    covered &= llvm::any_of(llvm::enumerate(address.dims), [&](auto pair) {
      return isLowerEnd(condition, pair.value()) ||
             isUpperEnd(condition, pair.value(), getLast(type, pair.index()));
    });
  if (!covered)
    return fail("it may leave out part of the region that its address spans, "
                "and what a tile writes has to be exact");
  return success();
}

LogicalResult AccessRegions::addBox(const Address &address) {
  if (isWrite && failed(checkCovered(address)))
    return failure();
  SmallVector<Sum> offsets;
  SmallVector<int64_t> sizes;
  llvm::DenseSet<unsigned> bounding;
  for (auto [dim, index] : llvm::enumerate(address.dims)) {
    if (!index.isValid())
      return fail("the offset of dimension " + Twine(dim) +
                  " does not fit into 64 bits");
    std::optional<int64_t> last = getLast(type, dim);
    std::optional<Sum> least = index.leastInTile();
    std::optional<Sum> greatest = index.greatestInTile();
    for (auto [number, condition] : llvm::enumerate(address.under.conditions)) {
      if (isLowerEnd(condition, index) || isUpperEnd(condition, index, last)) {
        bounding.insert(number);
        continue;
      }
      // A condition may bound the index more tightly than its variables do.
      auto isTighter = [](const Sum &gain) {
        Bounds range = gain.getBounds();
        return range.least && *range.least >= 0 &&
               !(range.greatest && *range.greatest == 0);
      };
      std::optional<Sum> end = (condition + index).greatestInTile();
      if (end && (!greatest || isTighter(*greatest - *end))) {
        greatest = end;
        bounding.insert(number);
      }
      std::optional<Sum> begin = (index - condition).leastInTile();
      if (begin && (!least || isTighter(*begin - *least))) {
        least = begin;
        bounding.insert(number);
      }
    }
    if (!least)
      least = Sum(0);
    if (!greatest && !last)
      return fail("it accesses all of dimension " + Twine(dim) +
                  ", which is dynamic");
    if (!greatest)
      greatest = Sum(*last);
    Bounds length = (*greatest - *least).getBounds();
    if (!length.greatest)
      return fail("the offset of dimension " + Twine(dim) +
                  " does not fit into 64 bits");
    int64_t size = *length.greatest + 1;
    // Where only one end moves, the box lies at that end, and what it has too
    // much lies outside the buffer.
    bool fromEnd = !(length.least == length.greatest) && least->isConstant() &&
                   least->getConstant() <= 0;
    offsets.push_back(fromEnd ? *greatest - Sum(size - 1) : *least);
    sizes.push_back(size);
  }
  SmallVector<Sum> others;
  for (auto [number, condition] : llvm::enumerate(address.under.conditions))
    if (!bounding.contains(number))
      others.push_back(condition);
  return addRegion(offsets, sizes, getShift(others));
}

AffineExpr AccessRegions::getShift(ArrayRef<Sum> conditions) {
  AffineExpr shift;
  for (const Sum &condition : conditions) {
    std::optional<Sum> best = condition.greatestInTile();
    Bounds range = best ? best->getBounds() : Bounds();
    if (!range.isBounded() || *range.least >= 0)
      continue;
    // Divided by more than it can be, it is -1 or 0.
    int64_t divisor = std::max(-(*range.least + 1), *range.greatest) + 1;
    AffineExpr expr = best->toExpr(kernel.getContext()).floorDiv(divisor) *
                      (2 * BufferType::kMaxBytes);
    shift = shift ? shift + expr : expr;
  }
  return shift;
}

LogicalResult AccessRegions::addRegion(ArrayRef<Sum> offsets,
                                       ArrayRef<int64_t> sizes,
                                       AffineExpr shift) {
  Region region;
  SmallVector<AffineExpr> exprs;
  for (auto [dim, offset] : llvm::enumerate(offsets)) {
    int64_t size = sizes[dim], begin = offset.getConstant(), end;
    if (size <= 0)
      return success();
    if (!offset.isValid() || llvm::AddOverflow(begin, size, end))
      return fail("the offset of dimension " + Twine(dim) +
                  " does not fit into 64 bits");
    Sum kept = offset;
    if (offset.isConstant()) {
      begin = std::max<int64_t>(begin, 0);
      if (std::optional<int64_t> last = getLast(type, dim))
        end = std::min(end, *last + 1);
      if (end <= begin)
        return success();
      kept = Sum(begin);
      size = end - begin;
    }
    if (size >= BufferType::kMaxBytes)
      return fail("the size of dimension " + Twine(dim) +
                  " is larger than any buffer");
    exprs.push_back(kept.toExpr(kernel.getContext()));
    region.sizes.push_back(size);
  }
  if (shift)
    exprs.front() = exprs.front() + shift;
  region.offsets =
      AffineMap::get(kernel.getTiles().size(), 0, exprs, kernel.getContext());
  if (!llvm::is_contained(regions, region))
    regions.push_back(std::move(region));
  return success();
}
