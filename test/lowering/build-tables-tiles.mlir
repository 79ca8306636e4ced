// Tables of a plan whose tiles hand over what they compute.
// RUN: syncopate-opt %s --syncopate-plan-pipeline | FileCheck %s
// RUN: syncopate-opt %s --syncopate-plan-pipeline | syncopate-opt --syncopate-check-pipeline -o /dev/null
// RUN: syncopate-opt %s --syncopate-plan-pipeline | syncopate-opt --chunk-order-tiles --chunk-use-tile-ring --chunk-place-waits --chunk-build-tables | FileCheck %s

!p = !chunk.buffer<8x4xf32>
!q = !chunk.buffer<4x4xf32>

// Transfer 2 comes after another one, so it stays in the queue, whose commands stand first. Each CTA waits once for the
// end of the call before: CTA 0, of tiles 0 and 2, at transfer 0, CTA 1 at transfer 1, and the queue. A tile of rank 1
// waits for transfer 0, so this has a flag of its own; the flag of transfer 3 counts transfers 1 and 3.
// CHECK: chunk.put %{{.+}} realize ldst_colocated tile 0 signal 0 :
// CHECK: chunk.put %{{.+}} realize ldst_colocated tile 1 signal 1 :
// CHECK: chunk.put %{{.+}} realize ldst_colocated signal 2 :
// CHECK: chunk.put %{{.+}} realize ldst_colocated tile 2 signal 3 :
// CHECK: chunk.schedule @k rank 0
// CHECK-SAME: close_signal_end, before_tiles, needs_buffer, needs_index : [{{[^]]+}}, 0, -1, 0]>
// CHECK-SAME: commands = {{[^:]+}} : [2, {{[^]]+}}, 0, 3, 0, 1, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1], [0, {{[^]]+}}, 3, 4, 1, 3, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1], [1, {{[^]]+}}, 4, 5, 3, 4, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1], [3, {{[^]]+}}, 5, 5, 4, 5, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1]>
// CHECK-SAME: signals = #chunk.table<rank, signal, kind : [1, 2, 0], [0, 0, 0], [1, 0, 0], [1, 3, 2], [1, 3, 2], [0, 17, 0]
// CHECK-SAME: tile_groups = {{[^:]+}} : [-1, 0, 0, 0, 1, 2], [-1, 0, 0, 0, 2, 3], [0, 0, 0, 0, 3, 4], [-1, 0, 0, 0, 0, 0]>
// CHECK-SAME: waits = #chunk.table<signal, count : [13, 0], [0, 1], [17, 1], [13, 0], [13, 0]>
// CHECK: chunk.schedule @k rank 1
// CHECK-SAME: waits = #chunk.table<signal, count : [0, 1], [2, 1], [3, 2]>
chunk.plan @send mesh [2] {
  %p = chunk.buffer "p" : !p
  %q = chunk.buffer "q" : !p
  %x = chunk.buffer "x" : !q
  %made = chunk.produce %p[0, 0] sizes [8, 4] on 0 : !p
  chunk.input %x[0, 0] sizes [4, 4] on 0 : !q
  %t0 = chunk.put %p[0, 0] to %x[0, 0] sizes [2, 4] from 0 to 1 after(%made) : !p to !q
  %t1 = chunk.put %p[2, 0] to %q[0, 0] sizes [2, 4] from 0 to 1 after(%made) : !p to !p
  %t2 = chunk.put %p[4, 0] to %q[2, 0] sizes [2, 4] from 0 to 1 after(%made, %t0) : !p to !p
  %t3 = chunk.put %p[4, 0] to %q[4, 0] sizes [2, 4] from 0 to 1 after(%made) : !p to !p
  chunk.kernel @k tiles [4] ctas 2 args(%p as "c", %x as "a") after(%t0) : !p, !q {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
    chunk.footprint read "a" at affine_map<(m) -> (0, 0)> sizes [2, 4]
  }
}
