// RUN: syncopate-opt %s --chunk-infer-tile-footprints -split-input-file | FileCheck %s

// What is read at a step, and which steps a tile has.

// Blocks of K by what the marker gives; the other operand of the step's own loop counts as read whole. The tile ends at the
// diagonal, or at the end of the buffer.
// CHECK-DAG: #[[BEGIN:.+]] = affine_map<(d0) -> (0)>
// CHECK-DAG: #[[END:.+]] = affine_map<(d0) -> (d0 * 2 + 2, 7)>
// CHECK-DAG: #[[AT:.+]] = affine_map<(d0, d1) -> (d1 * 64)>
// CHECK-DAG: #[[WHOLE:.+]] = affine_map<(d0) -> (d0 * 128)>
// CHECK-LABEL: chunk.plan @causal
// CHECK: chunk.steps from #[[BEGIN]] to #[[END]]{{$}}
// CHECK: chunk.footprint read "a" at #[[AT]] sizes [64]
// CHECK: chunk.footprint read "q" at #[[WHOLE]] sizes [128]
chunk.plan @causal mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  %q = chunk.buffer "q" : !chunk.buffer<512xbf16>
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a", %q as "q") : !chunk.buffer<400xbf16>, !chunk.buffer<512xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, !tt.tensordesc<tensor<128xbf16>>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %q: !tt.tensordesc<tensor<128xbf16>> loc("q")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c7 = arith.constant 7 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %row = arith.muli %m, %c128 : i32
    %x = "tt.descriptor_load"(%q, %row) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    %next = arith.addi %m, %c1 : i32
    %twice = arith.muli %next, %c2 : i32
    %last = arith.minsi %twice, %c7 : i32
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %last) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    scf.for %place = %begin to %end step %c1 : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      %k = arith.muli %step, %c64 : i32
      %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Steps that are said by hand keep the order that the kernel asks for. A second loop over the same steps is fine.
// CHECK-LABEL: chunk.plan @given
// CHECK: chunk.steps on 0 from #{{.+}} to #{{.+}} ordered
// CHECK: chunk.steps on 1 from #{{.+}} to #{{.+}} ordered
// CHECK: chunk.footprint read "a" at #{{.+}} sizes [64]
// CHECK-NOT: chunk.footprint
chunk.plan @given mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {
    chunk.steps on 0 from affine_map<(m) -> (0)> to affine_map<(m) -> (m)>
    chunk.steps on 1 from affine_map<(m) -> (0)> to affine_map<(m) -> (m + 3)>
  }
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %row = arith.addi %m, %last : i32
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %row) <{asm_string = "// syncopate.ordered_steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    scf.for %place = %begin to %end step %c1 : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      %k = arith.muli %step, %c64 : i32
      %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
    }
    scf.for %place = %begin to %end step %c1 : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      %k = arith.muli %step, %c64 : i32
      %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A step that is carried to the next turn, and out of the loop, is a step. What the loop carries at first lies in front of the
// buffer, or is not taken.
// CHECK-DAG: #[[STEP:.+]] = affine_map<(d0, d1) -> (d1 * 64)>
// CHECK-LABEL: chunk.plan @late
// CHECK: chunk.footprint read "a" at #[[STEP]] sizes [64]
// CHECK-NOT: chunk.footprint
chunk.plan @late mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a")):
    %none = arith.constant -1 : i32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c7 = arith.constant 7 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %most = arith.minsi %m, %c7 : i32
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %most) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    %last = scf.for %place = %begin to %end step %c1 iter_args(%before = %none) -> (i32) : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      %isFirst = arith.cmpi slt, %before, %c0 : i32
      %late = arith.select %isFirst, %step, %before : i32
      %k = arith.muli %late, %c64 : i32
      %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
      scf.yield %step : i32
    }
    %k = arith.muli %last, %c64 : i32
    %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
    "tt.return"() : () -> ()
  }) : () -> ()
}
