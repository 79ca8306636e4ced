// RUN: syncopate-opt %s --chunk-splice-kernel -split-input-file -verify-diagnostics | FileCheck %s

// A store goes as much further as the slot of its tile lies from where the kernel has it begin. Here, tile 1 of a column of
// three lies in the blocks of two ranks, so a slot is a row, and a tile that is not whole is stored row by row.
// CHECK-LABEL: module @ttgir
// CHECK: %[[M:.+]], %[[N:.+]], %{{.+}}, %{{.+}}, %{{.+}} = chunk.read_tile
// CHECK: %[[TILE:.+]] = chunk.tile_number
// CHECK: %[[SLOT:.+]], %[[ROWS:.+]] = chunk.tile_slot %[[CTX:.+]][%[[TILE]]] : !tt.ptr<i64>
// CHECK: %[[ROW:.+]] = arith.subi %[[M]], %{{.+}} : i32
// CHECK: %[[COLUMN:.+]] = arith.subi %[[N]], %{{.+}} : i32
// CHECK: %[[ONE:.+]] = arith.constant 1 : i32
// CHECK: %[[BEGIN:.+]] = arith.muli %[[SLOT]], %[[ONE]] : i32
// CHECK: %[[AT:.+]] = arith.addi %[[ROW]], %[[BEGIN]] : i32
// CHECK: %[[NONE:.+]] = arith.constant -1 : i32
// CHECK: %[[WHOLE:.+]] = arith.cmpi eq, %[[ROWS]], %[[NONE]] : i32
// CHECK: scf.if %[[WHOLE]] {
// CHECK-NEXT: "ttng.async_tma_copy_local_to_global"(%[[C:.+]], %[[AT]], %[[COLUMN]], %[[S:.+]]) : (
// CHECK-NEXT: } else {
// CHECK-NEXT: chunk.store_rows %[[CTX]][%[[ROWS]]] row %[[ROW]] column %[[COLUMN]] of %[[S]] : !tt.ptr<i64>, !ttg.mem
// CHECK-NEXT: }
// CHECK: chunk.finish_tile %[[CTX]][%[[TILE]]] bulk : !tt.ptr<i64>
!c = !chunk.buffer<6x8xf32>
chunk.plan @scatter mesh [2] strategy <slots = tiles> {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.reduce_scatter %c reduce sum axis 0 group [0, 1] after(%m0, %m1) realize nccl : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c_desc") after(%t) : !c {
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
// In an all-reduce all tiles are whole. A slot of whole rows leaves tiles in their columns.
// CHECK-LABEL: module @ttgir
// CHECK: %{{.+}}, %[[N:.+]], %{{.+}}, %{{.+}}, %{{.+}} = chunk.read_tile
// CHECK: chunk.tile_slot
// CHECK: "ttng.async_tma_copy_local_to_global"(%{{.+}}, %{{.+}}, %[[N]], %{{.+}})
// CHECK-NOT: scf.if
// CHECK: chunk.finish_tile
!c = !chunk.buffer<6x8xf32>
chunk.plan @sum mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [6, 8] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [6, 8] on 1 : !c
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) realize nccl : !c
  chunk.kernel @k tiles [3, 2] ctas 2 args(%c as "c_desc") after(%t) : !c {
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
!c = !chunk.buffer<4x4xf32>
chunk.plan @pointers mesh [2] {
  %c = chunk.buffer "c" : !c
  %m0 = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  %m1 = chunk.produce %c[0, 0] sizes [4, 4] on 1 : !c
  %t = chunk.all_reduce %c reduce sum axis 0 group [0, 1] after(%m0, %m1) realize nccl : !c
  // expected-error @+1 {{expects tiles to be stored by a descriptor of two dimensions where a collective is library calls: only that can be stored elsewhere}}
  chunk.kernel @k tiles [2] ctas 2 args(%c as "c_ptr") after(%t) : !c {
    chunk.footprint write "c_ptr" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c_ptr"), %t: i32, %v: f32):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %p = "tt.addptr"(%c, %m) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
    // expected-note @+1 {{the store}}
    "tt.store"(%p, %v) : (!tt.ptr<f32>, f32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
