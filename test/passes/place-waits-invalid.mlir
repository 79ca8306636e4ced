// RUN: syncopate-opt %s --chunk-place-waits -split-input-file -verify-diagnostics

!buf = !chunk.buffer<8xf32>
chunk.plan @no_realization mesh [2] {
  %a = chunk.buffer "a" : !buf
  // expected-error @+1 {{has no realization; run chunk-assign-realization first}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 signal 0 : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
// expected-error @+1 {{has no signals; run chunk-allocate-signals first}}
chunk.plan @no_signals mesh [2] {
  %a = chunk.buffer "a" : !buf
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 realize copy_engine signal 0 : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @no_signal mesh [2] signals <data_twin, total : [0, 1]> {
  %a = chunk.buffer "a" : !buf
  // expected-error @+1 {{expects signal 0, its number in the plan, but got none; run chunk-allocate-signals after the passes that change transfers}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 realize copy_engine : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @other_signal mesh [2] signals <data_twin, total : [0, 1]> {
  %a = chunk.buffer "a" : !buf
  // expected-error @+1 {{expects signal 0, its number in the plan, but got 1}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 realize copy_engine signal 1 : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
// expected-error @+1 {{expects signals to be laid out for its 1 transfers; run chunk-allocate-signals again}}
chunk.plan @other_layout mesh [2] signals <data_twin, total : [0, 1]> {
  %a = chunk.buffer "a" : !buf
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 realize copy_engine signal 0 : !buf to !buf
}

// -----
chunk.plan @not_ordered mesh [1] signals <data_twin, ready, ready_twin, done, done_twin, engine_done, group, group_twin, total : [0, 0, 1, 2, 3, 4, 5, 5, 5]> {
  chunk.kernel @k tiles [2, 2] ctas 2 args() {}
  // expected-error @+1 {{has no ordered tiles; run chunk-order-tiles first}}
  chunk.schedule @k rank 0
}

// -----
chunk.plan @outside mesh [1] signals <data_twin, ready, ready_twin, done, done_twin, engine_done, group, group_twin, total : [0, 0, 1, 2, 3, 4, 5, 5, 5]> {
  chunk.kernel @k tiles [2, 2] ctas 2 args() {}
  // The number of the tile would lie in the grid, its column does not.
  // expected-error @+1 {{orders tile [0, 2, 0] in row 1, outside the grid}}
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [0, 2, 0], [1, 0, 0], [1, 1, 0]>}
}

// -----
chunk.plan @twice mesh [1] signals <data_twin, ready, ready_twin, done, done_twin, engine_done, group, group_twin, total : [0, 0, 1, 2, 3, 4, 5, 5, 5]> {
  chunk.kernel @k tiles [2, 2] ctas 2 args() {}
  // expected-error @+1 {{orders tile [1, 0, 0] twice, again in row 3}}
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0]>}
}

// -----
chunk.plan @too_few mesh [1] signals <data_twin, ready, ready_twin, done, done_twin, engine_done, group, group_twin, total : [0, 0, 1, 2, 3, 4, 5, 5, 5]> {
  chunk.kernel @k tiles [2, 2] ctas 2 args() {}
  // expected-error @+1 {{expects to order 4 tiles, as many as the grid of its kernel has, but got 1}}
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0]>}
}
