// RUN: syncopate-opt %s -split-input-file -verify-diagnostics --chunk-check-plan \
// RUN:   --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0

// Without MLIR's verifier, which would say that an operand does not dominate its use.

!buf = !chunk.buffer<8xf32>
chunk.plan @later_transfer mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[4] sizes [4] on 1 : !buf
  // expected-error @+1 {{'chunk.put' op expects what it uses to stand before it in the plan}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 after(%t1) : !buf to !buf
  // expected-note @+1 {{it uses this}}
  %t1 = chunk.put %a[4] to %a[4] sizes [4] from 1 to 0 : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @itself mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  // expected-error @+2 {{expects what it uses to stand before it in the plan}}
  // expected-note @+1 {{it uses this}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 after(%t0) : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @later_join mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  // expected-error @+1 {{'chunk.kernel' op expects what it uses to stand before it in the plan}}
  chunk.kernel @k tiles [1] ctas 1 args(%a as "a") after(%j) : !buf {
    chunk.footprint read "a" at affine_map<(m) -> (m)> sizes [4]
  }
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 : !buf to !buf
  // expected-note @+1 {{it uses this}}
  %j = chunk.join %t0
}
