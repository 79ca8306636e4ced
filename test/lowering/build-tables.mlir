// RUN: syncopate-opt %s --syncopate-plan-pipeline="algorithm=direct direction=push realization=ldst_colocated" | FileCheck %s --check-prefix=PUSH
// RUN: syncopate-opt %s --syncopate-plan-pipeline="algorithm=direct direction=push realization=copy_engine" | FileCheck %s --check-prefix=ENGINE
// RUN: syncopate-opt %s --syncopate-plan-pipeline="algorithm=direct direction=pull realization=ldst_colocated" | FileCheck %s --check-prefix=PULL
// RUN: syncopate-opt %s --syncopate-plan-pipeline="algorithm=ring direction=push realization=copy_engine" | FileCheck %s --check-prefix=RING
// RUN: syncopate-opt %s --syncopate-plan-pipeline="algorithm=ring direction=pull realization=ldst_colocated" | FileCheck %s --check-prefix=RINGPULL
// RUN: not syncopate-opt %s --chunk-build-tables 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not syncopate-opt %s --syncopate-plan-pipeline=pause=2000000 2>&1 | FileCheck %s --check-prefix=LONG
// LONG: expects pause to be in [0, 1000000], but got 2000000
// EARLY: has no realization; run chunk-assign-realization first

// Flags: six transfers 0-5, their twins 6-11, ready 12-14, twins 15-17, done 18-20, twins 21-23, engine_done 24.
chunk.plan @gather mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<6x4xf32>
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !chunk.buffer<6x4xf32>
  chunk.input %a[2, 0] sizes [2, 4] on 1 : !chunk.buffer<6x4xf32>
  chunk.input %a[4, 0] sizes [2, 4] on 2 : !chunk.buffer<6x4xf32>
  %t = chunk.all_gather %a axis 0 group [0, 1, 2] : !chunk.buffer<6x4xf32>
  chunk.kernel @k tiles [3] ctas 3 args(%a as "x") after(%t) : !chunk.buffer<6x4xf32> {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}

// A put waits until its destination has ended the call before (count 0), and raises the destination's flag. A call
// ends when all that others send has come.
// PUSH: rank 1
// PUSH-SAME: calls = #chunk.table<open_begin, open_end, guard_begin, guard_end, close_wait_begin, close_wait_end, close_signal_begin, close_signal_end, before_tiles, needs_buffer, needs_index : [2, 2, 4, 4, 4, 6, 2, 4, 0, -1, 0]>
// PUSH-SAME: commands = #chunk.table<transfer, src_rank, src_buffer, src_offset, dst_rank, dst_buffer, dst_offset, rows, row_bytes, src_stride, dst_stride, wait_begin, wait_end, signal_begin, signal_end, realization, reduction, pause, parts, part_stride, behind, count_buffer, count_index, count_past, exchange : [1, 1, 0, 32, 2, 0, 32, 1, 32, 32, 32, 2, 3, 0, 1, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1], [4, 1, 0, 32, 0, 0, 32, 1, 32, 32, 32, 3, 4, 1, 2, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1]>
// PUSH-SAME: signals = #chunk.table<rank, signal, kind : [2, 1, 0], [0, 4, 0], [0, 19, 0], [2, 19, 0]>
// PUSH-SAME: waits = #chunk.table<signal, count : [0, 1], [5, 1], [20, 0], [18, 0], [0, 1], [5, 1]>

// The engine waits for twins, and the call waits for the engine.
// ENGINE: rank 1
// ENGINE-SAME: calls = {{.*}} : [2, 2, 4, 4, 4, 7, 2, 4, 0, -1, 0]>
// ENGINE-SAME: signals = #chunk.table<rank, signal, kind : [2, 1, 0], [0, 4, 0], [0, 22, 1], [2, 22, 1]>
// ENGINE-SAME: waits = #chunk.table<signal, count : [0, 1], [5, 1], [23, 1], [21, 1], [24, 1], [0, 1], [5, 1]>

// A get waits until its source is in place. The source's rank first stages its input, when those that got the one
// before are through, and tells them.
// PULL: rank 1
// PULL-SAME: calls = {{.*}} : [4, 4, 6, 8, 8, 8, 4, 6, 0, -1, 0]>
// PULL-SAME: commands = {{.*}} : [-1, 1, 0, 32, 1, 0, 32, 1, 32, 32, 32, 2, 4, 0, 2, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1], [1, 2, 0, 64, 1, 0, 64, 1, 32, 32, 32, 4, 5, 2, 3, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1], [4, 0, 0, 0, 1, 0, 0, 1, 32, 32, 32, 5, 6, 3, 4, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1]>
// PULL-SAME: signals = #chunk.table<rank, signal, kind : [0, 13, 0], [2, 13, 0], [1, 1, 0], [1, 4, 0], [0, 19, 0], [2, 19, 0]>
// PULL-SAME: waits = #chunk.table<signal, count : [1, 1], [4, 1], [18, 0], [20, 0], [14, 1], [12, 1], [18, 0], [20, 0]>

// A stream passes on what another rank has put: it waits for the twin of that transfer's flag.
// RING: rank 1
// RING-SAME: commands = {{.*}} : [1, 1, 0, 32, 2, 0, 32, 1, 32, 32, 32, 2, 3, 0, 2, 0, 0, 0, 1, 0, 0, -1, 0, 0, -1], [4, 1, 0, 0, 2, 0, 0, 1, 32, 32, 32, 3, 4, 2, 3, 0, 0, 0, 1, 0, 0, -1, 0, 0, -1]>
// RING-SAME: signals = #chunk.table<rank, signal, kind : [2, 1, 0], [2, 7, 1], [2, 4, 0], [0, 22, 1]>
// RING-SAME: waits = #chunk.table<signal, count : [0, 1], [3, 1], [23, 1], [6, 1], [24, 1], [3, 1]>

// What a rank gets is got from it in turn, so it waits for that reader before it overwrites the place.
// RINGPULL: rank 1
// RINGPULL-SAME: commands = {{.*}} : [-1, 1, 0, 32, 1, 0, 32, 1, 32, 32, 32, 2, 3, 0, 1, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1], [0, 0, 0, 0, 1, 0, 0, 1, 32, 32, 32, 3, 5, 1, 3, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1], [3, 0, 0, 64, 1, 0, 64, 1, 32, 32, 32, 5, 6, 3, 4, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1]>
// RINGPULL-SAME: signals = #chunk.table<rank, signal, kind : [2, 13, 0], [1, 0, 0], [2, 0, 0], [1, 3, 0], [0, 19, 0]>
// RINGPULL-SAME: waits = #chunk.table<signal, count : [0, 1], [3, 1], [20, 0], [20, 0], [12, 1], [2, 1], [20, 0]>

// Regions that are no single run of bytes: rows with a stride, and one command per slice beyond that, of which the
// first waits and the last signals.
// PUSH-LABEL: chunk.plan @strided
// PUSH: rank 0
// PUSH-SAME: commands = {{.*}} : [0, 0, 0, 4, 1, 0, 8, 2, 8, 16, 16, 0, 1, 0, 0, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1], [0, 0, 0, 68, 1, 0, 72, 2, 8, 16, 16, 0, 0, 0, 1, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1]>
chunk.plan @strided mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<2x4x4xf32>
  chunk.input %a[0, 0, 0] sizes [2, 4, 3] on 0 : !chunk.buffer<2x4x4xf32>
  %t = chunk.put %a[0, 0, 1] to %a[0, 0, 2] sizes [2, 2, 2] from 0 to 1 : !chunk.buffer<2x4x4xf32> to !chunk.buffer<2x4x4xf32>
  chunk.kernel @k tiles [1] ctas 3 args() after(%t) {}
}

// A stream that comes after a put it does not read takes down the put's twin; until then its rank's call has not ended,
// and the put waits for that too.
// PUSH-LABEL: chunk.plan @order_only
// PUSH: rank 0
// PUSH-SAME: waits = #chunk.table<signal, count : [11, 0], [12, 0]>
chunk.plan @order_only mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  chunk.input %a[0] sizes [1] on 0 : !chunk.buffer<4xf32>
  chunk.input %a[1] sizes [1] on 2 : !chunk.buffer<4xf32>
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  %t1 = chunk.put %a[1] to %a[1] sizes [1] from 2 to 1 after(%t0) realize copy_engine : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  chunk.kernel @k tiles [1] ctas 3 args() after(%t1) {}
}
