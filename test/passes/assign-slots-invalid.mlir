// RUN: syncopate-opt %s --pass-pipeline='builtin.module(chunk.plan(chunk-decompose-collectives{realization=nccl},chunk-assign-realization,chunk-order-tiles,chunk-assign-slots))' -split-input-file -verify-diagnostics

!c = !chunk.buffer<6x8xf32>
chunk.plan @no_multiple mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  // expected-error @+1 {{expects tiles to write rectangles of one size, [4, 8], at multiples of it, for library calls, but tile [1] writes offsets [2, 0] sizes [4, 8]}}
  chunk.kernel @k tiles [2] ctas 2 args(%c as "c") after(%t) : !c {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [4, 8]
  }
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @some_ranks mesh [3] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 4] on 1 : !c
  // expected-error @+1 {{expects a group of all 3 ranks in order, to be library calls, but got [0, 1]}}
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @columns mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 4] on 1 : !c
  // expected-error @+1 {{expects axis 0, to be library calls, but got 1}}
  %t = chunk.reduce_scatter %c reduce sum axis 1 group [0, 1] after(%m0, %m1) : !c
}

// -----
!c = !chunk.buffer<4x4x4xf32>
chunk.plan @three_dimensions mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0, 0] sizes [4, 4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0, 0] sizes [4, 4, 4] on 1 : !c
  // expected-error @+1 {{expects a buffer of rows and columns, to be library calls, but got '!chunk.buffer<4x4x4xf32>'}}
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @half_produced mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [2, 4] on 1 : !c
  // expected-error @+1 {{expects tiles of rank 1 to compute all of its buffer, to be library calls, but at offsets [2, 0] sizes [2, 4] it does not come after a chunk.produce of it}}
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @touched mesh [2] {
  %c = chunk.buffer "c" : !c
  %d = chunk.buffer "d" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 4] on 1 : !c
  // expected-error @+1 {{expects no transfer to touch its buffers, to be library calls}}
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  // expected-note @+1 {{the transfer}}
  %p = chunk.put %c[0, 0] to %d[0, 0] sizes [4, 4] from 0 to 1 after(%m0) : !c to !c
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @not_last mesh [2] {
  %c = chunk.buffer "c" : !c
  %d = chunk.buffer "d" : !c
  chunk.input %d[0, 0] sizes [4, 4] on 0 : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 4] on 1 : !c
  // expected-error @+1 {{expects nothing to come after it, to be library calls}}
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  %j = chunk.join %t
  // expected-note @+1 {{this comes after it}}
  %p = chunk.put %d[0, 0] to %d[0, 0] sizes [4, 4] from 0 to 1 after(%j) : !c to !c
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @other_output mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 4] on 1 : !c
  // expected-error @+1 {{expects to give back what library calls bring to rank 0, offsets [0, 0] sizes [2, 4] of their buffer}}
  chunk.output %c[0, 0] sizes [4, 4] on 0 : !c
  // expected-note @+1 {{the calls}}
  %t = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
}

// -----
!c = !chunk.buffer<3x4xf32>
!r = !chunk.buffer<4x4xf32>
chunk.plan @odd_exchange mesh [2] {
  %c = chunk.buffer "c" : !c
  %r = chunk.buffer "r" : !r
  %m0 = chunk.produce %c[0, 0] sizes [3, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [3, 4] on 1 : !c
  // expected-error @+1 {{expects blocks of one size, to be library calls, but got 3 rows for 2 ranks}}
  %t = chunk.all_to_all %c to %r axis 0 group [0, 1] after(%m0, %m1) : !c to !r
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @two_calls mesh [2] {
  %c = chunk.buffer "c" : !c
  %d = chunk.buffer "d" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 4] on 1 : !c
  %n0 = chunk.produce %d[0, 0] sizes [4, 4] on 0 : !c
  %n1 = chunk.produce %d[0, 0] sizes [4, 4] on 1 : !c
  // expected-note @+1 {{the other one}}
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) : !c
  // expected-error @+1 {{expects to be the only collective of its plan that is library calls}}
  %u = chunk.all_reduce %d reduce sum axis 0 group [0, 1] after(%n0, %n1) : !c
}

// -----
!c = !chunk.buffer<4x4xf32>
chunk.plan @other_realization mesh [2] {
  %c = chunk.buffer "c" : !c
  // expected-error @+1 {{expects a collective's realization to be nccl, but got copy_engine, which transfers may have}}
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] realize copy_engine : !c
}
