// RUN: syncopate-opt %s --chunk-order-tiles="order=paced group_m=2" -split-input-file | FileCheck %s
// RUN: syncopate-opt %s --chunk-order-tiles="order=arrival group_m=2" -split-input-file | FileCheck %s --check-prefix=ARRIVAL

// Rank 1 makes rows for ranks 2 and 0, and then its own. With four CTAs and blocks of two rows of tiles, one column is for
// each peer in turn.
!c = !chunk.buffer<12x3xf32>
!s = !chunk.buffer<12x3xf32>
// CHECK-LABEL: chunk.plan @scatter
// ARRIVAL-LABEL: chunk.plan @scatter
chunk.plan @scatter mesh [3] {
  %c = chunk.buffer "c" : !c
  %s = chunk.buffer "s" : !s
  %p0 = chunk.produce %c[0, 0] sizes [12, 3] on 0 : !c
  %p1 = chunk.produce %c[0, 0] sizes [12, 3] on 1 : !c
  %p2 = chunk.produce %c[0, 0] sizes [12, 3] on 2 : !c
  %t01 = chunk.put %c[4, 0] to %s[0, 0] sizes [4, 3] from 0 to 1 after(%p0) realize copy_engine : !c to !s
  %t12 = chunk.put %c[8, 0] to %s[4, 0] sizes [4, 3] from 1 to 2 after(%p1) realize copy_engine : !c to !s
  %t20 = chunk.put %c[0, 0] to %s[8, 0] sizes [4, 3] from 2 to 0 after(%p2) realize copy_engine : !c to !s
  %t02 = chunk.put %c[8, 0] to %s[0, 0] sizes [4, 3] from 0 to 2 after(%p0) realize copy_engine : !c to !s
  %t10 = chunk.put %c[0, 0] to %s[4, 0] sizes [4, 3] from 1 to 0 after(%p1) realize copy_engine : !c to !s
  %t21 = chunk.put %c[4, 0] to %s[8, 0] sizes [4, 3] from 2 to 1 after(%p2) realize copy_engine : !c to !s
  chunk.kernel @k tiles [12, 3] ctas 4 args(%c as "y") : !c {
    chunk.footprint write "y" at affine_map<(m, n) -> (m, n)> sizes [1, 1]
  }
  // CHECK: chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [8, 0, 0], [9, 0, 0], [0, 0, 0], [1, 0, 0], [8, 1, 0], [9, 1, 0], [0, 1, 0], [1, 1, 0], [8, 2, 0], [9, 2, 0], [0, 2, 0], [1, 2, 0], [10, 0, 0], [11, 0, 0], [2, 0, 0],
  // CHECK-SAME: [6, 2, 0], [7, 2, 0]>}
  // ARRIVAL: chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [8, 0, 0], [9, 0, 0], [8, 1, 0], [9, 1, 0], [8, 2, 0], [9, 2, 0], [10, 0, 0],
}

// -----
// Rank 0 reads its own rows first, and then those of ranks 1 and 2 in turn.
!buf = !chunk.buffer<12x2xf32>
// CHECK-LABEL: chunk.plan @gather
chunk.plan @gather mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [4, 2] on 0 : !buf
  chunk.input %a[4, 0] sizes [4, 2] on 1 : !buf
  chunk.input %a[8, 0] sizes [4, 2] on 2 : !buf
  %t01 = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 2] from 0 to 1 realize copy_engine : !buf to !buf
  %t12 = chunk.put %a[4, 0] to %a[4, 0] sizes [4, 2] from 1 to 2 realize copy_engine : !buf to !buf
  %t20 = chunk.put %a[8, 0] to %a[8, 0] sizes [4, 2] from 2 to 0 realize copy_engine : !buf to !buf
  %t02 = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 2] from 0 to 2 realize copy_engine : !buf to !buf
  %t10 = chunk.put %a[4, 0] to %a[4, 0] sizes [4, 2] from 1 to 0 realize copy_engine : !buf to !buf
  %t21 = chunk.put %a[8, 0] to %a[8, 0] sizes [4, 2] from 2 to 1 realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [12] ctas 4 args(%a as "x") after(%t01, %t12, %t20, %t02, %t10, %t21) : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m, 0)> sizes [1, 2]
  }
  // CHECK: chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0], [8, 0, 0], [9, 0, 0], [6, 0, 0], [7, 0, 0], [10, 0, 0], [11, 0, 0]>}
}
