// RUN: syncopate-opt %s --chunk-infer-tile-footprints -split-input-file -verify-diagnostics

// How a kernel may not walk its tiles, or load before it has waited.

chunk.plan @starts_elsewhere mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the loop over tiles to start at the program's number and to step by 2, the CTAs of the kernel, but it starts elsewhere}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{here}}
    scf.for %t = %c0 to %n step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @starts_along_y mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the loop over tiles to start at the program's number and to step by 2, the CTAs of the kernel, but it starts elsewhere}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %y = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
    // expected-note @+1 {{here}}
    scf.for %t = %y to %n step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @steps_by_64 mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the loop over tiles to start at the program's number and to step by 2, the CTAs of the kernel, but it steps by 64}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %c64 = arith.constant 64 : i32
    // expected-note @+1 {{here}}
    scf.for %t = %pid to %n step %c64 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @step_unknown mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the loop over tiles to start at the program's number and to step by 2, the CTAs of the kernel, but its step is no constant}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{here}}
    scf.for %t = %pid to %n step %n : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @ends_early mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the loop over tiles to end at 3, the number of tiles, but it ends at 2}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{here}}
    scf.for %t = %pid to %c2 step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @one_tile_each mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects as many CTAs as tiles, since each program computes one tile, but got 2 and 3}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %t = arith.muli %pid, %c2 : i32
    // expected-note @+1 {{here}}
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @position_unknown mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the tile marker to take the variable of the loop over tiles for its position, or, in a kernel without such a loop, the program's number}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %n step %c2 : i32 {
      // expected-note @+1 {{here}}
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %n) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @program_in_loop mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the tile marker to take the variable of the loop over tiles for its position, or, in a kernel without such a loop, the program's number}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %n step %c2 : i32 {
      // expected-note @+1 {{here}}
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @conditional mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects the tile marker to stand in the body of the loop over tiles and to take its variable for its position}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %on = arith.cmpi slt, %pid, %n : i32
    scf.for %t = %pid to %n step %c2 : i32 {
      scf.if %on {
        // expected-note @+1 {{here}}
        %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
        %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @no_results mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects markers of 1 coordinates, as its grid has, but got -1}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %n step %c2 : i32 {
      // expected-note @+1 {{the marker}}
      "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A"}> : (i32, i32, i32) -> ()
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @load_before_loop mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects loads from "a" to stand behind the tile marker, in the same loop body: before it, the kernel has waited for nothing}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{the load}}
    %y = "tt.descriptor_load"(%a, %c0) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    scf.for %t = %pid to %n step %c2 : i32 {
      // expected-note @+1 {{the marker}}
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @load_before_marker mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects loads from "a" to stand behind the tile marker, in the same loop body: before it, the kernel has waited for nothing}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %n step %c2 : i32 {
      // expected-note @+1 {{the load}}
      %y = "tt.descriptor_load"(%a, %c0) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
      // expected-note @+1 {{the marker}}
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Where loads stand is looked at for a footprint written by hand too.
chunk.plan @pointer_before_marker mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{expects loads from "a" to stand behind the tile marker, in the same loop body: before it, the kernel has waited for nothing}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {
    chunk.footprint read "a" at affine_map<(m) -> (m * 128)> sizes [128]
  }
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %p = "tt.addptr"(%a, %c2) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
    %last = scf.for %t = %pid to %n step %c2 iter_args(%q = %p) -> (!tt.ptr<bf16>) : i32 {
      // expected-note @+1 {{the load}}
      %y = "tt.load"(%q) : (!tt.ptr<bf16>) -> bf16
      // expected-note @+1 {{the marker}}
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %r = "tt.addptr"(%q, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
      %z = "tt.load"(%r) : (!tt.ptr<bf16>) -> bf16
      scf.yield %q : !tt.ptr<bf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @big_constant mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: the offset of dimension 0 is not affine in the tile coordinates; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{what is not understood}}
    %big = arith.constant 170141183460469231731687303715884105727 : i128
    scf.for %t = %pid to %n step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %big) : (!tt.tensordesc<tensor<128xbf16>>, i128) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @truncated mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: the offset of dimension 0 may not fit into its type; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %big = arith.constant 4294967296 : i64
    scf.for %t = %pid to %n step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{what is not understood}}
      %o = arith.trunci %big : i64 to i32
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %o) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @overflow mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: the offset of dimension 0 may not fit into its type; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %big = arith.constant 4611686018427387904 : i64
    scf.for %t = %pid to %n step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %w = arith.extsi %m : i32 to i64
      %v = arith.muli %w, %big : i64
      // expected-note @+1 {{what is not understood}}
      %u = arith.addi %v, %v : i64
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %u) : (!tt.tensordesc<tensor<128xbf16>>, i64) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @dynamic_block mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: its block has a dynamic dimension}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %n step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<?xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A function without a body is none.
chunk.plan @no_body mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  // expected-error @+1 {{has no footprint of argument "a": write a chunk.footprint in its body, or give its function in a module @ttir}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() {sym_name = "k"} : () -> ()
}

// -----
module {
  module {
    // expected-error @+1 {{expects to stand directly in the module that passes run on, but stands in a module inside it}}
    chunk.plan @nested mesh [2] {}
  }
}

// -----
chunk.plan @own_coordinates mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{expects the kernel to take its addresses from the coordinates that the tile marker returns, but coordinate 0 is never used}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {
    chunk.footprint read "a" at affine_map<(m) -> (m * 128)> sizes [128]
  }
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      // expected-note @+1 {{the marker}}
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %t) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
