// RUN: syncopate-opt %s --convert-chunk-to-triton-gpu -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: module @ttgir
// CHECK: ^bb0(%[[CTX:.+]]: !tt.ptr<i64>, %[[INPUT:.+]]: !tt.ptr<i8>, %[[T:.+]]: i32):
// CHECK-NEXT: "tt.open"(%[[CTX]])
// CHECK-NEXT: "ttg.warp_specialize"(%[[CTX]], %[[INPUT]]) <{partitionNumWarps = array<i32: 4>}> ({
// CHECK-NEXT: "tt.read"(%[[CTX]], %[[T]])
// CHECK-NEXT: "tt.use"(%{{.+}}#0)
// CHECK-NEXT: "ttg.warp_yield"
// CHECK: "ttg.warp_specialize.partitions"() ({
// CHECK-NEXT: ^bb0(%[[CAPTURED:.+]]: !tt.ptr<i64>, %[[SOURCE:.+]]: !tt.ptr<i8>):
// CHECK-NEXT: "tt.copy"(%[[CAPTURED]], %[[SOURCE]])
// CHECK-NEXT: "ttg.warp_return"
// CHECK: "tt.close"(%[[CTX]])
// CHECK-NEXT: "tt.return"
// CHECK-NOT: chunk.
// CHECK-NOT: module @device
// CHECK: // -----
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8>, %t: i32):
    chunk.roles %context, %input : !tt.ptr<i64>, !tt.ptr<i8> compute {
      %c0, %c1, %c2, %b, %e = chunk.read_tile %context[%t] : !tt.ptr<i64>
      "tt.use"(%c0) : (i32) -> ()
    } communicate {
      chunk.run_commands %context, %input realize ldst_colocated : !tt.ptr<i64>, !tt.ptr<i8>
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @device {
  module @read_tile {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %t: i32):
      %r:5 = "tt.read"(%ctx, %t) : (!tt.ptr<i64>, i32) -> (i32, i32, i32, i32, i32)
      %d = "tt.elementwise_inline_asm"(%r#0, %r#1, %r#2, %r#3, %r#4) <{asm_string = "// syncopate.yield\0Amov.b32 $0, 0;"}> : (i32, i32, i32, i32, i32) -> i32
      "tt.return"() : () -> ()
    }) : () -> ()
  }
  module @run_commands_ldst {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %input: !tt.ptr<i8>):
      "tt.copy"(%ctx, %input) : (!tt.ptr<i64>, !tt.ptr<i8>) -> ()
      "tt.return"() : () -> ()
    }) : () -> ()
  }
  module @roles_colocated {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %input: !tt.ptr<i8>):
      "tt.open"(%ctx) : (!tt.ptr<i64>) -> ()
      "ttg.warp_specialize"(%ctx, %input) <{partitionNumWarps = array<i32: 4>}> ({
        %d = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.compute\0Amov.b32 $0, 0;"}> : () -> i32
        "ttg.warp_yield"() : () -> ()
      }, {
        "ttg.warp_specialize.partitions"() ({
        ^bb0(%captured: !tt.ptr<i64>, %source: !tt.ptr<i8>):
          %d = "tt.elementwise_inline_asm"(%captured, %source) <{asm_string = "// syncopate.communicate\0Amov.b32 $0, 0;"}> : (!tt.ptr<i64>, !tt.ptr<i8>) -> i32
          "ttg.warp_return"() : () -> ()
        }) : () -> ()
      }) : (!tt.ptr<i64>, !tt.ptr<i8>) -> ()
      "tt.close"(%ctx) : (!tt.ptr<i64>) -> ()
      "tt.return"() : () -> ()
    }) : () -> ()
  }
}

// -----
module @device {}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %b: i32):
    // expected-error @+1 {{needs function @wait_signals of module @device}}
    chunk.wait %context[%b to %b] : !tt.ptr<i64>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %b: i32):
    // expected-error @+1 {{expects device function @wait_signals to take ('!tt.ptr<i64>', 'i32', 'i32'), but it takes ('!tt.ptr<i64>')}}
    chunk.wait %context[%b to %b] : !tt.ptr<i64>
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @device {
  module @wait_signals {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>):
      "tt.return"() : () -> ()
    }) : () -> ()
  }
}

// -----
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %t: i32):
    // expected-error @+1 {{expects one '// syncopate.yield' in its device function, but got 0}}
    %c0, %c1, %c2, %b, %e = chunk.read_tile %context[%t] : !tt.ptr<i64>
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @device {
  module @read_tile {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %t: i32):
      "tt.return"() : () -> ()
    }) : () -> ()
  }
}

// -----
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %t: i32):
    // expected-error @+1 {{needs function @read_tile of module @device}}
    %c0, %c1, %c2, %b, %e = chunk.read_tile %context[%t] : !tt.ptr<i64>
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @device {
  module @read_tile {
    "tt.func"() {sym_name = "entry"} : () -> ()
  }
}

// -----
module @device {}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8>):
    // expected-error @+1 {{expects realization ldst_colocated, but got copy_engine}}
    chunk.run_commands %context, %input realize copy_engine : !tt.ptr<i64>, !tt.ptr<i8>
    "tt.return"() : () -> ()
  }) : () -> ()
}
