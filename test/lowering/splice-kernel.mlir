// RUN: syncopate-opt %s --chunk-splice-kernel -split-input-file -verify-diagnostics | FileCheck %s

// Every clone of the marker is replaced, wherever the pipeliner has put it; the ordinal stays what it was.
// CHECK-LABEL: module @ttgir
// CHECK: "tt.func"
// CHECK-NEXT: ^bb0(%[[CTX:.+]]: !tt.ptr<i64>, %[[INPUT:.+]]: !tt.ptr<i8>, %[[TILES:.+]]: i32):
// CHECK-NEXT: chunk.roles %[[CTX]], %[[INPUT]] : !tt.ptr<i64>, !tt.ptr<i8> compute {
// CHECK: %[[C0:.+]], %[[C1:.+]], %{{.+}}, %[[B:.+]], %[[E:.+]] = chunk.read_tile %[[CTX]][%[[T:.+]]] : !tt.ptr<i64>
// CHECK-NEXT: chunk.wait %[[CTX]][%[[B]] to %[[E]]] : !tt.ptr<i64>
// CHECK-NEXT: "tt.use"(%[[C0]], %[[C1]], %[[TILES]])
// CHECK: scf.for
// CHECK: chunk.read_tile
// CHECK-NOT: syncopate.tile
// CHECK: } communicate ldst_colocated {
// CHECK-NEXT: chunk.run_commands %[[CTX]], %[[INPUT]] realize ldst_colocated : !tt.ptr<i64>, !tt.ptr<i8>
// CHECK-NEXT: }
// CHECK-NEXT: "tt.return"
chunk.plan @colocated mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 realize copy_engine : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  %t1 = chunk.put %a[0] to %a[0] sizes [1] from 1 to 0 realize ldst_colocated : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  chunk.kernel @k tiles [3, 3] ctas 2 args() {}
}
module @ttgir attributes {"ttg.num-warps" = 4 : i32} {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %tiles: i32):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %m, %n, %i = "tt.elementwise_inline_asm"(%c0, %c1, %tiles, %c0) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
    "tt.use"(%m, %n, %i) : (i32, i32, i32) -> ()
    scf.for %t = %c0 to %tiles step %c1 : i32 {
      %x, %y, %z = "tt.elementwise_inline_asm"(%c0, %c1, %tiles, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// The engine needs no role in the kernel.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.roles
// CHECK-NOT: communicate
// CHECK: "tt.return"
chunk.plan @engine mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 realize copy_engine : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  chunk.kernel @k tiles [3] ctas 2 args() {}
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %t: i32):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// Where CTAs in front are for communication alone, the kernel's own code sees the others only.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.roles %[[CTX:.+]], %[[INPUT:.+]] : !tt.ptr<i64>, !tt.ptr<i8> compute {
// CHECK-NEXT: %[[ID:.+]] = "tt.get_program_id"() <{axis = 0 : i32}>
// CHECK-NEXT: %[[FRONT:.+]] = arith.constant 5 : i32
// CHECK-NEXT: %[[MINE:.+]] = arith.subi %[[ID]], %[[FRONT]] : i32
// CHECK-NEXT: %[[Y:.+]] = "tt.get_program_id"() <{axis = 1 : i32}>
// CHECK-NEXT: chunk.read_tile %[[CTX]][%[[MINE]]]
// CHECK: %[[NUM:.+]] = "tt.get_num_programs"() <{axis = 0 : i32}>
// CHECK-NEXT: arith.constant 5 : i32
// CHECK-NEXT: %[[FEWER:.+]] = arith.subi %[[NUM]], %{{.+}} : i32
// CHECK-NEXT: "tt.use"(%{{.+}}, %[[FEWER]], %[[Y]])
// CHECK-NEXT: } communicate ldst_dedicated {
// CHECK-NEXT: chunk.run_commands %[[CTX]], %[[INPUT]] realize ldst_dedicated
// CHECK-NEXT: } communicate ldst_colocated {
// CHECK-NEXT: chunk.run_commands %[[CTX]], %[[INPUT]] realize ldst_colocated
chunk.plan @dedicated mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 realize ldst_colocated : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  %t1 = chunk.put %a[0] to %a[0] sizes [1] from 1 to 0 realize ldst_dedicated : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  chunk.kernel @k tiles [3] ctas 2 comm_ctas 5 args() {}
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input")):
    %t = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %y = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %n = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
    "tt.use"(%m, %n, %y) : (i32, i32, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @no_module mesh [2] {
  // expected-error @+1 {{expects a function of this name in a module @ttgir}}
  chunk.kernel @k tiles [3] ctas 2 args() {}
}

// -----
chunk.plan @no_marker mesh [2] {
  // expected-error @+1 {{expects a tile marker in the kernel}}
  chunk.kernel @k tiles [3] ctas 2 args() {}
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input")):
    // Another marker than a tile's.
    "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.tiles"}> : () -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @no_context mesh [2] {
  // expected-error @+1 {{expects a kernel without a return before its end, whose arguments are the context, 'sy_input', and its own}}
  chunk.kernel @k tiles [3] ctas 2 args() {}
}
module @ttgir {
  "tt.func"() <{function_type = () -> (), sym_name = "k"}> ({
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
chunk.plan @no_body mesh [2] {
  // expected-error @+1 {{expects a function of this name in a module @ttgir}}
  chunk.kernel @k tiles [3] ctas 2 args() {}
}
module @ttgir {
  "tt.func"() {sym_name = "k"} : () -> ()
}

// -----
chunk.plan @empty_body mesh [2] {
  // expected-error @+1 {{expects a function of this name in a module @ttgir}}
  chunk.kernel @k tiles [3] ctas 2 args() {}
}
module @ttgir {
  "tt.func"() ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input")):
  }) {sym_name = "k"} : () -> ()
}
