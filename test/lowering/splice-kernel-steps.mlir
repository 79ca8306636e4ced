// RUN: syncopate-opt %s --chunk-splice-kernel -split-input-file -verify-diagnostics | FileCheck %s

// Every clone of a marker is replaced: the range by that of the tile whose marker stands before it, a step by a row of
// the table, for which the CTA waits inside the branch, before anything is loaded.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.read_tile %[[CTX:.+]][%[[T:.+]]]
// CHECK: %[[BEGIN:.+]], %[[END:.+]] = chunk.tile_steps %[[CTX]][%[[T]]] own %[[ZERO:.+]], %[[FOUR:.+]] : !tt.ptr<i64>
// CHECK: scf.if
// CHECK-NEXT: %[[STEP:.+]], %[[FIRST:.+]], %[[LAST:.+]] = chunk.read_step %[[CTX]][%[[BEGIN]]] : !tt.ptr<i64>
// CHECK-NEXT: chunk.wait %[[CTX]][%[[FIRST]] to %[[LAST]]] : !tt.ptr<i64>
// CHECK-NEXT: scf.yield %[[STEP]]
// CHECK: scf.for %[[PLACE:.+]] = %[[BEGIN]] to %[[END]]
// CHECK: chunk.read_step %[[CTX]][%[[PLACE]]]
// CHECK-NOT: syncopate.step
chunk.plan @plan mesh [2] {
  chunk.kernel @k tiles [3] ctas 2 args() {
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}
module @ttgir attributes {"ttg.num-warps" = 4 : i32} {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %tiles: i32):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    scf.for %t = %c0 to %tiles step %c1 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%c0, %tiles, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
      %any = arith.cmpi slt, %begin, %end : i32
      %first = scf.if %any -> (i32) {
        %s = "tt.elementwise_inline_asm"(%begin) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      "tt.use"(%first) : (i32) -> ()
      scf.for %place = %begin to %end step %c1 : i32 {
        %taken = arith.cmpi sge, %place, %c0 : i32
        %step = scf.if %taken -> (i32) {
          %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
          scf.yield %s : i32
        } else {
          scf.yield %c0 : i32
        }
        "tt.use"(%step) : (i32) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Where the markers have been moved apart, nobody knows whose steps they are.
chunk.plan @apart mesh [2] {
  // expected-error @+1 {{cannot tell which tile has the steps that a loop walks: Triton has moved them apart; leave flatten=True out of tl.range}}
  chunk.kernel @k tiles [3] ctas 2 args() {
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}
module @ttgir attributes {"ttg.num-warps" = 4 : i32} {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %tiles: i32):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %m, %i = "tt.elementwise_inline_asm"(%c0, %tiles, %c0) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    scf.for %t = %c0 to %tiles step %c1 : i32 {
      // expected-note @+1 {{the marker}}
      %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
