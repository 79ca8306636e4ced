// RUN: syncopate-opt %s --chunk-infer-tile-footprints --chunk-splice-kernel -split-input-file | FileCheck %s

// Of five tiles on four CTAs, one is left, which three of them compute. What stores it stands in a branch of the last of its CTAs; there, and there only, it is done.
// CHECK-LABEL: chunk.plan @split
// CHECK: chunk.footprint write "c" at #{{.+}} sizes [128]
// CHECK-LABEL: module @ttgir
// CHECK: scf.for %[[T:.+]] = %{{.+}} to %{{.+}} step
// CHECK: chunk.read_tile %{{.+}}[%[[T]]]
// CHECK: %[[N:.+]] = chunk.tile_number %{{.+}}[%[[T]]]
// CHECK: "tt.store"
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[N]]]
// CHECK: scf.for %[[P:.+]] = %{{.+}} to %{{.+}} step
// CHECK: %{{.+}}, %{{.+}}, %[[PART:.+]], %{{.+}}, %{{.+}} = chunk.read_tile %{{.+}}[%[[P]]]
// CHECK: %[[N:.+]] = chunk.tile_number %{{.+}}[%[[P]]]
// CHECK: "tt.use"(%[[PART]])
// CHECK-NOT: syncopate.last_part
// CHECK: scf.if
// CHECK: "tt.store"
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[N]]]
// CHECK-NEXT: }
// CHECK-NEXT: }
!b = !chunk.buffer<640xf32>
chunk.plan @split mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c4 : i32
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c4 : i32
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
