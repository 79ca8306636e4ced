// RUN: syncopate-opt %s --convert-chunk-to-triton-gpu -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: module @ttgir
// CHECK: ^bb0(%[[CTX:.+]]: !tt.ptr<i64>, %[[INPUT:.+]]: !tt.ptr<i8>, %[[T:.+]]: i32):
// CHECK-NEXT: "tt.open"(%[[CTX]])
// CHECK-NEXT: "tt.test"(%[[CTX]])
// CHECK-NEXT: scf.if
// CHECK-NEXT: "tt.copy_alone"(%[[CTX]], %[[INPUT]])
// CHECK-NEXT: } else {
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
    } communicate ldst_dedicated {
      chunk.run_commands %context, %input realize ldst_dedicated : !tt.ptr<i64>, !tt.ptr<i8>
    } communicate ldst_colocated {
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
  module @run_commands_ldst_dedicated {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %input: !tt.ptr<i8>):
      "tt.copy_alone"(%ctx, %input) : (!tt.ptr<i64>, !tt.ptr<i8>) -> ()
      "tt.return"() : () -> ()
    }) : () -> ()
  }
  module @run_commands_ldst_colocated {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %input: !tt.ptr<i8>):
      "tt.copy"(%ctx, %input) : (!tt.ptr<i64>, !tt.ptr<i8>) -> ()
      "tt.return"() : () -> ()
    }) : () -> ()
  }
  module @roles {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %input: !tt.ptr<i8>):
      "tt.open"(%ctx) : (!tt.ptr<i64>) -> ()
      %alone = "tt.test"(%ctx) : (!tt.ptr<i64>) -> i1
      scf.if %alone {
        %d = "tt.elementwise_inline_asm"(%ctx, %input) <{asm_string = "// syncopate.communicate.ldst_dedicated\0Amov.b32 $0, 0;"}> : (!tt.ptr<i64>, !tt.ptr<i8>) -> i32
      } else {
        "ttg.warp_specialize"(%ctx, %input) <{partitionNumWarps = array<i32: 4>}> ({
          %d = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.compute\0Amov.b32 $0, 0;"}> : () -> i32
          "ttg.warp_yield"() : () -> ()
        }, {
          "ttg.warp_specialize.partitions"() ({
          ^bb0(%captured: !tt.ptr<i64>, %source: !tt.ptr<i8>):
            %d = "tt.elementwise_inline_asm"(%captured, %source) <{asm_string = "// syncopate.communicate.ldst_colocated\0Amov.b32 $0, 0;"}> : (!tt.ptr<i64>, !tt.ptr<i8>) -> i32
            "ttg.warp_return"() : () -> ()
          }) : () -> ()
        }) : (!tt.ptr<i64>, !tt.ptr<i8>) -> ()
      }
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
    // expected-error @+1 {{needs function @run_commands_copy_engine of module @device}}
    chunk.run_commands %context, %input realize copy_engine : !tt.ptr<i64>, !tt.ptr<i8>
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8>):
    // An outline made for other roles.
    // expected-error @+1 {{expects one '// syncopate.communicate.ldst_dedicated' in its device function, but got 0}}
    chunk.roles %context, %input : !tt.ptr<i64>, !tt.ptr<i8> compute {
    ^bb0:
    } communicate ldst_dedicated {
    ^bb0:
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @device {
  module @roles {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %input: !tt.ptr<i8>):
      %c = "tt.elementwise_inline_asm"() <{asm_string = "// syncopate.compute\0Amov.b32 $0, 0;"}> : () -> i32
      %d = "tt.elementwise_inline_asm"(%ctx, %input) <{asm_string = "// syncopate.communicate.ldst_colocated\0Amov.b32 $0, 0;"}> : (!tt.ptr<i64>, !tt.ptr<i8>) -> i32
      "tt.return"() : () -> ()
    }) : () -> ()
  }
}

// -----
// What a device function allocates stands for the block that rows are stored of.
// CHECK-LABEL: module @ttgir
// CHECK: ^bb0(%[[CTX:.+]]: !tt.ptr<i64>, %[[R:.+]]: i32, %[[S:.+]]: !ttg.memdesc<8x8xbf16, #shared>):
// CHECK-NEXT: %[[V:.+]] = "ttg.local_load"(%[[S]])
// CHECK-NEXT: "tt.store_rows"(%[[CTX]], %[[R]], %[[R]], %[[R]], %[[V]])
// CHECK-NEXT: "tt.return"
// CHECK-NOT: ttg.local_alloc
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %r: i32, %s: !ttg.memdesc<8x8xbf16, #shared>):
    chunk.store_rows %context[%r] row %r column %r of %s : !tt.ptr<i64>, !ttg.memdesc<8x8xbf16, #shared>
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @device {
  module @store_rows {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %rows: i32, %row: i32, %column: i32):
      %a = "ttg.local_alloc"() : () -> !ttg.memdesc<8x8xbf16, #plain>
      %v = "ttg.local_load"(%a) : (!ttg.memdesc<8x8xbf16, #plain>) -> i32
      "tt.store_rows"(%ctx, %rows, %row, %column, %v) : (!tt.ptr<i64>, i32, i32, i32, i32) -> ()
      "tt.return"() : () -> ()
    }) : () -> ()
  }
}

// -----
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %r: i32, %s: !ttg.memdesc<8x4xbf16, #shared>):
    // expected-error @+1 {{expects its device function to allocate a block like '!ttg.memdesc<8x4xbf16, #shared>'}}
    chunk.store_rows %context[%r] row %r column %r of %s : !tt.ptr<i64>, !ttg.memdesc<8x4xbf16, #shared>
    "tt.return"() : () -> ()
  }) : () -> ()
}
module @device {
  module @store_rows {
    "tt.func"() <{sym_name = "entry"}> ({
    ^bb0(%ctx: !tt.ptr<i64>, %rows: i32, %row: i32, %column: i32):
      %a = "ttg.local_alloc"() : () -> !ttg.memdesc<8x8xbf16, #plain>
      "tt.return"() : () -> ()
    }) : () -> ()
  }
}
