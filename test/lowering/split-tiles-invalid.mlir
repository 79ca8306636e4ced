// RUN: syncopate-opt %s --chunk-infer-tile-footprints -split-input-file -verify-diagnostics

// How a kernel may not walk the parts of tiles of its last round, or store them.

!b = !chunk.buffer<640xf32>
chunk.plan @one_loop mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects a loop over the tiles of whole rounds and one over the parts of those of the last one, whose marker has one more coordinate}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!b = !chunk.buffer<640xf32>
chunk.plan @starts_elsewhere mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects the loop over parts of tiles to start at 4 and the program's number and to step by 4, the CTAs of the kernel, but it starts elsewhere}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c0 : i32
    // expected-note @+1 {{here}}
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!b = !chunk.buffer<640xf32>
chunk.plan @ends_elsewhere mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects the loop over parts of tiles to end at 7, behind them, but it ends at 4}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c4 : i32
    // expected-note @+1 {{here}}
    scf.for %t = %begin to %c4 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!b = !chunk.buffer<640xf32>
chunk.plan @whole_tiles_end_elsewhere mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects the loop over whole tiles to end at 4, the number of whole tiles, but it ends at 7}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    // expected-note @+1 {{here}}
    scf.for %t = %pid to %c7 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c4 : i32
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!b = !chunk.buffer<640xf32>
chunk.plan @every_part_stores mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects stores to "c" of a tile that several CTAs compute to stand in a branch that only the last of them takes, by what last_part returns}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c4 : i32
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// something.else\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        // expected-note @+1 {{the store}}
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!b = !chunk.buffer<640xf32>
chunk.plan @others_store mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects stores to "c" of a tile that several CTAs compute to stand in a branch that only the last of them takes, by what last_part returns}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c4 : i32
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi eq, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        // expected-note @+1 {{the store}}
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!b = !chunk.buffer<640xf32>
chunk.plan @writes_less mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects tiles that several CTAs compute to write to "c" what others do}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
    }
    %begin = arith.addi %pid, %c4 : i32
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %c4 : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        // expected-note @+1 {{the store}}
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!b = !chunk.buffer<640xf32>
chunk.plan @whole_tile_in_a_branch mesh [2] {
  %c = chunk.buffer "c" : !b
  %made = chunk.produce %c[0] sizes [640] on 0 : !b
  // expected-error @+1 {{expects stores to "c" of a tile that one CTA computes to stand in no branch by what last_part returns}}
  chunk.kernel @k tiles [5] ctas 4 parts 3 args(%c as "c") : !b {}
}
module @ttir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, !tt.ptr<i8>, !tt.ptr<f32>, tensor<128xf32>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %x: tensor<128xf32>, %arrived: i32):
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c7 = arith.constant 7 : i32
    %size = arith.constant 128 : i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %lanes = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %base = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    scf.for %t = %pid to %c4 step %c4 : i32 {
      %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %first = arith.muli %m, %size : i32
      %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
      %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
      %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
      %first_last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %first_is = arith.cmpi ne, %first_last, %c0 : i32
      scf.if %first_is {
        // expected-note @+1 {{the store}}
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    %begin = arith.addi %pid, %c4 : i32
    scf.for %t = %begin to %c7 step %c4 : i32 {
      %m, %part, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
      "tt.use"(%part) : (i32) -> ()
      %last = "tt.elementwise_inline_asm"(%arrived) <{asm_string = "// syncopate.last_part\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32) -> i32
      %is = arith.cmpi ne, %last, %c0 : i32
      scf.if %is {
        %first = arith.muli %m, %size : i32
        %firsts = "tt.splat"(%first) : (i32) -> tensor<128xi32>
        %offsets = arith.addi %firsts, %lanes : tensor<128xi32>
        %p = "tt.addptr"(%base, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
        "tt.store"(%p, %x) : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>) -> ()
      }
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}
