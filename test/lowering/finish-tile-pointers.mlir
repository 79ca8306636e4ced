// RUN: syncopate-opt %s --chunk-splice-kernel -split-input-file -verify-diagnostics | FileCheck %s

// A store by pointers, under a mask or not, is ordered by the barrier alone: nothing of it is bulk.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.read_tile
// CHECK: %[[N:.+]] = chunk.tile_number
// CHECK-NOT: chunk.tile_sum
// CHECK: "tt.store"
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[N]]] : !tt.ptr<i64>
!d = !chunk.buffer<4x8xbf16>
chunk.plan @overwrites mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c") : !d {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<bf16> loc("c"), %t: i32, %value: tensor<16xbf16, #ttg.blocked>):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %row = "tt.addptr"(%c, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
    %p = "tt.splat"(%row) : (!tt.ptr<bf16>) -> tensor<16x!tt.ptr<bf16>, #ttg.blocked>
    "tt.store"(%p, %value) : (tensor<16x!tt.ptr<bf16>, #ttg.blocked>, tensor<16xbf16, #ttg.blocked>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// What a tile adds to is loaded by the same pointers under the same mask, brought into the layout of the sum, and added
// in float32 before the sum is rounded.
// CHECK-LABEL: module @ttgir
// CHECK: %[[ADDS:.+]], %[[BEGIN:.+]], %[[END:.+]] = chunk.tile_sum %[[CTX:.+]][%[[TILE:.+]]]
// CHECK: %[[IF:.+]] = arith.cmpi ne, %[[ADDS]]
// CHECK: %[[CHOICE:.+]] = scf.if %[[IF]] -> (tensor<16xf32, #ttg.mma>) {
// CHECK-NEXT: chunk.wait %[[CTX]][%[[BEGIN]] to %[[END]]]
// CHECK-NEXT: %[[OLD:.+]] = "tt.load"(%[[P:.+]], %[[MASK:.+]]) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : {{.*}} -> tensor<16xbf16, #ttg.blocked>
// CHECK-NEXT: %[[MOVED:.+]] = "ttg.convert_layout"(%[[OLD]]) : {{.*}} -> tensor<16xbf16, #ttg.mma>
// CHECK-NEXT: %[[WIDE:.+]] = arith.extf %[[MOVED]]
// CHECK-NEXT: %[[SUM:.+]] = arith.addf %[[WIDE]], %[[VALUE:.+]] : tensor<16xf32, #ttg.mma>
// CHECK-NEXT: scf.yield %[[SUM]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[VALUE]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[ROUNDED:.+]] = arith.truncf %[[CHOICE]]
// CHECK-NEXT: %[[STORED:.+]] = "ttg.convert_layout"(%[[ROUNDED]])
// CHECK-NEXT: "tt.store"(%[[P]], %[[STORED]], %[[MASK]])
// CHECK-NEXT: chunk.finish_tile %[[CTX]][%[[TILE]]] : !tt.ptr<i64>
!d = !chunk.buffer<4x8xbf16>
chunk.plan @adds mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  %p = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 8] from 0 to 1 after(%m) realize copy_engine : !d to !d
  %s = chunk.produce %a[0, 0] sizes [4, 8] on 1 reduce sum after(%p) : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c") : !d {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<bf16> loc("c"), %t: i32, %value: tensor<16xf32, #ttg.mma>, %mask: tensor<16xi1, #ttg.blocked>):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %rounded = arith.truncf %value : tensor<16xf32, #ttg.mma> to tensor<16xbf16, #ttg.mma>
    %stored = "ttg.convert_layout"(%rounded) : (tensor<16xbf16, #ttg.mma>) -> tensor<16xbf16, #ttg.blocked>
    %row = "tt.addptr"(%c, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
    %p = "tt.splat"(%row) : (!tt.ptr<bf16>) -> tensor<16x!tt.ptr<bf16>, #ttg.blocked>
    "tt.store"(%p, %stored, %mask) : (tensor<16x!tt.ptr<bf16>, #ttg.blocked>, tensor<16xbf16, #ttg.blocked>, tensor<16xi1, #ttg.blocked>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// What is not rounded by the kernel is extended, added and rounded here. Each store of a loop over parts of a tile asks
// the table; the tile is done behind the loop, whose pointers may move along in it.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.read_tile
// CHECK: %[[N:.+]] = chunk.tile_number
// CHECK: scf.for {{.*}} iter_args(%{{.+}} = %{{.+}}, %[[TILE:.+]] = %[[N]])
// CHECK: chunk.tile_sum %{{.+}}[%[[TILE]]]
// CHECK: %[[OLD:.+]] = "tt.load"(%{{.+}}) <{operandSegmentSizes = array<i32: 1, 0, 0>}>
// CHECK-NEXT: %[[WIDE:.+]] = "tt.fp_to_fp"(%[[OLD]]) : (tensor<16xf8E5M2, #ttg.blocked>) -> tensor<16xf32, #ttg.blocked>
// CHECK-NEXT: %[[MINE:.+]] = "tt.fp_to_fp"(%[[VALUE:.+]]) : (tensor<16xf8E5M2, #ttg.blocked>) -> tensor<16xf32, #ttg.blocked>
// CHECK-NEXT: %[[SUM:.+]] = arith.addf %[[WIDE]], %[[MINE]]
// CHECK-NEXT: %[[ROUNDED:.+]] = "tt.fp_to_fp"(%[[SUM]]) <{rounding = 1 : i32}>
// CHECK-NEXT: scf.yield %[[ROUNDED]]
// CHECK: "tt.store"
// CHECK-NOT: chunk.finish_tile
// CHECK: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[N]]] : !tt.ptr<i64>
!d = !chunk.buffer<4x8xf8E5M2>
chunk.plan @in_a_loop mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  %p = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 8] from 0 to 1 after(%m) realize copy_engine : !d to !d
  %s = chunk.produce %a[0, 0] sizes [4, 8] on 1 reduce sum after(%p) : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c") : !d {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f8E5M2> loc("c"), %t: i32, %value: tensor<16xf8E5M2, #ttg.blocked>):
    %two = arith.constant 2 : i32
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %row = "tt.addptr"(%c, %m) : (!tt.ptr<f8E5M2>, i32) -> !tt.ptr<f8E5M2>
    %r = scf.for %k = %t to %two step %two iter_args(%part = %row) -> (!tt.ptr<f8E5M2>) : i32 {
      %p = "tt.splat"(%part) : (!tt.ptr<f8E5M2>) -> tensor<16x!tt.ptr<f8E5M2>, #ttg.blocked>
      "tt.store"(%p, %value) : (tensor<16x!tt.ptr<f8E5M2>, #ttg.blocked>, tensor<16xf8E5M2, #ttg.blocked>) -> ()
      %next = "tt.addptr"(%part, %two) : (!tt.ptr<f8E5M2>, i32) -> !tt.ptr<f8E5M2>
      scf.yield %next : !tt.ptr<f8E5M2>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A descriptor that the kernel makes itself, in memory.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.read_tile
// CHECK: %[[N:.+]] = chunk.tile_number
// CHECK: "ttng.async_tma_copy_local_to_global"
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[N]]] bulk
!d = !chunk.buffer<4x8xbf16>
chunk.plan @descriptor mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c") : !d {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<bf16> loc("c"), %t: i32, %s: !ttg.mem):
    %map = "ttg.global_scratch_alloc"() : () -> !tt.ptr<i8>
    "ttng.tensormap_create"(%map, %c, %t) : (!tt.ptr<i8>, !tt.ptr<bf16>, i32) -> ()
    "ttng.tensormap_fenceproxy_acquire"(%map) : (!tt.ptr<i8>) -> ()
    %desc = "ttng.reinterpret_tensor_descriptor"(%map) : (!tt.ptr<i8>) -> !tt.desc
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "ttng.async_tma_copy_local_to_global"(%desc, %m, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// The loop over the parts of a tile is no loop of its own any more.
!d = !chunk.buffer<4x8xbf16>
chunk.plan @fused mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  // expected-error @+1 {{cannot tell where the stores of a tile to "c" end: Triton has fused the loop around them with another; leave flatten=True out of the loop over tiles}}
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c") : !d {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<bf16> loc("c"), %t: i32, %value: bf16):
    %two = arith.constant 2 : i32
    scf.for %k = %t to %two step %two : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%k, %k, %k) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      scf.for %j = %t to %two step %two : i32 {
        %p = "tt.addptr"(%c, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
        "tt.store"(%p, %value) : (!tt.ptr<bf16>, bf16) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<bf16> loc("c"), %t: i32, %value: bf16):
    %two = arith.constant 2 : i32
    scf.for %k = %t to %two step %two : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%k, %k, %k) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %p = "tt.addptr"(%c, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
      // expected-note @+1 {{one of them}}
      "tt.store"(%p, %value) : (!tt.ptr<bf16>, bf16) -> ()
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
