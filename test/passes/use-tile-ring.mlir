// RUN: syncopate-opt %s --chunk-use-tile-ring -split-input-file | FileCheck %s

!p = !chunk.buffer<4x8xf32>
!q = !chunk.buffer<8x8xf32>

// A put of what one tile computes is handed over by it; of what two compute, or with something else to wait for, not.
// CHECK-LABEL: chunk.plan @puts
// CHECK: from 0 to 1 after(%[[MADE:.+]]) realize ldst_colocated tile 0 :
// CHECK-NEXT: from 0 to 1 after(%[[MADE]]) realize ldst_colocated tile 1 :
// CHECK-NEXT: from 0 to 0 after(%[[MADE]]) realize ldst_colocated tile 1 :
// CHECK-NEXT: sizes [4, 8] from 0 to 1 after(%[[MADE]]) realize ldst_colocated :
// CHECK-NEXT: realize ldst_colocated :
// CHECK-NEXT: realize ldst_dedicated :
// CHECK-NEXT: chunk.get
// CHECK-SAME: realize ldst_colocated :
chunk.plan @puts mesh [2] {
  %p = chunk.buffer "p" : !p
  %q = chunk.buffer "q" : !q
  %made = chunk.produce %p[0, 0] sizes [4, 8] on 0 : !p
  %t0 = chunk.put %p[0, 0] to %q[0, 0] sizes [2, 8] from 0 to 1 after(%made) realize ldst_colocated : !p to !q
  %t1 = chunk.put %p[2, 0] to %q[2, 0] sizes [1, 8] from 0 to 1 after(%made) realize ldst_colocated : !p to !q
  %t2 = chunk.put %p[2, 0] to %q[2, 0] sizes [2, 8] from 0 to 0 after(%made) realize ldst_colocated : !p to !q
  %t3 = chunk.put %p[0, 0] to %q[4, 0] sizes [4, 8] from 0 to 1 after(%made) realize ldst_colocated : !p to !q
  %t4 = chunk.put %p[0, 0] to %q[0, 0] sizes [2, 8] from 0 to 1 after(%made, %t0) realize ldst_colocated : !p to !q
  %t5 = chunk.put %p[0, 0] to %q[0, 0] sizes [2, 8] from 0 to 0 after(%made) realize ldst_dedicated : !p to !q
  %t6 = chunk.get %p[0, 0] to %q[0, 0] sizes [2, 8] from 0 to 1 after(%made, %t4) realize ldst_colocated : !p to !q
  chunk.kernel @k tiles [2] ctas 2 comm_ctas 1 args(%p as "c") : !p {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}

// -----
!p = !chunk.buffer<4x8xf32>
!q = !chunk.buffer<8x8xf32>

// The ring is that of the realization with most.
// CHECK-LABEL: chunk.plan @two_roles
// CHECK: realize ldst_colocated :
// CHECK-NEXT: realize tma_colocated tile 0 :
// CHECK-NEXT: realize tma_colocated tile 1 :
chunk.plan @two_roles mesh [2] {
  %p = chunk.buffer "p" : !p
  %q = chunk.buffer "q" : !q
  %made = chunk.produce %p[0, 0] sizes [4, 8] on 0 : !p
  %t0 = chunk.put %p[0, 0] to %q[0, 0] sizes [2, 8] from 0 to 1 after(%made) realize ldst_colocated : !p to !q
  %t1 = chunk.put %p[0, 0] to %q[4, 0] sizes [2, 8] from 0 to 1 after(%made) realize tma_colocated : !p to !q
  %t2 = chunk.put %p[2, 0] to %q[2, 0] sizes [2, 8] from 0 to 1 after(%made) realize tma_colocated : !p to !q
  chunk.kernel @k tiles [2] ctas 2 args(%p as "c") : !p {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}

// -----
!p = !chunk.buffer<4x8xf32>
!q = !chunk.buffer<8x8xf32>

// Rank 1's tiles read what rank 0 sends only when tiles have computed it, by the same role: rank 0 has no ring. What
// comes after no tile does not stand in the way: rank 1 has one.
// CHECK-LABEL: chunk.plan @needed
// CHECK: from 1 to 0 realize ldst_colocated :
// CHECK-NEXT: from 0 to 1 after(%{{.+}}) realize ldst_colocated :
// CHECK-NEXT: from 0 to 1 after(%{{.+}}) realize ldst_colocated :
// CHECK-NEXT: from 1 to 0 after(%{{.+}}) realize ldst_colocated tile 0 :
chunk.plan @needed mesh [2] {
  %p = chunk.buffer "p" : !p
  %q = chunk.buffer "q" : !q
  %x = chunk.buffer "x" : !q
  chunk.input %x[0, 0] sizes [4, 8] on 0 : !q
  chunk.input %x[4, 0] sizes [4, 8] on 1 : !q
  %m0 = chunk.produce %p[0, 0] sizes [4, 8] on 0 : !p
  %m1 = chunk.produce %p[0, 0] sizes [4, 8] on 1 : !p
  %t0 = chunk.put %x[4, 0] to %x[4, 0] sizes [4, 8] from 1 to 0 realize ldst_colocated : !q to !q
  %t1 = chunk.put %p[0, 0] to %x[0, 0] sizes [4, 8] from 0 to 1 after(%m0) realize ldst_colocated : !p to !q
  %t2 = chunk.put %p[0, 0] to %q[0, 0] sizes [2, 8] from 0 to 1 after(%m0) realize ldst_colocated : !p to !q
  %t3 = chunk.put %p[0, 0] to %q[0, 0] sizes [2, 8] from 1 to 0 after(%m1) realize ldst_colocated : !p to !q
  chunk.kernel @k tiles [2] ctas 2 args(%p as "c", %x as "a") after(%t0, %t1) : !p, !q {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
    chunk.footprint read "a" at affine_map<(m) -> (m * 4, 0)> sizes [4, 8]
  }
}
