// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t.once
// RUN: syncopate-opt %t.once --chunk-build-tables | diff %t.once -
// RUN: syncopate-opt %t.once --chunk-place-waits --chunk-build-tables | diff %t.once -
// RUN: syncopate-opt %t.once --chunk-order-tiles --chunk-allocate-signals --chunk-place-waits --chunk-build-tables | diff %t.once -
// RUN: not syncopate-opt %t.once --chunk-split-transfers=splits=2 --chunk-build-tables 2>&1 | FileCheck %s

// Tables that are built again replace those that were there. What changes
// transfers must come before signals are allocated.
// CHECK: expects signal 1, its number in the plan, but got 0
chunk.plan @gather mesh [3] strategy <algorithm = ring, direction = pull> {
  %a = chunk.buffer "a" : !chunk.buffer<6x4xf32>
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !chunk.buffer<6x4xf32>
  chunk.input %a[2, 0] sizes [2, 4] on 1 : !chunk.buffer<6x4xf32>
  chunk.input %a[4, 0] sizes [2, 4] on 2 : !chunk.buffer<6x4xf32>
  %t = chunk.all_gather %a axis 0 group [0, 1, 2] : !chunk.buffer<6x4xf32>
  chunk.kernel @k tiles [3, 2] ctas 2 args(%a as "x") after(%t) : !chunk.buffer<6x4xf32> {
    chunk.footprint read "x" at affine_map<(m, n) -> (m * 2, 0)> sizes [2, 4]
  }
}
