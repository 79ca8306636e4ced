//===- PlanAnalysis.h - what passes of one plan share ---------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_PLANANALYSIS_H
#define SYNCOPATE_PASSES_PLANANALYSIS_H

#include "passes/KernelDependence.h"
#include "passes/Tables.h"
#include "passes/TileGroups.h"

#include <memory>
#include <optional>

namespace syncopate {

/// The graph of a plan whose transfers have realizations, and what follows from
/// it and from the footprints of kernels. Everything is worked out when it is
/// first asked for. A pass that changes none of this preserves the analysis.
class PlanAnalysis {
public:
  explicit PlanAnalysis(mlir::Operation *plan)
      : graph(mlir::cast<chunk::PlanOp>(plan)) {}

  PlanGraph &getGraph() { return graph; }
  /// What the tiles of a rank depend on; invalid, with an error at the kernel,
  /// as said there.
  KernelDependence &getDependence(chunk::KernelOp kernel, int64_t rank) {
    auto &found = dependences[{kernel.getOperation(), rank}];
    if (!found)
      found = std::make_unique<KernelDependence>(graph, kernel, rank);
    return *found;
  }
  /// The tiles of a schedule at each position, as \c readTileOrder says, with
  /// its errors.
  mlir::FailureOr<llvm::ArrayRef<int64_t>>
  getOrder(chunk::KernelOp kernel, chunk::ScheduleOp schedule) {
    auto &[table, order] = orders[schedule];
    if (!table || table != schedule.getTilesAttr()) {
      mlir::FailureOr<llvm::SmallVector<int64_t>> read =
          readTileOrder(kernel, schedule);
      if (failed(read))
        return mlir::failure();
      table = schedule.getTilesAttr();
      order.assign(read->begin(), read->end());
    }
    return llvm::ArrayRef(order);
  }
  /// Says in which order the tiles of a schedule are, of a kernel without
  /// parts.
  void setOrder(chunk::ScheduleOp schedule, std::vector<int64_t> order) {
    orders[schedule] = {schedule.getTilesAttr(), std::move(order)};
  }
  /// Says that the tiles of a schedule, which have been written anew, are in
  /// the order in which they were.
  void keepOrder(chunk::ScheduleOp schedule) {
    if (auto it = orders.find(schedule); it != orders.end())
      it->second.first = schedule.getTilesAttr();
  }
  const TileGroups &getGroups() {
    if (!groups)
      groups.emplace(graph);
    return *groups;
  }
  /// Says which tile hands over each transfer, which then waits for no group of
  /// that tile; the groups are worked out again if that is news.
  void setTiles(llvm::function_ref<std::optional<uint64_t>(unsigned)> getTile) {
    for (unsigned id = 0; id < graph.size(); ++id)
      if (chunk::TransferOpInterface transfer = graph.getTransfer(id);
          transfer.getTile() != getTile(id)) {
        transfer.setTile(getTile(id));
        groups.reset();
      }
  }

private:
  PlanGraph graph;
  std::map<std::pair<mlir::Operation *, int64_t>,
           std::unique_ptr<KernelDependence>>
      dependences;
  std::optional<TileGroups> groups;
  std::map<mlir::Operation *, std::pair<chunk::TableAttr, std::vector<int64_t>>>
      orders;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_PLANANALYSIS_H
