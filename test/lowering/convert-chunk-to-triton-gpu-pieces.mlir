// RUN: syncopate-opt %s --convert-chunk-to-triton-gpu -split-input-file -verify-diagnostics | FileCheck %s

// The code between a piece and its yield takes the place of each use in the same part of the outline, and is no longer
// where it was; what it shares with other code stays.
// CHECK-LABEL: module @ttgir
// CHECK: "ttg.warp_specialize"(%[[RING:[^)]+]]) ({
// CHECK-NEXT: %[[ONE:.+]] = "tt.shared"()
// CHECK-NEXT: "tt.done"(%[[T:[^)]+]])
// CHECK-NEXT: "tt.store"(%[[RING]], %[[T]], %[[ONE]])
// CHECK-NEXT: "tt.done"(%[[ONE]])
// CHECK-NEXT: "tt.store"(%[[RING]], %[[ONE]], %[[ONE]])
// CHECK-NEXT: "tt.keep"(%[[ONE]])
// CHECK-NEXT: "ttg.warp_yield"
// CHECK: ^bb0(%[[CAPTURED:[^:]+]]: !ttg.mem):
// CHECK-NEXT: scf.if %{{.+}} {
// CHECK-NEXT: %[[TILE:.+]] = "tt.load"(%[[CAPTURED]], %{{.+}})
// CHECK-NEXT: "tt.run"(%[[TILE]])
// CHECK-NEXT: }
// CHECK-NEXT: "ttg.warp_return"
module @device {}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%ring: !ttg.mem, %t: i32, %c: i1):
    "ttg.warp_specialize"(%ring) ({
      %one = "tt.shared"() : () -> i32
      "tt.done"(%t) : (i32) -> ()
      %d0 = "tt.elementwise_inline_asm"(%t) <{asm_string = "// syncopate.use.hand_over\0A"}> : (i32) -> i32
      "tt.done"(%one) : (i32) -> ()
      %d1 = "tt.elementwise_inline_asm"(%one) <{asm_string = "// syncopate.use.hand_over\0A"}> : (i32) -> i32
      %given = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.piece.hand_over\0A"}> : () -> i32
      "tt.store"(%ring, %given, %one) : (!ttg.mem, i32, i32) -> ()
      %d2 = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.yield\0A"}> : () -> i32
      "tt.keep"(%one) : (i32) -> ()
      "ttg.warp_yield"() : () -> ()
    }, {
    ^bb0(%captured: !ttg.mem):
      scf.if %c {
        %tile = "tt.elementwise_inline_asm"(%t) <{asm_string = "// syncopate.use.take\0A"}> : (i32) -> i32
        "tt.run"(%tile) : (i32) -> ()
      }
      %number = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.piece.take\0A"}> : () -> i32
      %loaded = "tt.load"(%captured, %number) : (!ttg.mem, i32) -> i32
      %d3 = "tt.elementwise_inline_asm"(%loaded) <{asm_string = "// syncopate.yield\0A"}> : (i32) -> i32
      "ttg.warp_return"() : () -> ()
    }) : (!ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
module @device {}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%t: i32):
    // expected-error @+1 {{uses piece 'hand_over', which its outline lacks}}
    %d = "tt.elementwise_inline_asm"(%t) <{asm_string = "// syncopate.use.hand_over\0A"}> : (i32) -> i32
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
module @device {}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%t: i32):
    // expected-error @+1 {{expects a yield behind piece 'take'}}
    %d = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.piece.take\0A"}> : () -> i32
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
module @device {}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%t: i32):
    // expected-error @+1 {{expects piece 'take' to take ('i32', 'i32') and to yield ('i32')}}
    %d = "tt.elementwise_inline_asm"(%t) <{asm_string = "// syncopate.use.take\0A"}> : (i32) -> i32
    %a, %b = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.piece.take\0A"}> : () -> (i32, i32)
    %e = "tt.elementwise_inline_asm"(%b) <{asm_string = "// syncopate.yield\0A"}> : (i32) -> i32
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
module @device {}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%t: i32):
    // expected-error @+1 {{expects piece 'take' to be used by its own code only}}
    %a = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.piece.take\0A"}> : () -> i32
    %e = "tt.elementwise_inline_asm"(%a) <{asm_string = "// syncopate.yield\0A"}> : (i32) -> i32
    "tt.use"(%a) : (i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
