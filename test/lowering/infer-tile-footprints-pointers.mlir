// RUN: syncopate-opt %s --chunk-infer-tile-footprints -split-input-file -verify-diagnostics | FileCheck %s

// Rows by pointer arithmetic, with a stride that is an argument, of which a
// loop reads 32 columns at a time, as far as its mask goes.
// CHECK: #[[A:.+]] = affine_map<(d0) -> (d0 * 8, 0)>
// CHECK: #[[WRAPPED:.+]] = affine_map<(d0) -> (d0 * 8 - 20, 0)>
// CHECK-LABEL: chunk.plan @rows
// CHECK: chunk.footprint read "a" at #[[A]] sizes [8, 100]
// CHECK: chunk.footprint read "a" at #[[WRAPPED]] sizes [8, 100]
// CHECK: chunk.footprint write "b" at #[[A]] sizes [8, 100]
chunk.plan @rows mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20x100xbf16>
  %b = chunk.buffer "b" : !chunk.buffer<20x100xbf16>
  chunk.kernel @k tiles [3] ctas 3 args(%a as "a", %b as "b") : !chunk.buffer<20x100xbf16>, !chunk.buffer<20x100xbf16> attributes {integers = {stride = 100, width = 100}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>, !tt.ptr<bf16>, i32, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a"), %b: !tt.ptr<bf16> loc("b"), %stride: i32 loc("stride"), %width: i32 loc("width")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %c8 = arith.constant 8 : i32
    %c32 = arith.constant 32 : i32
    %all = arith.constant dense<20> : tensor<8xi32>
    %all2 = arith.constant dense<20> : tensor<8x1xi32>
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %first = arith.muli %m, %c8 : i32
    %firsts = "tt.splat"(%first) : (i32) -> tensor<8xi32>
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 8 : i32}> : () -> tensor<8xi32>
    %rows = arith.addi %firsts, %lanes : tensor<8xi32>
    %wrapped = arith.remsi %rows, %all : tensor<8xi32>
    %column = "tt.expand_dims"(%wrapped) <{axis = 1 : i32}> : (tensor<8xi32>) -> tensor<8x1xi32>
    %strides = "tt.splat"(%stride) : (i32) -> tensor<8x1xi32>
    %before = arith.muli %column, %strides : tensor<8x1xi32>
    %before2 = "tt.broadcast"(%before) : (tensor<8x1xi32>) -> tensor<8x32xi32>
    %k = "tt.make_range"() <{start = 0 : i32, end = 32 : i32}> : () -> tensor<32xi32>
    %k2 = "tt.expand_dims"(%k) <{axis = 0 : i32}> : (tensor<32xi32>) -> tensor<1x32xi32>
    %k3 = "tt.broadcast"(%k2) : (tensor<1x32xi32>) -> tensor<8x32xi32>
    %offset = arith.addi %before2, %k3 : tensor<8x32xi32>
    %as = "tt.splat"(%a) : (!tt.ptr<bf16>) -> tensor<8x32x!tt.ptr<bf16>>
    %ap = "tt.addptr"(%as, %offset) : (tensor<8x32x!tt.ptr<bf16>>, tensor<8x32xi32>) -> tensor<8x32x!tt.ptr<bf16>>
    %plain = "tt.expand_dims"(%rows) <{axis = 1 : i32}> : (tensor<8xi32>) -> tensor<8x1xi32>
    %inside = arith.cmpi slt, %plain, %all2 : tensor<8x1xi32>
    %inside2 = "tt.broadcast"(%inside) : (tensor<8x1xi1>) -> tensor<8x32xi1>
    %begin = arith.muli %plain, %strides : tensor<8x1xi32>
    %begin2 = "tt.broadcast"(%begin) : (tensor<8x1xi32>) -> tensor<8x32xi32>
    %place = arith.addi %begin2, %k3 : tensor<8x32xi32>
    %bs = "tt.splat"(%b) : (!tt.ptr<bf16>) -> tensor<8x32x!tt.ptr<bf16>>
    %bp = "tt.addptr"(%bs, %place) : (tensor<8x32x!tt.ptr<bf16>>, tensor<8x32xi32>) -> tensor<8x32x!tt.ptr<bf16>>
    %step = arith.constant dense<32> : tensor<8x32xi32>
    %end:2 = scf.for %turn = %c0 to %c4 step %c1 iter_args(%p = %ap, %q = %bp) -> (tensor<8x32x!tt.ptr<bf16>>, tensor<8x32x!tt.ptr<bf16>>) : i32 {
      %gone = arith.muli %turn, %c32 : i32
      %left = arith.subi %width, %gone : i32
      %lefts = "tt.splat"(%left) : (i32) -> tensor<1x32xi32>
      %more = arith.cmpi slt, %k2, %lefts : tensor<1x32xi32>
      %mask = "tt.broadcast"(%more) : (tensor<1x32xi1>) -> tensor<8x32xi1>
      %value = "tt.load"(%p, %mask) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<8x32x!tt.ptr<bf16>>, tensor<8x32xi1>) -> tensor<8x32xbf16>
      %keep = arith.andi %mask, %inside2 : tensor<8x32xi1>
      "tt.store"(%q, %value, %keep) : (tensor<8x32x!tt.ptr<bf16>>, tensor<8x32xbf16>, tensor<8x32xi1>) -> ()
      %p2 = "tt.addptr"(%p, %step) : (tensor<8x32x!tt.ptr<bf16>>, tensor<8x32xi32>) -> tensor<8x32x!tt.ptr<bf16>>
      %q2 = "tt.addptr"(%q, %step) : (tensor<8x32x!tt.ptr<bf16>>, tensor<8x32xi32>) -> tensor<8x32x!tt.ptr<bf16>>
      scf.yield %p2, %q2 : tensor<8x32x!tt.ptr<bf16>>, tensor<8x32x!tt.ptr<bf16>>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Without a mask, a row is not the end: what lies behind it is of the next.
// CHECK: #[[ROWS:.+]] = affine_map<(d0) -> ((d0 * 64) floordiv 100, 0)>
// CHECK-LABEL: chunk.plan @past_the_row
// CHECK: chunk.footprint read "a" at #[[ROWS]] sizes [2, 100]
chunk.plan @past_the_row mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20x100xbf16>
  chunk.kernel @k tiles [31] ctas 31 args(%a as "a") : !chunk.buffer<20x100xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a")):
    %c64 = arith.constant 64 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %first = arith.muli %m, %c64 : i32
    %p = "tt.addptr"(%a, %first) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
    %ps = "tt.splat"(%p) : (!tt.ptr<bf16>) -> tensor<64x!tt.ptr<bf16>>
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>
    %q = "tt.addptr"(%ps, %lanes) : (tensor<64x!tt.ptr<bf16>>, tensor<64xi32>) -> tensor<64x!tt.ptr<bf16>>
    %value = "tt.load"(%q) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<64x!tt.ptr<bf16>>) -> tensor<64xbf16>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A descriptor that the kernel makes of part of a buffer.
// CHECK: #[[PART:.+]] = affine_map<(d0) -> (d0 * 8 + 4, 0)>
// CHECK-LABEL: chunk.plan @made_descriptor
// CHECK: chunk.footprint read "a" at #[[PART]] sizes [8, 64]
chunk.plan @made_descriptor mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20x100xbf16>
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !chunk.buffer<20x100xbf16> attributes {integers = {skip = 400}} {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a"), %skip: i32 loc("skip")):
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %c16 = arith.constant 16 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %row = arith.constant 100 : i64
    %p = "tt.addptr"(%a, %skip) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
    %desc = "tt.make_tensor_descriptor"(%p, %c16, %c64, %row, %one) <{operandSegmentSizes = array<i32: 1, 2, 2>, padding = 1 : i32}> : (!tt.ptr<bf16>, i32, i32, i64, i64) -> !tt.tensordesc<tensor<8x64xbf16>>
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %first = arith.muli %m, %c8 : i32
    %value = "tt.descriptor_load"(%desc, %first, %c0) : (!tt.tensordesc<tensor<8x64xbf16>>, i32, i32) -> tensor<8x64xbf16>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// What a mask leaves out of the buffer is not written, which a box cannot say.
chunk.plan @short_mask mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile writes: it may leave out part of the region that its address spans, and what a tile writes has to be exact; write footprints=[Footprint("a", lambda m: (...,), (...,), access="write")], or in its body: chunk.footprint write "a" at affine_map<(m) -> (...)> sizes [...]}}
  chunk.kernel @k tiles [3] ctas 3 args(%a as "a") : !chunk.buffer<20xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a")):
    %c8 = arith.constant 8 : i32
    %end = arith.constant dense<19> : tensor<8xi32>
    %zero = arith.constant dense<0.0> : tensor<8xbf16>
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %first = arith.muli %m, %c8 : i32
    %firsts = "tt.splat"(%first) : (i32) -> tensor<8xi32>
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 8 : i32}> : () -> tensor<8xi32>
    %rows = arith.addi %firsts, %lanes : tensor<8xi32>
    %mask = arith.cmpi slt, %rows, %end : tensor<8xi32>
    %as = "tt.splat"(%a) : (!tt.ptr<bf16>) -> tensor<8x!tt.ptr<bf16>>
    %p = "tt.addptr"(%as, %rows) : (tensor<8x!tt.ptr<bf16>>, tensor<8xi32>) -> tensor<8x!tt.ptr<bf16>>
    // expected-note @+1 {{the access by tt.store}}
    "tt.store"(%p, %zero, %mask) : (tensor<8x!tt.ptr<bf16>>, tensor<8xbf16>, tensor<8xi1>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A stride that only the launch decides.
chunk.plan @unknown_stride mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: its address is not affine in the tile coordinates}}
  chunk.kernel @k tiles [3] ctas 3 args(%a as "a") : !chunk.buffer<20xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a")):
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{what is not understood}}
    %stride = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %first = arith.muli %m, %stride : i32
    %p = "tt.addptr"(%a, %first) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
    // expected-note @+1 {{the access by tt.load}}
    %value = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<bf16>) -> bf16
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A pointer that becomes an integer is not seen any more, whatever is written.
chunk.plan @hidden_pointer mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20xbf16>
  // expected-error @+1 {{expects "a" to be used by loads and stores only, but tt.ptr_to_int hides what is accessed by it, which no footprint can make up for}}
  chunk.kernel @k tiles [3] ctas 3 args(%a as "a") : !chunk.buffer<20xbf16> {
    chunk.footprint read "a" at affine_map<(m) -> (0)> sizes [20]
  }
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a")):
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    // expected-note @+1 {{here}}
    %address = "tt.ptr_to_int"(%a) : (!tt.ptr<bf16>) -> i64
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A store that no marker stands before belongs to no tile.
chunk.plan @store_before_marker mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20xbf16>
  // expected-error @+1 {{expects stores to "a" to stand behind the tile marker, in the same loop body: elsewhere, they are no tile's}}
  chunk.kernel @k tiles [3] ctas 3 args(%a as "a") : !chunk.buffer<20xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a")):
    %zero = arith.constant 0.0 : bf16
    // expected-note @+1 {{the store}}
    "tt.store"(%a, %zero) : (!tt.ptr<bf16>, bf16) -> ()
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    // expected-note @+1 {{the marker}}
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// The output is no buffer of the plan, and still another tile's.
chunk.plan @address_of_position mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20xbf16>
  // expected-error @+1 {{expects addresses to be made of the coordinates that the tile marker returns, but one is made of the position in the order, which is another tile's in the fused kernel}}
  chunk.kernel @k tiles [20] ctas 4 args(%a as "a") : !chunk.buffer<20xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a"), %out: !tt.ptr<bf16> loc("out")):
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %c4 = arith.constant 4 : i32
    %c20 = arith.constant 20 : i32
    // expected-note @+1 {{the position}}
    scf.for %t = %pid to %c20 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %p = "tt.addptr"(%a, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
      %value = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<bf16>) -> bf16
      %q = "tt.addptr"(%out, %t) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
      // expected-note @+1 {{the access by tt.store}}
      "tt.store"(%q, %value) : (!tt.ptr<bf16>, bf16) -> ()
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A loop may exchange the pointers of two arguments: neither says which it is.
chunk.plan @exchanged mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<20xbf16>
  %b = chunk.buffer "b" : !chunk.buffer<20xbf16>
  // expected-error @+1 {{cannot infer which part of "a" a tile reads: its address is not affine in the tile coordinates}}
  chunk.kernel @k tiles [3] ctas 3 args(%a as "a", %b as "b") : !chunk.buffer<20xbf16>, !chunk.buffer<20xbf16> {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<bf16>, !tt.ptr<bf16>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<bf16> loc("a"), %b: !tt.ptr<bf16> loc("b")):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    // expected-note @+1 {{what is not understood}}
    %end:2 = scf.for %turn = %c0 to %c4 step %c1 iter_args(%p = %a, %q = %b) -> (!tt.ptr<bf16>, !tt.ptr<bf16>) : i32 {
      %at = "tt.addptr"(%p, %m) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
      // expected-note @+1 {{the access by tt.load}}
      %value = "tt.load"(%at) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<bf16>) -> bf16
      scf.yield %q, %p : !tt.ptr<bf16>, !tt.ptr<bf16>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
