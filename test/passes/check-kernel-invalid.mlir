// RUN: syncopate-opt %s --chunk-check-kernel -split-input-file -verify-diagnostics

!buf = !chunk.buffer<8xf32>
// Reads what came by way of another rank, and writes what nobody else touches.
chunk.plan @sound mesh [2] {
  %a = chunk.buffer "a" : !buf
  %c = chunk.buffer "c" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  %t0 = chunk.put %a[2] to %a[2] sizes [2] from 0 to 1 : !buf to !buf
  %t1 = chunk.put %a[0] to %c[0] sizes [2] from 1 to 1 after(%t0) : !buf to !buf
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a", %c as "c") after(%t1) : !buf, !buf {
    chunk.footprint read "a" at affine_map<(m) -> (m * 2)> sizes [2]
    chunk.footprint write "c" at affine_map<(m) -> (m * 2 + 4)> sizes [2]
  }
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @overwritten mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [8] on 0 : !buf
  %t0 = chunk.put %a[0] to %a[0] sizes [8] from 0 to 1 : !buf to !buf
  // expected-note @+1 {{the transfer}}
  %t1 = chunk.put %a[4] to %a[4] sizes [4] from 0 to 1 after(%t0) : !buf to !buf
  // expected-error @+1 {{tile [2] of rank 1 reads of "a" what a transfer may be writing: the kernel does not come after it}}
  chunk.kernel @k tiles [4] ctas 2 args(%a as "a") after(%t0) : !buf {
    // expected-note @+1 {{the tile reads by this footprint}}
    chunk.footprint read "a" at affine_map<(m) -> (m * 2)> sizes [2]
  }
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @not_there mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [8] on 0 : !buf
  // expected-error @+1 {{tile [0] of rank 1 would wait for ever: it reads "a" at offsets [0] sizes [2], which is no input of the rank and which no transfer that the kernel comes after brings}}
  chunk.kernel @k tiles [4] ctas 2 args(%a as "a") : !buf {
    // expected-note @+1 {{the tile reads by this footprint}}
    chunk.footprint read "a" at affine_map<(m) -> (m * 2)> sizes [2]
  }
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @writes_input mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[5] sizes [1] on 1 : !buf
  // expected-error @+1 {{tile [2] of rank 1 writes of "a" what is an input, which no chunk.produce of the plan says that tiles compute}}
  chunk.kernel @k tiles [4] ctas 2 args(%a as "a") : !buf {
    // expected-note @+1 {{the tile writes by this footprint}}
    chunk.footprint write "a" at affine_map<(m) -> (m * 2)> sizes [2]
  }
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @writes_what_is_read mesh [2] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  // expected-note @+1 {{the transfer}}
  %t0 = chunk.put %a[6] to %b[0] sizes [2] from 0 to 1 : !buf to !buf
  // expected-error @+1 {{tile [3] of rank 0 writes of "a" what a transfer reads, which no chunk.produce of the plan says that tiles compute}}
  chunk.kernel @k tiles [4] ctas 2 args(%a as "a") after(%t0) : !buf {
    chunk.footprint write "a" at affine_map<(m) -> (m * 2)> sizes [2]
  }
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @writes_what_is_written mesh [2] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  // expected-note @+1 {{the transfer}}
  %t0 = chunk.put %b[6] to %a[0] sizes [2] from 0 to 1 : !buf to !buf
  // expected-error @+1 {{tile [0] of rank 1 writes of "a" what a transfer writes, which no chunk.produce of the plan says that tiles compute}}
  chunk.kernel @k tiles [4] ctas 2 args(%a as "a") after(%t0) : !buf {
    chunk.footprint write "a" at affine_map<(m) -> (m * 2)> sizes [2]
  }
}

// -----
!buf = !chunk.buffer<32xf32>
// Tiles that begin in front of the buffer and at its beginning read regions of the same offset, not of the same size.
chunk.plan @clamped mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [8] on 0 : !buf
  chunk.input %a[0] sizes [32] on 1 : !buf
  // expected-error @+1 {{tile [1] of rank 0 would wait for ever: it reads "a" at offsets [8] sizes [8]}}
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !buf {
    // expected-note @+1 {{the tile reads by this footprint}}
    chunk.footprint read "a" at affine_map<(m) -> (m * 8 - 8)> sizes [16]
  }
}
