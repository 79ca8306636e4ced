// RUN: syncopate-opt %s --chunk-infer-tile-footprints -split-input-file -verify-diagnostics

// The end of the steps is not known.
// expected-note @unknown {{what is not understood}}
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{cannot infer which steps a tile has: where they end is not known before the kernel runs; pass steps to compile, or write in its body: chunk.steps}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    // expected-note @+1 {{the marker}}
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
// The place of a step is used for an address.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the variable of a loop over steps to be taken by one sy.step in its body, and by nothing else}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    scf.for %place = %begin to %end step %c1 : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      // expected-note @+1 {{here}}
      %k = arith.muli %place, %c64 : i32
      %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// The range is used by itself.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects what sy.steps returns to be used for the begin and the end of loops over steps, each by 1, and for nothing else}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    // expected-note @+1 {{here}}
    "tt.use"(%end) : (i32) -> ()
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
// The loop goes over something else.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects what sy.steps returns to be used for the begin and the end of loops}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    // expected-note @+1 {{here}}
    scf.for %place = %begin to %end step %c4 : i32 {
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
// The step is never used.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the kernel to take its addresses from what sy.step returns, but it is never used}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    scf.for %place = %begin to %end step %c1 : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        // expected-note @+1 {{here}}
        %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      %k = arith.muli %c4, %c64 : i32
      %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Two ranges.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects one sy.steps in a kernel, but got 2}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    // expected-note @+1 {{the marker}}
    %other, %more = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
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
// The range stands before the tile.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects sy.steps to stand behind the tile marker, in the same body}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{the marker}}
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
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
// A step outside of the loop over the range.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects sy.step to take the variable of the loop around it, which goes over what sy.steps returns}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    scf.for %place = %c0 to %c4 step %c1 : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        // expected-note @+1 {{the marker}}
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
// Steps are said of a kernel that has none.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects tiles to walk steps, as is said of them, but the kernel has no sy.steps}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    scf.for %place = %c0 to %c4 step %c1 : i32 {
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
// A store depends on a step.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{where it writes depends on a step, and what a tile computes is complete with the tile}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
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
      // expected-note @+1 {{the access by tt.descriptor_store}}
      "tt.descriptor_store"(%a, %y, %k) : (!tt.tensordesc<tensor<64xbf16>>, tensor<64xbf16>, i32) -> ()
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A load at a step that is not affine names the step in what to write.
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{lambda m, step: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m, step) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [4] ctas 4 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<64xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<64xbf16>> loc("a"), %last: i32 loc("last")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.use"(%m) : (i32) -> ()
    %begin, %end = "tt.elementwise_inline_asm"(%c0, %c4) <{asm_string = "// syncopate.steps\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32) -> (i32, i32)
    scf.for %place = %begin to %end step %c1 : i32 {
      %taken = arith.cmpi sge, %place, %c0 : i32
      %step = scf.if %taken -> (i32) {
        %s = "tt.elementwise_inline_asm"(%place) <{asm_string = "// syncopate.step\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
        scf.yield %s : i32
      } else {
        scf.yield %c0 : i32
      }
      // expected-note @+1 {{what is not understood}}
      %k = arith.muli %step, %step : i32
      // expected-note @+1 {{the access by}}
      %y = "tt.descriptor_load"(%a, %k) : (!tt.tensordesc<tensor<64xbf16>>, i32) -> tensor<64xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
