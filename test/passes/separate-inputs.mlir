// RUN: syncopate-opt %s --pass-pipeline="builtin.module(chunk.plan(chunk-separate-inputs))" -split-input-file | FileCheck %s

!buf = !chunk.buffer<8x4xf32>

// Tiles read blocks of their own; the other buffer is cut along its columns.
// CHECK-LABEL: chunk.plan @blocks
// CHECK: chunk.kernel @k {{.*}} attributes {separate = ["a"]}
chunk.plan @blocks mesh [2] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.input %a[4, 0] sizes [4, 4] on 1 : !buf
  chunk.input %b[0, 0] sizes [8, 2] on 0 : !buf
  chunk.input %b[0, 2] sizes [8, 2] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 4] from 0 to 1 realize copy_engine : !buf to !buf
  %t1 = chunk.put %a[4, 0] to %a[4, 0] sizes [4, 4] from 1 to 0 realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x") after(%t0, %t1) : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}

// -----
!buf = !chunk.buffer<8x4xf32>

// A tile of three rows reads the input together with other rows; what was said before is taken back.
// CHECK-LABEL: chunk.plan @straddling
// CHECK-NOT: separate
chunk.plan @straddling mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.input %a[4, 0] sizes [4, 4] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 4] from 0 to 1 realize copy_engine : !buf to !buf
  %t1 = chunk.put %a[4, 0] to %a[4, 0] sizes [4, 4] from 1 to 0 realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [3] ctas 2 args(%a as "x") after(%t0, %t1) : !buf attributes {separate = ["a"]} {
    chunk.footprint read "x" at affine_map<(m) -> (m * 3, 0)> sizes [3, 4]
  }
}

// -----
!buf = !chunk.buffer<8x4xf32>

// A rank forwards its input and what it was brought in one transfer.
// CHECK-LABEL: chunk.plan @forwarded
// CHECK-NOT: separate
chunk.plan @forwarded mesh [2] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.input %a[4, 0] sizes [4, 4] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 4] from 0 to 1 realize copy_engine : !buf to !buf
  %t1 = chunk.put %a[0, 0] to %b[0, 0] sizes [8, 4] from 1 to 0 after(%t0) realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [1] ctas 1 args(%b as "x") after(%t1) : !buf {
  }
}
