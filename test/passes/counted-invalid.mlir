// RUN: syncopate-opt %s --split-input-file --verify-diagnostics --syncopate-plan-pipeline

!n = !chunk.buffer<2xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @no_input mesh [2] {
  // expected-note @+1 {{the buffer}}
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  chunk.input %b[0, 0] sizes [4, 4] on 0 : !b
  chunk.input %n[0] sizes [2] on 1 : !n
  // Rank 0 carries it out, and has no such number.
  // expected-error @+1 {{expects its number of rows to be an input of rank 0, but element 1 is none}}
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[1, 0] : !n : !b to !b
  chunk.kernel @k tiles [1] ctas 1 args() {}
}

// -----

!n = !chunk.buffer<2xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @engine mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  chunk.input %b[0, 0] sizes [4, 4] on 0 : !b
  chunk.input %n[0] sizes [2] on 0 : !n
  // expected-error @+1 {{expects a realization on the device, since its number of rows is read there, but got copy_engine, which the host issues}}
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[1, 0] : !n realize copy_engine : !b to !b
  chunk.kernel @k tiles [1] ctas 1 args() {}
}

// -----

!n = !chunk.buffer<2xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @claim mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  chunk.input %b[0, 0] sizes [4, 4] on 0 : !b
  chunk.input %b[4, 0] sizes [4, 4] on 1 : !b
  chunk.input %n[0] sizes [2] on 0 : !n
  // expected-note @+1 {{the transfer that brings it}}
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[1, 0] : !n : !b to !b
  %u = chunk.put %b[4, 0] to %b[4, 0] sizes [4, 4] from 1 to 0 : !b to !b
  // expected-error @+1 {{expects rank 1 to hold block 0 of rank 0, but at offsets [0, 0] sizes [4, 4] it holds what rank 0 had in "b" at offsets [0, 0], in as many rows as are counted at run time}}
  chunk.claim after(%t, %u) {
    %v = chunk.all_gather %b axis 0 group [0, 1] : !b
  }
  chunk.kernel @k tiles [1] ctas 1 args() {}
}

// -----

!n = !chunk.buffer<2xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @unlike mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  chunk.input %b[0, 0] sizes [8, 4] on 0 : !b
  chunk.input %n[0] sizes [2] on 0 : !n
  chunk.input %n[0] sizes [2] on 1 : !n
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[0, 0] : !n : !b to !b
  %u = chunk.put %b[4, 0] to %b[4, 0] sizes [4, 4] from 0 to 1 rows %n[0, 4] : !n : !b to !b
  // expected-error @+1 {{expects all tiles to read alike if what they need is read at run time, but tiles [1] and [0] of rank 1 read what different transfers bring}}
  chunk.kernel @k tiles [2] ctas 1 args(%b as "b") needs(%n[0] : !n) after(%t, %u) : !b {
    chunk.footprint read "b" at affine_map<(m) -> (m * 4, 0)> sizes [4, 4]
  }
}

// -----

!n = !chunk.buffer<2xi32>
chunk.plan @needs_no_input mesh [2] {
  // expected-note @+1 {{the buffer}}
  %n = chunk.buffer "n" : !n
  chunk.input %n[0] sizes [2] on 0 : !n
  // expected-error @+1 {{expects what its tiles need to be an input of rank 1, but element 0 is none}}
  chunk.kernel @k tiles [2] ctas 1 args() needs(%n[0] : !n) {}
}

// -----

!n = !chunk.buffer<2xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @splits mesh [2] strategy <splits = 2> {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  chunk.input %b[0, 0] sizes [8, 4] on 0 : !b
  chunk.input %n[0] sizes [2] on 0 : !n
  chunk.input %n[0] sizes [2] on 1 : !n
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[0, 0] : !n : !b to !b
  // expected-error @+1 {{expects splits to be 1, but got 2: what its tiles need is a number of transfers as the plan has them; split them there}}
  chunk.kernel @k tiles [2] ctas 1 args() needs(%n[0] : !n) after(%t) {}
}
