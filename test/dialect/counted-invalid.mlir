// RUN: syncopate-opt %s --split-input-file --verify-diagnostics

!b = !chunk.buffer<8x4xf32>
chunk.plan @transfer_c10 mesh [2] {
  %b = chunk.buffer "b" : !b
  // expected-error @+1 {{expects the number of rows to be read from a buffer of i32 of one known dimension, but got '!chunk.buffer<8x4xf32>'}}
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %b[1, 0] : !b : !b to !b
}

// -----

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @transfer_c10 mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  // expected-error @+1 {{expects the number of rows to be an element of '!chunk.buffer<6xi32>', but got index 6}}
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[6, 0] : !n : !b to !b
}

// -----

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @transfer_c10 mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  // expected-error @+1 {{expects the rows before the chunk to be in [0, 2^31), but got -1}}
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[0, -1] : !n : !b to !b
}

// -----

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @transfer_c10 mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  // expected-error @+1 {{expects a number of rows to be read as %buffer[index, past]}}
  %t = chunk.put %b[0, 0] to %b[0, 0] sizes [4, 4] from 0 to 1 rows %n[0] : !n : !b to !b
}

// -----

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4x2xf32>
chunk.plan @transfer_c11 mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  // A part of each row of two dimensions is not contiguous.
  // expected-error @+1 {{expects fewer than 2^31 contiguous rows, the number of which is read, but got sizes [4, 4, 1]}}
  %t = chunk.put %b[0, 0, 0] to %b[0, 0, 0] sizes [4, 4, 1] from 0 to 1 rows %n[0, 0] : !n : !b to !b
}

// -----

!n = !chunk.buffer<6xi32>
chunk.plan @kernel_c6 mesh [2] {
  %n = chunk.buffer "n" : !n
  // expected-error @+1 {{expects 4 entries of what tiles need behind index 3, one for each first coordinate, but '!chunk.buffer<6xi32>' has 3}}
  chunk.kernel @k tiles [4, 2] ctas 2 args() needs(%n[3] : !n) {}
}

// -----

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @kernel_c7 mesh [2] {
  %n = chunk.buffer "n" : !n
  %b = chunk.buffer "b" : !b
  // expected-note @+1 {{the chunk}}
  %m = chunk.produce %b[0, 0] sizes [4, 4] on 0 : !b
  // expected-error @+1 {{expects to compute no chunk for others if what tiles need is read at run time}}
  chunk.kernel @k tiles [4, 2] ctas 2 args() needs(%n[0] : !n) {}
}
