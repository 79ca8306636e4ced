// RUN: syncopate-opt %s --chunk-splice-kernel -split-input-file -verify-diagnostics | FileCheck %s

// Which tile a store belongs to follows from its offsets: [m * 2, n * 4] in a grid of three columns.
// CHECK-LABEL: module @ttgir
// CHECK: %[[ROW:.+]], %[[COLUMN:.+]], %{{.+}}, %{{.+}}, %{{.+}} = chunk.read_tile
// CHECK: %[[M:.+]] = arith.divsi %[[ROW]], %{{.+}}
// CHECK: %[[BASE:.+]] = arith.divsi %[[COLUMN]], %{{.+}}
// CHECK: %[[ROWS:.+]] = arith.muli %[[M]], %{{.+}}
// CHECK: %[[TILE:.+]] = arith.addi %[[ROWS]], %[[BASE]]
// CHECK: "ttng.async_tma_copy_local_to_global"(%{{.+}}, %[[ROW]], %[[COLUMN]], %{{.+}})
// CHECK: chunk.finish_tile %{{.+}}[%[[TILE]]] : !tt.ptr<i64>
// CHECK-NOT: chunk.tile_sum
!b = !chunk.buffer<4x12xf32>
chunk.plan @overwrites mesh [2] {
  %a = chunk.buffer "a" : !b
  %m = chunk.produce %a[0, 0] sizes [4, 12] on 0 : !b
  chunk.kernel @k tiles [2, 3] ctas 2 args(%a as "c_desc") : !b {
    chunk.footprint write "c_desc" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %n, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
    "ttng.async_tma_copy_local_to_global"(%c, %m, %n, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A tile in two stores is done after the second. Where tiles add on some rank, each store asks the table.
// CHECK-LABEL: module @ttgir
// CHECK: %[[ADDS:.+]], %[[BEGIN:.+]], %[[END:.+]] = chunk.tile_sum %[[CTX:.+]][%{{.+}}] : !tt.ptr<i64>
// CHECK: %[[IF:.+]] = arith.cmpi ne, %[[ADDS]], %{{.+}} : i32
// CHECK-NEXT: scf.if %[[IF]] {
// CHECK-NEXT: chunk.wait %[[CTX]][%[[BEGIN]] to %[[END]]]
// CHECK-NEXT: "ttng.async_tma_reduce"(%{{.+}}) <{kind = 1 : i32}>
// CHECK-NEXT: } else {
// CHECK-NEXT: "ttng.async_tma_copy_local_to_global"
// CHECK-NEXT: }
// CHECK-NOT: chunk.finish_tile
// CHECK: chunk.tile_sum
// CHECK: "ttng.async_tma_reduce"
// CHECK: chunk.finish_tile
!d = !chunk.buffer<4x8xf32>
chunk.plan @adds mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  %p = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 8] from 0 to 1 after(%m) realize copy_engine : !d to !d
  %s = chunk.produce %a[0, 0] sizes [4, 8] on 1 reduce sum after(%p) : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c_desc") : !d {
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 4)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "ttng.async_tma_copy_local_to_global"(%c, %m, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "ttng.async_tma_copy_local_to_global"(%c, %m, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!d = !chunk.buffer<4x8xf32>
chunk.plan @pointers mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  // expected-error @+1 {{expects tiles to write "c" by descriptor stores, but found tt.store; bind a Descriptor, or let a transfer copy it elsewhere}}
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c") : !d {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %t: i32):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.store"(%c, %m) : (!tt.ptr<f32>, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!d = !chunk.buffer<4x8xf32>
chunk.plan @lost mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c_desc") : !d {
    // expected-error @+1 {{expects offsets of which tile coordinate 0 can be told, one of them a multiple of it alone}}
    chunk.footprint write "c_desc" at affine_map<(m) -> (m floordiv 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "ttng.async_tma_copy_local_to_global"(%c, %m, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
