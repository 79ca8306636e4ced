// RUN: syncopate-opt %s --chunk-split-transfers=splits=2 | FileCheck %s

!n = !chunk.buffer<2xi32>
!b = !chunk.buffer<8x4xf32>

// The rows of a piece come behind those of the ones before it.
// CHECK-LABEL: chunk.plan @split
chunk.plan @split mesh [2] {
  %b = chunk.buffer "b" : !b
  %n = chunk.buffer "n" : !n
  chunk.input %b[0, 0] sizes [5, 4] on 0 : !b
  chunk.input %n[0] sizes [2] on 0 : !n
  // CHECK: chunk.put %{{.*}}[0, 0] to %{{.*}}[3, 0] sizes [3, 4] from 0 to 1 rows %{{.*}}[1, 7]
  // CHECK: chunk.put %{{.*}}[3, 0] to %{{.*}}[6, 0] sizes [2, 4] from 0 to 1 rows %{{.*}}[1, 10]
  %t = chunk.put %b[0, 0] to %b[3, 0] sizes [5, 4] from 0 to 1 rows %n[1, 7] : !n : !b to !b
}
