// RUN: syncopate-opt %s --chunk-splice-kernel -split-input-file -verify-diagnostics

// Warps that Triton has specialized would each wait.
chunk.plan @specialized mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20xbf16>
  // expected-error @+1 {{expects a kernel whose warps all walk the tiles, but Triton has specialized them}}
  chunk.kernel @k tiles [20] ctas 4 args(%a as "a") : !chunk.buffer<20xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a")):
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %c4 = arith.constant 4 : i32
    %c20 = arith.constant 20 : i32
    // expected-note @+1 {{the loop}}
    scf.for %t = %pid to %c20 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %p = "tt.addptr"(%a, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
      %value = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<bf16>) -> bf16
    } {tt.warp_specialize}
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a")):
    "ttg.warp_specialize"() ({}, {}) : () -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
