// RUN: syncopate-opt %s --chunk-infer-tile-footprints -split-input-file -verify-diagnostics | FileCheck %s

// A GEMM's operands: rows by the tile, all of K by the loop inside it.
// CHECK-DAG: #[[A:.+]] = affine_map<(d0, d1) -> (d0 * 128, 0)>
// CHECK-DAG: #[[B:.+]] = affine_map<(d0, d1) -> (d1, d1)>
// CHECK-DAG: #[[C0:.+]] = affine_map<(d0, d1) -> (d0 * 128, d1 * 128)>
// CHECK-DAG: #[[C1:.+]] = affine_map<(d0, d1) -> (d0 * 128, d1 * 128 + 64)>
// CHECK-LABEL: chunk.plan @gemm
chunk.plan @gemm mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300x200xbf16>
  %b = chunk.buffer "b" : !chunk.buffer<300x200xbf16>
  %c = chunk.buffer "c" : !chunk.buffer<300x300xbf16>
  chunk.kernel @gemm tiles [3, 3] ctas 2 args(%a as "a_desc", %b as "b_desc", %c as "c_desc") : !chunk.buffer<300x200xbf16>, !chunk.buffer<300x200xbf16>, !chunk.buffer<300x300xbf16> attributes {integers = {tiles = 9}} {
    // What is written by hand stays.
    // CHECK: chunk.footprint read "b_desc" at #[[B]] sizes [7, 7]
    chunk.footprint read "b_desc" at affine_map<(m, n) -> (n, n)> sizes [7, 7]
    // CHECK: chunk.footprint read "a_desc" at #[[A]] sizes [128, 200]
    // CHECK: chunk.footprint write "c_desc" at #[[C0]] sizes [128, 64]
    // CHECK: chunk.footprint write "c_desc" at #[[C1]] sizes [128, 64]
  }
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128x64xbf16>>, !tt.tensordesc<tensor<128x64xbf16>>, !tt.tensordesc<tensor<128x64xbf16>>, i32) -> (), sym_name = "gemm"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128x64xbf16>> loc("a_desc"), %b: !tt.tensordesc<tensor<128x64xbf16>> loc("b_desc"), %c: !tt.tensordesc<tensor<128x64xbf16>> loc("c_desc"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %n, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0Amov.b32 $0, $3;", constraints = "=r,=r,=r,r,r,r,r", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      %row = arith.muli %m, %c128 : i32
      scf.for %k = %c0 to %tiles step %c1 : i32 {
        %col = arith.muli %k, %c64 : i32
        %load = "tt.descriptor_load"(%a, %row, %col) : (!tt.tensordesc<tensor<128x64xbf16>>, i32, i32) -> tensor<128x64xbf16>
        %other = "tt.descriptor_load"(%b, %row, %col) : (!tt.tensordesc<tensor<128x64xbf16>>, i32, i32) -> tensor<128x64xbf16>
      }
      %value = "tt.make"() : () -> tensor<128x64xbf16>
      %left = arith.muli %n, %c128 : i32
      %right = arith.addi %left, %c64 : i32
      "tt.descriptor_store"(%c, %value, %row, %left) : (!tt.tensordesc<tensor<128x64xbf16>>, tensor<128x64xbf16>, i32, i32) -> ()
      "tt.descriptor_store"(%c, %value, %row, %right) : (!tt.tensordesc<tensor<128x64xbf16>>, tensor<128x64xbf16>, i32, i32) -> ()
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @no_module mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{has no footprint of argument "a": write a chunk.footprint in its body, or give its function in a module @ttir}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> {}
}

// -----
chunk.plan @no_marker mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{expects a tile marker in the kernel}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %x = "tt.descriptor_load"(%a, %t) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @marker_of_two mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{expects markers of 1 coordinates, as its grid has, but got 2}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      // expected-note @+1 {{the marker}}
      %m, %n, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @no_argument mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{binds argument "q", which the kernel lacks}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "q") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  // expected-note @+1 {{the kernel}}
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %x = "tt.descriptor_load"(%a, %m) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @unused mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{binds argument "a", which the kernel never uses}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)

    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @pointer_unused mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{binds argument "a", which the kernel never uses}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %p = "tt.addptr"(%a, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @not_affine mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: the offset of dimension 0 is not affine in the tile coordinates; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{what is not understood}}
      %x = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
      %r = arith.remsi %m, %x : i32
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %y = "tt.descriptor_load"(%a, %r) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @square mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: the offset of dimension 0 is not affine in the tile coordinates; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{what is not understood}}
      %r = arith.muli %m, %m : i32
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %r) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @ordinal mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: the offset of dimension 0 is not affine in the tile coordinates; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      // expected-note @+1 {{what is not understood}}
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %i) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @tile_loop mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: the offset of dimension 0 comes from the position in the order, not from the coordinates that the tile marker returns; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<128xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<128xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{what is not understood}}
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %t) : (!tt.tensordesc<tensor<128xbf16>>, i32) -> tensor<128xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @two_dimensions mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<300xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: it has 2 dimensions, but the buffer has 1; write footprints=[Footprint("a", lambda m: (...,), (...,))], or in its body: chunk.footprint read "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 2 args(%a as "a") : !chunk.buffer<300xbf16> attributes {integers = {tiles = 3}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.tensordesc<tensor<8x8xbf16>>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.tensordesc<tensor<8x8xbf16>> loc("a"), %tiles: i32 loc("tiles")):
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    scf.for %t = %pid to %tiles step %c2 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      // expected-note @+1 {{the access by tt.descriptor_load}}
      %x = "tt.descriptor_load"(%a, %m, %m) : (!tt.tensordesc<tensor<8x8xbf16>>, i32, i32) -> tensor<8x8xbf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
