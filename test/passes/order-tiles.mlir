// RUN: syncopate-opt %s --chunk-order-tiles=group_m=2 -split-input-file -verify-diagnostics | FileCheck %s
// RUN: syncopate-opt %s --chunk-order-tiles="order=grouped group_m=2" -split-input-file -verify-diagnostics | FileCheck %s --check-prefix=GROUPED

!buf = !chunk.buffer<6x4xf32>
// CHECK-LABEL: chunk.plan @ring
// GROUPED-LABEL: chunk.plan @ring
chunk.plan @ring mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !buf
  chunk.input %a[2, 0] sizes [2, 4] on 1 : !buf
  chunk.input %a[4, 0] sizes [2, 4] on 2 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 realize copy_engine : !buf to !buf
  %t1 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 4] from 1 to 2 realize copy_engine : !buf to !buf
  %t2 = chunk.put %a[4, 0] to %a[4, 0] sizes [2, 4] from 2 to 0 realize copy_engine : !buf to !buf
  %t3 = chunk.put %a[4, 0] to %a[4, 0] sizes [2, 4] from 0 to 1 after(%t2) realize copy_engine : !buf to !buf
  %t4 = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 4] from 1 to 2 after(%t0) realize copy_engine : !buf to !buf
  %t5 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 4] from 2 to 0 after(%t1) realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [6, 2] ctas 2 args(%a as "x") after(%t3, %t4, %t5) : !buf {
    chunk.footprint read "x" at affine_map<(m, n) -> (m, 0)> sizes [1, 4]
  }
  // Own rows first, then in the order of arrival; columns inside two rows.
  // CHECK: chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [4, 0, 0], [5, 0, 0], [4, 1, 0], [5, 1, 0], [2, 0, 0], [3, 0, 0], [2, 1, 0], [3, 1, 0]>}
  // CHECK: chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [2, 0, 0], [3, 0, 0], [2, 1, 0], [3, 1, 0], [0, 0, 0],
  // CHECK: chunk.schedule @k rank 2 {tiles = #chunk.table<c0, c1, c2 : [4, 0, 0], [5, 0, 0], [4, 1, 0], [5, 1, 0], [2, 0, 0],
  // GROUPED: chunk.schedule @k rank 2 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 0, 0],
}

// -----
!buf = !chunk.buffer<6x4xf32>
chunk.plan @missing_transfer mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [3, 4] on 0 : !buf
  chunk.input %a[3, 0] sizes [3, 4] on 1 : !buf
  // expected-note @+1 {{this transfer brings it, but the kernel does not come after it}}
  %t0 = chunk.put %a[3, 0] to %a[3, 0] sizes [3, 4] from 1 to 0 realize copy_engine : !buf to !buf
  // expected-error @+1 {{tile [2, 0] of rank 0 would wait for ever: it reads "x" at offsets [3, 0] sizes [2, 4], which is no input of the rank and which no transfer that the kernel comes after brings}}
  chunk.kernel @k tiles [3, 1] ctas 2 args(%a as "x") : !buf {
    // expected-note @+1 {{the tile reads by this footprint}}
    chunk.footprint read "x" at affine_map<(m, n) -> (m * 2 - 1, 0)> sizes [2, 4]
  }
}

// -----
!buf = !chunk.buffer<6x4xf32>
chunk.plan @no_footprint mesh [2] {
  %a = chunk.buffer "a" : !buf
  // expected-error @+1 {{has no footprint of argument "x"; run chunk-infer-tile-footprints, or write a chunk.footprint in its body}}
  chunk.kernel @k tiles [3, 1] ctas 2 args(%a as "x") : !buf {}
}

// -----
!buf = !chunk.buffer<6x4xf32>
chunk.plan @no_realization mesh [2] {
  %a = chunk.buffer "a" : !buf
  // expected-error @+1 {{has no realization; run chunk-assign-realization first}}
  %t0 = chunk.put %a[3, 0] to %a[3, 0] sizes [3, 4] from 1 to 0 : !buf to !buf
}

// -----
!a = !chunk.buffer<4x4xf32>
!c = !chunk.buffer<4x4xf32>
// What adds to what has arrived comes last, though it reads the rank's own rows: other ranks' tiles make what arrives.
// CHECK-LABEL: chunk.plan @gathers_and_sums
chunk.plan @gathers_and_sums mesh [2] {
  %a = chunk.buffer "a" : !a
  %c = chunk.buffer "c" : !c
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !a
  chunk.input %a[2, 0] sizes [2, 4] on 1 : !a
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 realize copy_engine : !a to !a
  %t1 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 4] from 1 to 0 realize copy_engine : !a to !a
  %p0 = chunk.produce %c[2, 0] sizes [2, 4] on 0 : !c
  %p1 = chunk.produce %c[0, 0] sizes [2, 4] on 1 : !c
  %u0 = chunk.put %c[2, 0] to %c[2, 0] sizes [2, 4] from 0 to 1 after(%p0) realize copy_engine : !c to !c
  %u1 = chunk.put %c[0, 0] to %c[0, 0] sizes [2, 4] from 1 to 0 after(%p1) realize copy_engine : !c to !c
  %q0 = chunk.produce %c[0, 0] sizes [2, 4] on 0 reduce sum after(%u1) : !c
  %q1 = chunk.produce %c[2, 0] sizes [2, 4] on 1 reduce sum after(%u0) : !c
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x", %c as "y") after(%t0, %t1) : !a, !c {
    chunk.footprint read "x" at affine_map<(m) -> (m, 0)> sizes [1, 4]
    chunk.footprint write "y" at affine_map<(m) -> (m, 0)> sizes [1, 4]
  }
  // CHECK: chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [2, 0, 0], [3, 0, 0], [0, 0, 0], [1, 0, 0]>}
  // CHECK: chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]>}
}
