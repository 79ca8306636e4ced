// RUN: syncopate-opt %s --chunk-decompose-collectives --chunk-check-plan -split-input-file -verify-diagnostics

!buf = !chunk.buffer<8xf32>
// A rank reads its own block, and what has been gathered since. What of a buffer a tile reads may be the same on all ranks, and
// more than it makes use of.
chunk.plan @sound mesh [2] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  %c = chunk.buffer "c" : !buf
  chunk.input %a[0] sizes [8] on 0 : !buf
  chunk.input %a[0] sizes [8] on 1 : !buf
  chunk.input %c[0] sizes [8] on 0 : !buf
  chunk.input %c[0] sizes [8] on 1 : !buf
  chunk.input %b[0] sizes [8] on 0 : !buf
  chunk.input %b[0] sizes [8] on 1 : !buf
  %t0 = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1] : !buf
  %t1 = chunk.all_gather %a axis 0 group [0, 1] after(%t0) : !buf
  %t2 = chunk.reduce_scatter %b reduce sum axis 0 group [0, 1] : !buf
  %t3 = chunk.put %b[4] to %b[0] sizes [4] from 1 to 0 after(%t2) : !buf to !buf
  %t4 = chunk.put %b[0] to %b[4] sizes [4] from 0 to 1 after(%t3) : !buf to !buf
  %t5 = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1] : !buf
  chunk.output %a[0] sizes [8] on 0 : !buf
  chunk.kernel @k tiles [4] ctas 2 args(%c as "c") after(%t1, %t4, %t5) : !buf {
    chunk.footprint read "c" at affine_map<(m) -> (m * 2)> sizes [2]
  }
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @transfer mesh [2] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  chunk.input %a[0] sizes [8] on 0 : !buf
  chunk.input %a[0] sizes [8] on 1 : !buf
  // expected-note @+1 {{the reduce_scatter}}
  %t0 = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1] : !buf
  // expected-error @+1 {{reads what a reduce_scatter leaves undefined at rank 0: blocks of other ranks}}
  %t1 = chunk.put %a[3] to %b[0] sizes [2] from 0 to 1 after(%t0) : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @output mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [8] on 0 : !buf
  chunk.input %a[0] sizes [8] on 1 : !buf
  // expected-note @+1 {{the reduce_scatter}}
  %t0 = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1] : !buf
  chunk.output %a[0] sizes [4] on 0 : !buf
  // expected-error @+1 {{gives back what a reduce_scatter leaves undefined at rank 1: blocks of other ranks}}
  chunk.output %a[0] sizes [8] on 1 : !buf
}

// -----
!buf = !chunk.buffer<8xf32>
// Nobody comes after the sum of a group that is part of the world, and it changes nothing of ranks outside.
chunk.plan @outside mesh [3] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  chunk.input %a[0] sizes [8] on 0 : !buf
  chunk.input %a[0] sizes [8] on 1 : !buf
  chunk.input %a[0] sizes [8] on 2 : !buf
  %t0 = chunk.reduce_scatter %a reduce sum axis 0 group [0, 2] : !buf
  %t1 = chunk.put %a[0] to %b[0] sizes [8] from 1 to 2 after(%t0) : !buf to !buf
}
