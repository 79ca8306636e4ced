// RUN: syncopate-opt %s | syncopate-opt | FileCheck %s

!a = !chunk.buffer<64x32xbf16>
// CHECK-LABEL: chunk.plan @all_ranks
// CHECK: chunk.footprint read "a" at #[[AT:.+]] sizes [16, 8]
// CHECK: chunk.steps from #[[FIRST:.+]] to #[[END:.+]] ordered
// CHECK: chunk.schedule @k rank 0 {steps = #chunk.table<step : [0], [1]>, tile_steps = #chunk.table<begin, end : [0, 2]>}
chunk.plan @all_ranks mesh [2] {
  %a = chunk.buffer "a" : !a
  chunk.kernel @k tiles [4] ctas 2 args(%a as "a") : !a {
    chunk.footprint read "a" at affine_map<(m, k) -> (m * 16, k * 8)> sizes [16, 8]
    chunk.steps from affine_map<(m) -> (0, m - 1)> to affine_map<(m) -> (m + 1, 4)> ordered
  }
  chunk.schedule @k rank 0 {steps = #chunk.table<step : [0], [1]>, tile_steps = #chunk.table<begin, end : [0, 2]>}
}

// CHECK-LABEL: chunk.plan @each_rank
// CHECK: chunk.steps on 0 from
// CHECK: chunk.steps on 1 from
chunk.plan @each_rank mesh [2] {
  %a = chunk.buffer "a" : !a
  chunk.kernel @k tiles [4] ctas 2 args(%a as "a") : !a {
    chunk.steps on 0 from affine_map<(m) -> (0)> to affine_map<(m) -> (m + 1)>
    chunk.steps on 1 from affine_map<(m) -> (0)> to affine_map<(m) -> (m + 5)>
  }
}

// CHECK-LABEL: module @ttgir
// CHECK: %[[B:.+]], %[[E:.+]] = chunk.tile_steps %[[C:.+]][%[[T:.+]]] own %[[T]], %[[T]] : !tt.ptr<i64>
// CHECK: %{{.+}}, %{{.+}}, %{{.+}} = chunk.read_step %[[C]][%[[B]]] : !tt.ptr<i64>
module @ttgir {
  "tt.func"() ({
  ^bb0(%context: !tt.ptr<i64>, %t: i32):
    %begin, %end = chunk.tile_steps %context[%t] own %t, %t : !tt.ptr<i64>
    %step, %first, %last = chunk.read_step %context[%begin] : !tt.ptr<i64>
  }) : () -> ()
}
