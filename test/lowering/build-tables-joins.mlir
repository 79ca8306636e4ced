// RUN: syncopate-opt %s --syncopate-plan-pipeline | FileCheck %s

// What comes after several transfers, here by way of joins, waits for the last
// of each queue: rank 0's second put (flag 1) and rank 1's (flag 2).
// CHECK-LABEL: chunk.plan @joins
// CHECK: chunk.schedule @k rank 2
// CHECK-SAME: waits = #chunk.table<signal, count : [14, 0], [1, 1], [2, 1],
!b = !chunk.buffer<4x4xf32>
chunk.plan @joins mesh [3] {
  %a = chunk.buffer "a" : !b
  %b = chunk.buffer "b" : !b
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !b
  chunk.input %a[2, 0] sizes [1, 4] on 1 : !b
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [1, 4] from 0 to 2 : !b to !b
  %t1 = chunk.put %a[1, 0] to %a[1, 0] sizes [1, 4] from 0 to 2 : !b to !b
  %j0 = chunk.join %t1, %t0
  %t2 = chunk.put %a[2, 0] to %a[2, 0] sizes [1, 4] from 1 to 2 : !b to !b
  %j1 = chunk.join %j0, %t2
  %t3 = chunk.put %a[0, 0] to %b[0, 0] sizes [3, 4] from 2 to 0 after(%j1, %t0) : !b to !b
  chunk.kernel @k tiles [1] ctas 1 args() after(%t3) {}
}
