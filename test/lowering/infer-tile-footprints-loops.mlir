// RUN: syncopate-opt %s --chunk-infer-tile-footprints -split-input-file | FileCheck %s

// How a kernel may walk its tiles.

// The number of tiles may be constant, or unknown.
// CHECK-LABEL: chunk.plan @constant_end
// CHECK: chunk.footprint read "a" at #{{.+}} sizes [128]
chunk.plan @constant_end mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %c5 = arith.constant 5 : i32
    %tiles = arith.subi %c5, %c2 : i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// CHECK-LABEL: chunk.plan @num_programs
// CHECK: chunk.footprint read "a" at #{{.+}} sizes [128]
chunk.plan @num_programs mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %step = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %n step %step : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Without a loop, each program computes one tile.
// CHECK-LABEL: chunk.plan @no_loop
// CHECK: chunk.footprint read "a" at #{{.+}} sizes [128]
chunk.plan @no_loop mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  chunk.kernel @k tiles [3] ctas 3 args(%a as "a") : !chunk.buffer<400xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %t = arith.muli %pid, %c2 : i32
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// CHECK-LABEL: chunk.plan @wide_loop
// CHECK: chunk.footprint read "a" at #{{.+}} sizes [128]
chunk.plan @wide_loop mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<400xbf16> attributes {integers = {n = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %n: i32 loc("n")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %from = arith.extsi %pid : i32 to i64
    %to = arith.extsi %n : i32 to i64
    %by = arith.constant 2 : i64
    scf.for %w = %from to %to step %by : i64 {
      %t = arith.trunci %w : i64 to i32
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Terms that are used many times are looked at once.
// CHECK-LABEL: chunk.plan @shared_terms
// CHECK: chunk.footprint read "a" at #{{.+}} sizes [128]
chunk.plan @shared_terms mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<400xbf16>
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
      %s0 = arith.addi %m, %m : i32
      %s1 = arith.addi %s0, %s0 : i32
      %s2 = arith.addi %s1, %s1 : i32
      %s3 = arith.addi %s2, %s2 : i32
      %s4 = arith.addi %s3, %s3 : i32
      %s5 = arith.addi %s4, %s4 : i32
      %s6 = arith.addi %s5, %s5 : i32
      %s7 = arith.addi %s6, %s6 : i32
      %s8 = arith.addi %s7, %s7 : i32
      %s9 = arith.addi %s8, %s8 : i32
      %s10 = arith.addi %s9, %s9 : i32
      %s11 = arith.addi %s10, %s10 : i32
      %s12 = arith.addi %s11, %s11 : i32
      %s13 = arith.addi %s12, %s12 : i32
      %s14 = arith.addi %s13, %s13 : i32
      %s15 = arith.addi %s14, %s14 : i32
      %s16 = arith.addi %s15, %s15 : i32
      %s17 = arith.addi %s16, %s16 : i32
      %s18 = arith.addi %s17, %s17 : i32
      %s19 = arith.addi %s18, %s18 : i32
      %s20 = arith.addi %s19, %s19 : i32
      %s21 = arith.addi %s20, %s20 : i32
      %s22 = arith.addi %s21, %s21 : i32
      %s23 = arith.addi %s22, %s22 : i32
      %s24 = arith.addi %s23, %s23 : i32
      %s25 = arith.addi %s24, %s24 : i32
      %s26 = arith.addi %s25, %s25 : i32
      %s27 = arith.addi %s26, %s26 : i32
      %s28 = arith.addi %s27, %s27 : i32
      %s29 = arith.addi %s28, %s28 : i32
      %s30 = arith.addi %s29, %s29 : i32
      %s31 = arith.addi %s30, %s30 : i32
      %z = arith.subi %s31, %s31 : i32
      %o = arith.addi %z, %m : i32
      %x = "tt.descriptor_load"(%a, %o) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
