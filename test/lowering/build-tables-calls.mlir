// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: FileCheck %s < %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 1/s/\[0, 1, 0, 10\]/[0, 1, 0, 8]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=OUTPUTS
// OUTPUTS: expects outputs to say in which slots its 3 library calls leave what they bring to rank 1
// RUN: sed "s/columns, count : \[0, 1, 4, 12\]/columns, count : [0, 2, 4, 6]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: expects slots to say which buffers hold the slots of its library calls, and how many
// RUN: sed "s/rows, slot : \[0, 1, 8\], \[1, 1, 10\]/rows, slot : [0, 2, 8], [1, 1, 10]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: tile [1, 0] of rank 0 is not in parts that are its rows in the block of each rank
// RUN: sed "s/rows, slot : \[0, 1, 8\], \[1, 1, 10\]/rows, slot : [0, 1, 10], [1, 1, 10]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PART
// PART: tile [1, 0] of rank 0 is in slot 10, but expects one in [8, 10), where call 2 has its part
// RUN: sed "/rank 1/s/rows, slot : \[0, 1, 8\], \[1, 1, 10\]/rows, slot : [0, 1, 9], [1, 1, 10]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=RANKS
// RANKS: tile [1, 0] of rank 1 is not in the slots that it has on rank 0
// RUN: sed "s/rows, slot : \[0, 1, 8\], \[1, 1, 10\]/rows, slot : [0, 1, 9], [1, 1, 10]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: tile [1, {{[01]}}] of rank 0 is in slot 9, where another tile is
// RUN: sed "s/\[2, -1, 0, 2\]/[2, 8, 0, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: tile [1, 0] of rank 0 is not in parts that are its rows in the block of each rank
// RUN: sed "s/\[0, 0, 0, 0\]/[0, -1, 0, 2]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: tile [0, 0] of rank 0 is in parts, but lies in the block of one rank
// RUN: sed "s/\[2, -1, 0, 2\]/[2, -1, 0, 5]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=RANGE
// RANGE: expects row 2 of slots to name rows of slot_parts in [0, 4], but got [0, 5)
// RUN: sed "s/slot_parts = #chunk.table<row, rows, slot/slot_parts = #chunk.table<row, count, slot/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COLUMNS
// COLUMNS: expects slot_parts to have the columns

// Blocks of three rows, tiles of two: the middle tile of a column has a row of either rank, each in a slot of its own.
!c = !chunk.buffer<6x8xf32>
// CHECK: chunk.plan @scatter
// CHECK-SAME: slots = #chunk.table<buffer, rows, columns, count : [0, 1, 4, 12]>
// CHECK: chunk.schedule @k rank 0
// CHECK-SAME: outputs = #chunk.table<row, rows, column, slot : [0, 2, 0, 0], [0, 2, 1, 4], [2, 1, 0, 8], [2, 1, 1, 9]>
// CHECK-SAME: slot_parts = #chunk.table<row, rows, slot : [0, 1, 8], [1, 1, 10], [0, 1, 9], [1, 1, 11]>
// CHECK: chunk.schedule @k rank 1
// CHECK-SAME: outputs = #chunk.table<row, rows, column, slot : [0, 1, 0, 10], [0, 1, 1, 11], [1, 2, 0, 2], [1, 2, 1, 6]>
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

// What a rank gets by rows lies where its peers have put it, and row 1 of what comes from rank 1 nowhere.
!r = !chunk.buffer<4x8xf32>
// CHECK: chunk.plan @routed
// CHECK-SAME: slots = #chunk.table<buffer, rows, columns, count : [0, 1, 4, 8], [1, 1, 4, 8]>
// CHECK: chunk.schedule @routed_kernel rank 0
// CHECK-SAME: outputs = #chunk.table<row, rows, column, slot : [1, 1, 0, 0], [1, 1, 1, 2], [0, 1, 0, 1], [0, 1, 1, 3], [2, 1, 0, 4], [2, 1, 1, 5]>
// CHECK: chunk.schedule @routed_kernel rank 1
// CHECK-SAME: outputs = #chunk.table<row, rows, column, slot : [0, 1, 0, 0], [0, 1, 1, 1], [2, 2, 0, 4], [2, 2, 1, 6]>
chunk.plan @routed mesh [2] strategy <slots = tiles> {
  %c = chunk.buffer "c" : !r
  %r = chunk.buffer "r" : !r
  %m0 = chunk.produce %c[0, 0] sizes [4, 8] on 0 : !r
  %m1 = chunk.produce %c[0, 0] sizes [4, 8] on 1 : !r
  %t = chunk.all_to_all %c to %r axis 0 rows [3, 0, 1, -1, 2, -1, 0, 1] group [0, 1] after(%m0, %m1) realize nccl : !r to !r
  chunk.output %r[0, 0] sizes [4, 8] on 0 : !r
  chunk.output %r[0, 0] sizes [4, 8] on 1 : !r
  chunk.kernel @routed_kernel tiles [2, 2] ctas 4 args(%c as "c_desc") after(%t) : !r {
    chunk.footprint write "c_desc" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}
