// RUN: syncopate-opt %s --chunk-order-tiles=group_m=8 --chunk-allocate-signals --chunk-place-waits | FileCheck %s
// RUN: not syncopate-opt %s --chunk-place-waits 2>&1 | FileCheck %s --check-prefix=UNSIGNALLED
// UNSIGNALLED: has no signals; run chunk-allocate-signals first

!buf = !chunk.buffer<8x4xf32>
// Rank 0 owns rows 0 and 1; rank 1 puts rows 2 to 5 in two pieces, and rank 2 puts rows 6 and 7. Tiles are three rows
// high, so they straddle chunks.
// CHECK-LABEL: chunk.plan @straddle
chunk.plan @straddle mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !buf
  chunk.input %a[2, 0] sizes [4, 4] on 1 : !buf
  chunk.input %a[6, 0] sizes [2, 4] on 2 : !buf
  %t0 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 4] from 1 to 0 realize ldst_colocated : !buf to !buf
  %t1 = chunk.put %a[4, 0] to %a[4, 0] sizes [2, 4] from 1 to 0 realize ldst_colocated : !buf to !buf
  %t2 = chunk.put %a[6, 0] to %a[6, 0] sizes [2, 4] from 2 to 0 realize ldst_colocated : !buf to !buf
  %t3 = chunk.get %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 realize copy_engine : !buf to !buf
  %t4 = chunk.get %a[6, 0] to %a[6, 0] sizes [2, 4] from 2 to 1 realize copy_engine : !buf to !buf
  %t5 = chunk.get %a[0, 0] to %a[0, 0] sizes [6, 4] from 1 to 2 after(%t3) realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [3, 2] ctas 2 args(%a as "x") after(%t0, %t1, %t2, %t4, %t5) : !buf {
    chunk.footprint read "x" at affine_map<(m, n) -> (m * 3, 0)> sizes [3, 4]
  }
  // Rows 0-2 need transfer 0; rows 3-5 need 0 and 1, but 1 stands for both, and comes after what the CTA has waited for;
  // rows 6-7 need transfer 2, of another rank, which arrives together with 0. Each CTA waits for itself.
  // CHECK: chunk.schedule @k rank 0
  // CHECK-SAME: tiles = #chunk.table<c0, c1, c2, wait_begin, wait_end : [0, 0, 0, 0, 1], [2, 0, 0, 1, 2], [0, 1, 0, 0, 0], [2, 1, 0, 0, 0], [1, 0, 0, 2, 3], [1, 1, 0, 2, 3]>
  // CHECK-SAME: waits = #chunk.table<signal, count : [0, 1], [2, 1], [1, 1]>
  // Rank 1 owns the middle; rank 2 gets rows 0-5 in one piece, for which both CTAs wait once.
  // CHECK: chunk.schedule @k rank 2
  // CHECK-SAME: [2, 0, 0, 0, 0], [2, 1, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0]>
  // CHECK-SAME: waits = #chunk.table<signal, count : [5, 1]>
}
