// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: FileCheck %s < %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// The last two of six tiles do not fill a round of four CTAs: each is computed by two of them. The parts stand one behind
// the other in the order, with their numbers for the third coordinate, and each waits for what the whole tile reads.
// CHECK: chunk.put %{{.+}} from 0 to 1 after(%{{.+}}) realize ldst_colocated tile 0
// CHECK: chunk.put %{{.+}} from 0 to 1 after(%{{.+}}) realize ldst_colocated signal
// Either is counted once, by whoever stores it, and hands nothing over.
// CHECK: chunk.schedule @k rank 0
// CHECK-SAME: groups = #chunk.table<count, signal_begin, signal_end : [1, 3, 4]>
// CHECK-SAME: tiles = #chunk.table<c0, c1, c2, wait_begin, wait_end : [0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [2, 0, 0, 0, 0], [3, 0, 0, 0, 0], [4, 0, 0, 0, 1], [4, 0, 1, 0, 1], [5, 0, 0, 0, 1], [5, 0, 1, 0, 1]>

// RUN: sed "/rank 0/s/\[4, 0, 1, 0, 1\]/[4, 0, 0, 0, 1]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: expects part 1 of the tile before in row 5, but got [4, 0, 0]

// RUN: sed "/rank 0/s/\[4, 0, 1, 0, 1\]/[3, 0, 1, 0, 1]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: expects part 1 of the tile before in row 5, but got [3, 0, 1]

// RUN: sed "/rank 0/s/, \[5, 0, 1, 0, 1\]//" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: expects to order 8 tiles and parts of tiles, as many as its kernel computes, but got 7

// RUN: sed "/rank 0/s/\[4, 0, 1, 0, 1\]/[4, 0, 1, 0, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=WAIT
// WAIT: tile [4, 0] of rank 0 starts without a wait for a transfer that brings what it reads

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 0, 0\]/[0, 0, 0, 0, 1, 2]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=HANDED
// HANDED: expects tile 4 to hand nothing over, since several CTAs compute it, and the role beside one has to know how often it is handed something

!a = !chunk.buffer<12x8xf32>
!c = !chunk.buffer<12x4xf32>
chunk.plan @gather mesh [2] {
  %a = chunk.buffer "a" : !a
  %c = chunk.buffer "c" : !c
  %q = chunk.buffer "q" : !c
  chunk.input %a[0, 0] sizes [8, 8] on 0 : !a
  chunk.input %a[8, 0] sizes [4, 8] on 1 : !a
  %made = chunk.produce %c[0, 0] sizes [12, 4] on 0 : !c
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [8, 8] from 0 to 1 realize copy_engine : !a to !a
  %t1 = chunk.put %a[8, 0] to %a[8, 0] sizes [4, 8] from 1 to 0 realize copy_engine : !a to !a
  %t2 = chunk.put %c[0, 0] to %q[0, 0] sizes [2, 4] from 0 to 1 after(%made) realize ldst_colocated : !c to !c
  %t3 = chunk.put %c[8, 0] to %q[8, 0] sizes [2, 4] from 0 to 1 after(%made) realize ldst_colocated : !c to !c
  chunk.kernel @k tiles [6, 1] ctas 4 parts 2 args(%a as "a", %c as "c") after(%t0, %t1) : !a, !c {
    chunk.footprint read "a" at affine_map<(m, n) -> (m * 2, 0)> sizes [2, 8]
    chunk.footprint write "c" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}
