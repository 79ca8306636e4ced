// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: FileCheck %s < %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 0/s/4, 1, 0, 2, 32, 1,/4, 1, 0, 3, 32, 1,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: command 0 of rank 0 has parts 3, but its transfer has 2
// RUN: sed "/rank 0/s/1, 0, 2, 32, 1,/1, 0, 2, 16, 1,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=STRIDE
// STRIDE: command 0 of rank 0 has part_stride 16, but its transfer has 32
// RUN: sed "/rank 0/s/1, 0, 2, 32, 1,/1, 0, 2, 32, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=BEHIND
// BEHIND: command 0 of rank 0 has behind 0, but its transfer has 1
// RUN: sed "/rank 0/s/4, 4, 500, 1, 0, 0,/4, 1, 500, 1, 0, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: has reduction 1, but its transfer has 4

// Two ranks have sent what they have into slots of rank 0, which combines them
// with what its tiles have computed; then it adds that to what rank 1 has,
// unordered.
!s = !chunk.buffer<4x4xf32>
!c = !chunk.buffer<2x4xf32>
chunk.plan @sum mesh [3] {
  %s = chunk.buffer "s" : !s
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [2, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [2, 4] on 1 : !c
  %m2 = chunk.produce %c[0, 0] sizes [2, 4] on 2 : !c
  %t1 = chunk.put %c[0, 0] to %s[0, 0] sizes [2, 4] from 1 to 0 after(%m1) : !c to !s
  %t2 = chunk.put %c[0, 0] to %s[2, 0] sizes [2, 4] from 2 to 0 after(%m2) : !c to !s
  %wait = chunk.put %c[0, 0] to %s[0, 0] sizes [1, 4] from 0 to 1 after(%m0) : !c to !s
  %sum = chunk.put %s[0, 0] parts 2 step [2, 0] to %c[0, 0] sizes [1, 4] from 0 to 0 reduce sum behind 1 after(%m0, %t1, %t2, %wait) : !s to !c
  %back = chunk.put %c[0, 0] to %c[0, 0] sizes [1, 4] from 0 to 1 reduce sum unordered after(%sum, %m1, %t1) : !c to !c
  // CHECK: chunk.schedule @k rank 0
  // The first transfer is handed over by the tile, so its command stands behind those of the queue.
  // CHECK-SAME: reduction, pause, parts, part_stride, behind, {{.*}} : [3, 0, 0, 0, 0, 1, 0, 1, 16, 16, 16, {{[^]]*}}, 4, 1, 0, 2, 32, 1, -1, 0, 0, -1],
  // CHECK-SAME: [4, 0, 1, 0, 1, 1, 0, 1, 16, 16, 16, {{[^]]*}}, 4, 4, 500, 1, 0, 0, -1, 0, 0, -1],
  // CHECK-SAME: [2, 0, 1, 0, 1, 0, 0, 1, 16, 16, 16, {{[^]]*}}, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1]>
  chunk.kernel @k tiles [1] ctas 1 args(%c as "c") : !c {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
