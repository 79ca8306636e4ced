// RUN: syncopate-opt %s --chunk-build-tables -verify-diagnostics

// Tables that other tools have written may lack what a tile reads: an error, and no tables.

#map = affine_map<(d0) -> (d0 * 4, 0)>
module {
  chunk.plan @needed mesh [2] signals <data_twin, ready, ready_twin, done, done_twin, engine_done, group, group_twin, total : [4, 8, 10, 12, 14, 16, 17, 19, 21]> {
    %0 = chunk.buffer "p" : <4x8xf32>
    %1 = chunk.buffer "q" : <8x8xf32>
    %2 = chunk.buffer "x" : <8x8xf32>
    %3 = chunk.produce %0[0, 0] sizes [4, 8] on 0 : <4x8xf32>
    %4 = chunk.produce %0[0, 0] sizes [4, 8] on 1 : <4x8xf32>
    %5 = chunk.put %2[4, 0] to %2[4, 0] sizes [4, 7] from 1 to 0 realize ldst_colocated signal 0 : <8x8xf32> to <8x8xf32>
    %6 = chunk.put %0[0, 0] to %1[0, 0] sizes [2, 8] from 0 to 1 realize ldst_colocated signal 1 : <4x8xf32> to <8x8xf32>
    %7 = chunk.put %0[0, 0] to %2[0, 0] sizes [4, 8] from 0 to 1 realize ldst_colocated signal 2 : <4x8xf32> to <8x8xf32>
    %8 = chunk.put %0[0, 0] to %1[0, 0] sizes [2, 8] from 1 to 0 realize ldst_colocated tile 0 signal 3 : <4x8xf32> to <8x8xf32>
    // expected-error @+1 {{tile [0] of rank 0 would wait for ever: it reads "a"}}
    chunk.kernel @k tiles [2] ctas 2 args(%0 as "c", %2 as "a") : !chunk.buffer<4x8xf32>, !chunk.buffer<8x8xf32> {
      // expected-note @+1 {{the tile reads by this footprint}}
      chunk.footprint read "a" at #map sizes [4, 8]
    }
    chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2, wait_begin, wait_end : [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]>, waits = #chunk.table<signal, count : [2, 1]>}
  }
}

