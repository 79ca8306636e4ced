// RUN: syncopate-opt %s --pass-pipeline='builtin.module(chunk.plan(chunk-decompose-collectives{realization=nccl},chunk-assign-realization,chunk-order-tiles,chunk-assign-slots))' -split-input-file | FileCheck %s

// Six tiles on two CTAs are three waves, of which each is a call if nothing else is said.
!c = !chunk.buffer<6x8xf32>
// CHECK-LABEL: chunk.plan @sum
// CHECK: chunk.all_reduce {{.*}} realize nccl
// CHECK-COUNT-2: slots = #chunk.table<call, slot, begin, end : [0, 0, 0, 0], [1, 3, 0, 0], [0, 1, 0, 0], [2, 4, 0, 0], [1, 2, 0, 0], [2, 5, 0, 0]>
chunk.plan @sum mesh [2] strategy <slots = tiles> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}

// -----
// A call takes as many tiles of the blocks of both ranks, of three rows each. The middle tile of a column lies in either,
// is stored in two parts, and comes last. So a slot is a row, and there are as many as the buffer has: a call takes two of
// each block, one of either tile in the last one.
!c = !chunk.buffer<6x8xf32>
// CHECK-LABEL: chunk.plan @scatter
// CHECK: chunk.schedule @k rank 0
// CHECK-SAME: slot_parts = #chunk.table<row, rows, slot : [0, 1, 8], [1, 1, 10], [0, 1, 9], [1, 1, 11]>
// CHECK-SAME: slots = #chunk.table<call, slot, begin, end : [0, 0, 0, 0], [1, 4, 0, 0], [2, -1, 0, 2], [2, -1, 2, 4], [0, 2, 0, 0], [1, 6, 0, 0]>
// CHECK-SAME: tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [2, 0, 0], [0, 1, 0], [2, 1, 0], [1, 0, 0], [1, 1, 0]>
chunk.plan @scatter mesh [2] strategy <slots = tiles> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}

// -----
// A tile may have rows of more ranks than two, and rows beyond the matrix, which are stored nowhere. The second row of tiles
// is in one block, but not all of its rows are. In front there is room for a rank's results, three rows.
!c = !chunk.buffer<9x8xf32>
// CHECK-LABEL: chunk.plan @three_blocks
// CHECK-COUNT-3: slot_parts = #chunk.table<row, rows, slot : [0, 3, 3], [3, 3, 6], [6, 2, 9], [0, 1, 11], [1, 7, -1]>, slots = #chunk.table<call, slot, begin, end : [0, -1, 0, 3], [0, -1, 0, 3], [0, -1, 3, 5], [0, -1, 3, 5]>
chunk.plan @three_blocks mesh [3] strategy <waves = [3]> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [9, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [9, 8] on 1 : !c
  %m2 = chunk.produce %c[0, 0] sizes [9, 8] on 2 : !c
  %t = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1, 2] after(%m0, %m1, %m2) : !c
  chunk.kernel @k tiles [2, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 8, n * 4)> sizes [8, 4]
  }
}

// -----
// Two stores of halves of a tile are one slot.
!c = !chunk.buffer<4x8xf32>
!r = !chunk.buffer<4x8xf32>
// CHECK-LABEL: chunk.plan @exchange
// CHECK-COUNT-2: slots = #chunk.table<call, slot, begin, end : [0, 0, 0, 0], [0, 1, 0, 0]>
chunk.plan @exchange mesh [2] strategy <slots = tiles> {
  %c = chunk.buffer "c" : !c
  %r = chunk.buffer "r" : !r
  %m0 = chunk.produce %c[0, 0] sizes [4, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 8] on 1 : !c
  %t = chunk.all_to_all %c to %r axis 0 group [0, 1] after(%m0, %m1) : !c to !r
  chunk.kernel @k tiles [2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 4)> sizes [2, 4]
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}

// -----
// Rows of tiles, of which a call takes so many that they are as many tiles as in its waves.
!c = !chunk.buffer<6x8xf32>
// CHECK-LABEL: chunk.plan @rows
// CHECK-COUNT-2: slots = #chunk.table<call, slot, begin, end : [0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0]>, tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [2, 0, 0], [2, 1, 0]>
chunk.plan @rows mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}

// -----
// In front of the slots of a reduce_scatter of rows, there is room for a rank's results.
!c = !chunk.buffer<8x8xf32>
// CHECK-LABEL: chunk.plan @scatter_rows
// CHECK-COUNT-2: slots = #chunk.table<call, slot, begin, end : [0, 2, 0, 0], [0, 2, 0, 0], [1, 4, 0, 0], [1, 4, 0, 0], [0, 3, 0, 0], [0, 3, 0, 0], [1, 5, 0, 0], [1, 5, 0, 0]>
chunk.plan @scatter_rows mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [8, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [8, 8] on 1 : !c
  %t = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  chunk.kernel @k tiles [4, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}

// -----
// The first call takes two waves, further ones one each: of tiles, and of rows of them.
!c = !chunk.buffer<6x8xf32>
// CHECK-LABEL: chunk.plan @waves
// CHECK-COUNT-2: slots = #chunk.table<call, slot, begin, end : [0, 0, 0, 0], [0, 3, 0, 0], [0, 1, 0, 0], [1, 4, 0, 0], [0, 2, 0, 0], [1, 5, 0, 0]>
chunk.plan @waves mesh [2] strategy <waves = [2, 1], slots = tiles> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}

// -----
!c = !chunk.buffer<6x8xf32>
// CHECK-LABEL: chunk.plan @waves_of_rows
// CHECK-COUNT-2: slots = #chunk.table<call, slot, begin, end : [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [1, 2, 0, 0], [1, 2, 0, 0]>
chunk.plan @waves_of_rows mesh [2] strategy <waves = [2, 1]> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}

// -----
// An all_to_all that says by rows what goes where: ranks have slots of their own, in calls of the same sizes. Rank 0 sends
// four pieces of rows to itself, and two to rank 1; its row 2 goes nowhere.
!c = !chunk.buffer<4x8xf32>
// CHECK-LABEL: chunk.plan @routed
// CHECK: chunk.schedule @k rank 0
// CHECK-SAME: slot_parts = #chunk.table<row, rows, slot : [0, 1, 0], [1, 1, 4], [0, 1, -1], [1, 1, 1], [0, 1, 2], [1, 1, 5], [0, 1, -1], [1, 1, 3]>
// CHECK-SAME: slots = #chunk.table<call, slot, begin, end : [0, -1, 0, 2], [0, -1, 4, 6], [0, -1, 2, 4], [0, -1, 6, 8]>
// CHECK: chunk.schedule @k rank 1
// CHECK-SAME: slot_parts = #chunk.table<row, rows, slot : [0, 2, 4], [0, 1, 0], [1, 1, -1], [0, 2, 6], [0, 1, 1], [1, 1, -1]>
// CHECK-SAME: slots = #chunk.table<call, slot, begin, end : [0, -1, 0, 1], [0, -1, 3, 4], [0, -1, 1, 3], [0, -1, 4, 6]>
chunk.plan @routed mesh [2] strategy <slots = tiles> {
  %c = chunk.buffer "c" : !c
  %r = chunk.buffer "r" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 8] on 1 : !c
  %t = chunk.all_to_all %c to %r axis 0 rows [3, 0, 1, -1, 2, -1, 0, 1] group [0, 1] after(%m0, %m1) : !c to !c
  chunk.kernel @k tiles [2, 2] ctas 4 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}
