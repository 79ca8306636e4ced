// RUN: syncopate-opt %s | syncopate-opt | FileCheck %s
// RUN: syncopate-opt %s --mlir-print-op-generic | syncopate-opt | FileCheck %s

// CHECK-LABEL: chunk.plan @everything mesh [2, 2]
// CHECK-SAME: strategy <algorithm = ring, direction = pull, splits = 3, realization = copy_engine, order = grouped, group_m = 4, comm_ctas = 3>
chunk.plan @everything mesh [2, 2] strategy <algorithm = ring, direction = pull, splits = 3, realization = copy_engine, order = grouped, group_m = 4, comm_ctas = 3> {
  // CHECK: %[[A:.+]] = chunk.buffer "a" : <8x?xbf16>
  %a = chunk.buffer "a" : !chunk.buffer<8x?xbf16>
  // CHECK: %[[B:.+]] = chunk.buffer "b" : <8x4xf8E4M3FN>
  %b = chunk.buffer "b" : !chunk.buffer<8x4xf8E4M3FN>
  // CHECK: chunk.input %[[A]][0, 0] sizes [2, 64] on 3 : <8x?xbf16>
  chunk.input %a[0, 0] sizes [2, 64] on 3 : !chunk.buffer<8x?xbf16>
  // CHECK: %[[T0:.+]] = chunk.put %[[A]][0, 0] to %[[A]][2, 0] sizes [2, 64] from 3 to 0 : <8x?xbf16> to <8x?xbf16>
  %t0 = chunk.put %a[0, 0] to %a[2, 0] sizes [2, 64] from 3 to 0 : !chunk.buffer<8x?xbf16> to !chunk.buffer<8x?xbf16>
  // CHECK: %[[T1:.+]] = chunk.get %[[A]][2, 0] to %[[A]][4, 0] sizes [2, 64] from 0 to 1 after(%[[T0]]) realize ldst_colocated signal 5 :
  %t1 = chunk.get %a[2, 0] to %a[4, 0] sizes [2, 64] from 0 to 1 after(%t0) realize ldst_colocated signal 5 : !chunk.buffer<8x?xbf16> to !chunk.buffer<8x?xbf16>
  // CHECK: %[[T2:.+]] = chunk.join %[[T0]], %[[T1]]
  %t2 = chunk.join %t0, %t1
  // CHECK: %[[T3:.+]] = chunk.all_gather %[[B]] axis 1 group [3, 1] after(%[[T2]]) by direct pull : <8x4xf8E4M3FN>
  %t3 = chunk.all_gather %b axis 1 group [3, 1] after(%t2) by direct pull : !chunk.buffer<8x4xf8E4M3FN>
  // CHECK: chunk.put %[[B]][0, 0] to %[[B]][0, 0] sizes [2, 2] from 0 to 1 reduce min after(%[[T0]]) realize copy_engine :
  %t5 = chunk.put %b[0, 0] to %b[0, 0] sizes [2, 2] from 0 to 1 reduce min after(%t0) realize copy_engine : !chunk.buffer<8x4xf8E4M3FN> to !chunk.buffer<8x4xf8E4M3FN>
  // CHECK: chunk.reduce_scatter %[[B]] reduce sum axis 1 group [0, 2] after(%[[T0]]) by ring push : <8x4xf8E4M3FN>
  %t6 = chunk.reduce_scatter %b reduce sum axis 1 group [0, 2] after(%t0) by ring push : !chunk.buffer<8x4xf8E4M3FN>
  // CHECK: chunk.all_reduce %[[B]] reduce max axis 0 group [0, 1, 2, 3] : <8x4xf8E4M3FN>
  %t7 = chunk.all_reduce %b reduce max axis 0 group [0, 1, 2, 3] : !chunk.buffer<8x4xf8E4M3FN>
  // CHECK: %[[C:.+]] = chunk.buffer "c" : <9x4xf8E4M3FN>
  %c = chunk.buffer "c" : !chunk.buffer<9x4xf8E4M3FN>
  // CHECK: chunk.all_to_all %[[B]] to %[[C]] axis 0 group [3, 1, 2] after(%[[T0]]) by direct : <8x4xf8E4M3FN> to <9x4xf8E4M3FN>
  %t8 = chunk.all_to_all %b to %c axis 0 group [3, 1, 2] after(%t0) by direct : !chunk.buffer<8x4xf8E4M3FN> to !chunk.buffer<9x4xf8E4M3FN>
  // CHECK: %[[D:.+]] = chunk.buffer "d" : <2x4xf8E4M3FN>
  %d = chunk.buffer "d" : !chunk.buffer<2x4xf8E4M3FN>
  // CHECK: chunk.all_to_all %[[B]] to %[[D]] axis 0 rows [7, -1, 0, 1] group [0, 1] : <8x4xf8E4M3FN> to <2x4xf8E4M3FN>
  %t8r = chunk.all_to_all %b to %d axis 0 rows [7, -1, 0, 1] group [0, 1] : !chunk.buffer<8x4xf8E4M3FN> to !chunk.buffer<2x4xf8E4M3FN>
  // CHECK: chunk.broadcast %[[C]] root 2 group [0, 2] by pull : <9x4xf8E4M3FN>
  %t9 = chunk.broadcast %c root 2 group [0, 2] by pull : !chunk.buffer<9x4xf8E4M3FN>
  // CHECK: chunk.claim after(%[[T3]]) {
  chunk.claim after(%t3) {
    // CHECK-NEXT: chunk.all_gather %[[B]] axis 0 group [0, 1] after(%[[T0]]) : <8x4xf8E4M3FN>
    %t4 = chunk.all_gather %b axis 0 group [0, 1] after(%t0) : !chunk.buffer<8x4xf8E4M3FN>
  }
  // CHECK: chunk.claim {
  chunk.claim {
    %t4 = chunk.all_gather %b axis 0 group [0, 1] : !chunk.buffer<8x4xf8E4M3FN>
  }
  // CHECK: chunk.kernel @gemm tiles [4, 2] ctas 8 args(%[[A]] as "x", %[[B]] as "y") after(%[[T3]]) : !chunk.buffer<8x?xbf16>, !chunk.buffer<8x4xf8E4M3FN> {
  chunk.kernel @gemm tiles [4, 2] ctas 8 args(%a as "x", %b as "y") after(%t3) : !chunk.buffer<8x?xbf16>, !chunk.buffer<8x4xf8E4M3FN> {
    // CHECK: chunk.footprint read "x" at #{{.+}} sizes [2, 64]
    chunk.footprint read "x" at affine_map<(m, n) -> (m * 2, 0)> sizes [2, 64]
    // CHECK: chunk.footprint write "y" at #{{.+}} sizes [2, 2]
    chunk.footprint write "y" at affine_map<(m, n) -> (m * 2, n * 2)> sizes [2, 2]
  }
  // CHECK: chunk.schedule @gemm rank 2 {waits = #chunk.table<signal, count : [0, 1], [7, -1]>}
  chunk.schedule @gemm rank 2 {waits = #chunk.table<signal, count : [0, 1], [7, -1]>}
  // CHECK: chunk.schedule @gemm rank 3 {waits = #chunk.table<signal, count>}
  chunk.schedule @gemm rank 3 {waits = #chunk.table<signal, count>}
}

// Fields of a strategy that have their default are left out.
// CHECK-LABEL: chunk.plan @defaults mesh [1]
// CHECK-SAME: strategy <>
chunk.plan @defaults mesh [1] strategy <splits = 0, group_m = 8> {
  // CHECK: chunk.kernel @empty tiles [1] ctas 1 comm_ctas 4 args() {
  chunk.kernel @empty tiles [1] ctas 1 comm_ctas 4 args() {}
}

// CHECK-LABEL: chunk.plan @split_tiles mesh [1]
chunk.plan @split_tiles mesh [1] {
  // CHECK: chunk.kernel @k tiles [5] ctas 4 parts 3 args() {
  chunk.kernel @k tiles [5] ctas 4 parts 3 args() {}
}

// CHECK-LABEL: chunk.plan @one_choice mesh [1]
// CHECK-SAME: strategy <splits = 2>
chunk.plan @one_choice mesh [1] strategy <splits = 2> {}

// CHECK-LABEL: "tt.func"
"tt.func"() ({
^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8>, %t: i32):
  // CHECK: chunk.roles %[[CTX:.+]], %[[INPUT:.+]] : !tt.ptr<i64>, !tt.ptr<i8> compute {
  chunk.roles %context, %input : !tt.ptr<i64>, !tt.ptr<i8> compute {
    // CHECK: chunk.input_rows %[[CTX]] : !tt.ptr<i64>
    %first, %last = chunk.input_rows %context : !tt.ptr<i64>
    // CHECK: %{{.+}}, %{{.+}}, %{{.+}}, %[[BEGIN:.+]], %[[END:.+]] = chunk.read_tile %[[CTX]][%{{.+}}] : !tt.ptr<i64>
    %c0, %c1, %c2, %begin, %end = chunk.read_tile %context[%t] : !tt.ptr<i64>
    // CHECK: chunk.wait %[[CTX]][%[[BEGIN]] to %[[END]]] : !tt.ptr<i64>
    chunk.wait %context[%begin to %end] : !tt.ptr<i64>
    // CHECK: } communicate ldst_dedicated {
    // CHECK-NEXT: } communicate ldst_colocated {
  } communicate ldst_dedicated {
  ^bb0:
  } communicate ldst_colocated {
    // CHECK: chunk.run_commands %[[CTX]], %[[INPUT]] realize ldst_colocated : !tt.ptr<i64>, !tt.ptr<i8>
    chunk.run_commands %context, %input realize ldst_colocated : !tt.ptr<i64>, !tt.ptr<i8>
  }
  "tt.return"() : () -> ()
}) : () -> ()
