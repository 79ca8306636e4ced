// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: FileCheck %s < %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 1/s/\[0, 1, 0, 5, 1\]/[0, 1, 0, 5, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=INSIDE
// INSIDE: expects outputs to say in which slots its 4 library calls leave what they bring to rank 1
// RUN: sed "s/columns, count : \[0, 2, 4, 8\]/columns, count : [0, 2, 4, 9]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: expects slots to say which buffers hold the slots of its library calls, and how many

// Blocks of three rows, tiles of two: the middle tile of a column has a slot for either rank. Rank 1 has its rows from the
// second one of that slot on.
!c = !chunk.buffer<6x8xf32>
// CHECK: chunk.plan @scatter
// CHECK-SAME: slots = #chunk.table<buffer, rows, columns, count : [0, 2, 4, 8]>
// CHECK: chunk.schedule @k rank 0
// CHECK-SAME: outputs = #chunk.table<row, rows, column, slot, inside : [0, 2, 0, 0, 0], [0, 2, 1, 2, 0], [2, 1, 0, 4, 0], [2, 1, 1, 6, 0]>
// CHECK: chunk.schedule @k rank 1
// CHECK-SAME: outputs = #chunk.table<row, rows, column, slot, inside : [0, 1, 0, 5, 1], [0, 1, 1, 7, 1], [1, 2, 0, 1, 0], [1, 2, 1, 3, 0]>
chunk.plan @scatter mesh [2] strategy <slots = tiles> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1] after(%m0, %m1) realize nccl : !c
  chunk.output %c[0, 0] sizes [3, 8] on 0 : !c
  chunk.output %c[3, 0] sizes [3, 8] on 1 : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}
