// RUN: syncopate-opt %s | syncopate-opt | FileCheck %s

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4xf32>

// CHECK-LABEL: chunk.plan @counted
chunk.plan @counted mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  chunk.input %n[0] sizes [6] on 0 : !n
  chunk.input %b[0, 0] sizes [4, 4] on 0 : !b
  // CHECK: chunk.put %[[B:[0-9]+]][0, 0] to %[[B]][0, 0] sizes [4, 4] from 0 to 1 rows %[[N:.*]][1, 0] : !chunk.buffer<6xi32> : <8x4xf32> to <8x4xf32>
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[1, 0] : !n : !b to !b
  // CHECK: chunk.get {{.*}} reduce sum rows %[[N]][2, 3] : !chunk.buffer<6xi32> after(%{{.*}}) realize ldst_colocated
  %u = chunk.get %b[4, 0] to %b[4, 0] sizes [4, 4] from 0 to 1 reduce sum rows %n[2, 3] : !n after(%t) realize ldst_colocated : !b to !b
  // CHECK: chunk.kernel @k tiles [3, 2] ctas 2 args(%[[B]] as "b") needs(%[[N]][3] : !chunk.buffer<6xi32>) after(
  chunk.kernel @k tiles [3, 2] ctas 2 args(%b as "b") needs(%n[3] : !n) after(%t, %u) : !b {}
}

// CHECK-LABEL: chunk.plan @without
chunk.plan @without mesh [2] {
  %n = chunk.buffer "n" : !n
  // CHECK: chunk.kernel @k tiles [3] ctas 1 args() needs(%{{.*}}[0] : !chunk.buffer<6xi32>) {
  chunk.kernel @k tiles [3] ctas 1 args() needs(%n[0] : !n) {}
}
