// RUN: syncopate-opt %s --chunk-order-tiles="order=wave group_m=4" -split-input-file | FileCheck %s
// RUN: syncopate-opt %s --chunk-order-tiles="order=arrival group_m=4" -split-input-file | FileCheck %s --check-prefix=ARRIVAL

// Rank 0 makes six rows for rank 1 first, and then five of its own. They are cut into stripes of three rows, and of three
// and two; `arrival` cuts the grid into stripes of four rows, of which the second one has two for either rank.
!c = !chunk.buffer<11x2xf32>
!s = !chunk.buffer<11x2xf32>
// CHECK-LABEL: chunk.plan @scatter
// ARRIVAL-LABEL: chunk.plan @scatter
chunk.plan @scatter mesh [2] {
  %c = chunk.buffer "c" : !c
  %s = chunk.buffer "s" : !s
  %p0 = chunk.produce %c[0, 0] sizes [11, 2] on 0 : !c
  %p1 = chunk.produce %c[0, 0] sizes [11, 2] on 1 : !c
  %t01 = chunk.put %c[0, 0] to %s[0, 0] sizes [6, 2] from 0 to 1 after(%p0) realize copy_engine : !c to !s
  %t10 = chunk.put %c[6, 0] to %s[6, 0] sizes [5, 2] from 1 to 0 after(%p1) realize copy_engine : !c to !s
  chunk.kernel @k tiles [11, 2] ctas 4 args(%c as "y") : !c {
    chunk.footprint write "y" at affine_map<(m, n) -> (m, n)> sizes [1, 1]
  }
  // CHECK: chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0], [3, 1, 0], [4, 1, 0], [5, 1, 0],
  // CHECK-SAME: [6, 0, 0], [7, 0, 0], [8, 0, 0], [6, 1, 0], [7, 1, 0], [8, 1, 0], [9, 0, 0], [10, 0, 0], [9, 1, 0], [10, 1, 0]>}
  // ARRIVAL: chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0], [3, 1, 0], [4, 0, 0], [5, 0, 0], [4, 1, 0], [5, 1, 0],
}

// -----
// Each library call takes three rows of tiles of either rank's block: those stand in a row, on both ranks. `arrival` lets
// tiles of both blocks take turns, and stripes of three rows begin with the grid, not with the second block.
!c = !chunk.buffer<20x2xf32>
// CHECK-LABEL: chunk.plan @calls
// ARRIVAL-LABEL: chunk.plan @calls
chunk.plan @calls mesh [2] strategy <waves = [3]> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [20, 2] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [20, 2] on 1 : !c
  %t = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1] after(%m0, %m1) realize nccl : !c
  chunk.kernel @k tiles [20, 2] ctas 4 args(%c as "y") : !c {
    chunk.footprint write "y" at affine_map<(m, n) -> (m, n)> sizes [1, 1]
  }
  // CHECK-COUNT-2: {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0], [10, 0, 0], [11, 0, 0], [12, 0, 0], [10, 1, 0], [11, 1, 0], [12, 1, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0],
  // ARRIVAL-COUNT-2: {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [10, 0, 0], [1, 0, 0], [11, 0, 0], [2, 0, 0], [10, 1, 0],
}
