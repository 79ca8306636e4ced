// RUN: syncopate-opt %s --chunk-order-tiles="order=given" -split-input-file -verify-diagnostics | FileCheck %s

!buf = !chunk.buffer<4x4xf32>
// CHECK-LABEL: chunk.plan @given
chunk.plan @given mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 1 : !buf
  chunk.kernel @k tiles [3] ctas 2 args(%a as "x") : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m, 0)> sizes [1, 4]
  }
  // What other passes have written down for another order goes.
  // CHECK: chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [2, 0, 0], [0, 0, 0], [1, 0, 0]>}
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [2, 0, 0], [0, 0, 0], [1, 0, 0]>}
  // CHECK: chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0]>}
  chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0]>}
}

// -----
!buf = !chunk.buffer<4x4xf32>
chunk.plan @one_is_missing mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 1 : !buf
  // expected-error @+1 {{has no chunk.schedule with tiles for rank 1, though the order of tiles is to be given}}
  chunk.kernel @k tiles [2] ctas 2 args(%a as "x") : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m, 0)> sizes [1, 4]
  }
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [1, 0, 0], [0, 0, 0]>}
}

// -----
!buf = !chunk.buffer<4x4xf32>
chunk.plan @twice mesh [1] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.kernel @k tiles [2] ctas 2 args(%a as "x") : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m, 0)> sizes [1, 4]
  }
  // expected-error @+1 {{orders tile [1, 0, 0] twice, again in row 1}}
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [1, 0, 0], [1, 0, 0]>}
}
