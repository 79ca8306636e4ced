// RUN: syncopate-opt %s --chunk-order-tiles --chunk-allocate-signals --chunk-place-waits | FileCheck %s
// RUN: syncopate-opt %s --chunk-order-tiles=order=grouped --chunk-allocate-signals --chunk-place-waits | FileCheck %s --check-prefix=GROUPED
// RUN: syncopate-opt %s --chunk-order-tiles --chunk-order-tiles=order=given --chunk-allocate-signals --chunk-place-waits --chunk-place-waits | FileCheck %s
// RUN: syncopate-opt %s --syncopate-plan-pipeline | syncopate-opt --syncopate-check-pipeline -o /dev/null

!a = !chunk.buffer<4x12xf32>
// Each rank holds four columns. Steps are two columns wide; rank 1 takes its own first, then rank 2's, which arrive
// before rank 0's. Tile 3 walks three steps, and does not wait for what it does not read.
// CHECK-LABEL: chunk.plan @along
chunk.plan @along mesh [3] {
  %a = chunk.buffer "a" : !a
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !a
  chunk.input %a[0, 4] sizes [4, 4] on 1 : !a
  chunk.input %a[0, 8] sizes [4, 4] on 2 : !a
  %t0 = chunk.put %a[0, 8] to %a[0, 8] sizes [4, 4] from 2 to 1 realize ldst_colocated : !a to !a
  %t1 = chunk.put %a[0, 8] to %a[0, 8] sizes [4, 4] from 2 to 0 realize ldst_colocated : !a to !a
  %t2 = chunk.get %a[0, 0] to %a[0, 0] sizes [4, 4] from 0 to 1 after(%t0) realize copy_engine : !a to !a
  %t3 = chunk.get %a[0, 4] to %a[0, 4] sizes [4, 4] from 1 to 0 realize copy_engine : !a to !a
  %t4 = chunk.get %a[0, 0] to %a[0, 0] sizes [4, 8] from 1 to 2 after(%t2) realize copy_engine : !a to !a
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x") after(%t0, %t1, %t2, %t3, %t4) : !a {
    chunk.footprint read "x" at affine_map<(m, k) -> (m, k * 2)> sizes [1, 2]
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (6, m * -3 + 12)>
  }
  // Tiles 0 and 1 are the first of their CTAs, and share a list with its waits; tile 2 has the same steps without.
  // CHECK: chunk.schedule @k rank 0
  // CHECK-SAME: steps = #chunk.table<step, wait_begin, wait_end : [0, 0, 0], [1, 0, 0], [2, 0, 1], [3, 0, 0], [4, 1, 2], [5, 0, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0]>
  // CHECK-SAME: tile_steps = #chunk.table<begin, end : [0, 6], [0, 6], [6, 12], [12, 15]>
  // CHECK-SAME: tiles = #chunk.table<c0, c1, c2, wait_begin, wait_end : [0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [2, 0, 0, 0, 0], [3, 0, 0, 0, 0]>
  // CHECK-SAME: waits = #chunk.table<signal, count : [3, 1], [1, 1]>
  // CHECK: chunk.schedule @k rank 1
  // CHECK-SAME: steps = #chunk.table<step, wait_begin, wait_end : [2, 0, 0], [3, 0, 0], [4, 0, 1], [5, 0, 0], [0, 1, 2], [1, 0, 0],
  // GROUPED: chunk.schedule @k rank 1
  // GROUPED-SAME: steps = #chunk.table<step, wait_begin, wait_end : [0, 0, 1], [1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 1, 2], [5, 0, 0],
}
