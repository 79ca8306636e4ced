// RUN: syncopate-opt %s --syncopate-plan-pipeline | FileCheck %s
// RUN: syncopate-opt %s --syncopate-plan-pipeline | syncopate-opt --syncopate-check-pipeline -o /dev/null

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4xf32>

// Tiles name all transfers to their rank, in the order of the plan, though they are of one queue and the last would
// stand for both; and though tile 2 comes behind tile 0 on its CTA. A command has the most rows that it may move.
// CHECK-LABEL: chunk.plan @needs
// CHECK: chunk.schedule @k rank 0 {calls = {{.*}}needs_buffer, needs_index : [{{.*}}, 1, 3]>, commands = {{.*}} count_buffer, count_index, count_past, exchange : [1, 0, {{.*}}, 2, 16, 16, 16, {{.*}}, 1, 2, 0, -1], [3, 0, {{.*}}, 2, 16, 16, 16, {{.*}}, 1, 2, 2, -1]>
// CHECK-SAME: tiles = #chunk.table<c0, c1, c2, wait_begin, wait_end : [0, 0, 0, 0, 2], [1, 0, 0, 0, 2], [2, 0, 0, 0, 2]>
// CHECK-SAME: waits = #chunk.table<signal, count : [0, 1], [2, 1],
chunk.plan @needs mesh [2] {
  %b = chunk.buffer "b" : !b
  %n = chunk.buffer "n" : !n
  chunk.input %b[0, 0] sizes [4, 4] on 0 : !b
  chunk.input %b[4, 0] sizes [4, 4] on 1 : !b
  chunk.input %n[0] sizes [6] on 0 : !n
  chunk.input %n[0] sizes [6] on 1 : !n
  %t0 = chunk.put %b[4, 0] to %b[4, 0] sizes [2, 4] from 1 to 0 rows %n[1, 0] : !n : !b to !b
  %t1 = chunk.put %b[0, 0] to %b[0, 0] sizes [2, 4] from 0 to 1 rows %n[2, 0] : !n : !b to !b
  %t2 = chunk.put %b[6, 0] to %b[6, 0] sizes [2, 4] from 1 to 0 rows %n[1, 2] : !n : !b to !b
  %t3 = chunk.put %b[2, 0] to %b[2, 0] sizes [2, 4] from 0 to 1 rows %n[2, 2] : !n : !b to !b
  chunk.kernel @k tiles [3] ctas 2 args(%b as "b") needs(%n[3] : !n) after(%t0, %t1, %t2, %t3) : !b {
    chunk.footprint read "b" at affine_map<(m) -> (0, 0)> sizes [8, 4]
  }
}
