// RUN: syncopate-opt %s --chunk-splice-kernel -split-input-file -verify-diagnostics | FileCheck %s

// Which tile a store belongs to follows from the coordinates that its address is made of; its number is in the table.
// CHECK-LABEL: module @ttgir
// CHECK: %[[M:.+]], %[[N:.+]], %{{.+}}, %{{.+}}, %{{.+}} = chunk.read_tile %[[CONTEXT:.+]][%[[POSITION:.+]]]
// CHECK: %[[TILE:.+]] = chunk.tile_number %[[CONTEXT]][%[[POSITION]]]
// CHECK: "ttng.async_tma_copy_local_to_global"(%{{.+}}, %[[M]], %[[N]], %{{.+}})
// CHECK: chunk.finish_tile %{{.+}}[%[[TILE]]] bulk : !tt.ptr<i64>
// CHECK-NOT: chunk.tile_sum
!b = !chunk.buffer<4x12xf32>
chunk.plan @overwrites mesh [2] {
  %a = chunk.buffer "a" : !b
  %m = chunk.produce %a[0, 0] sizes [4, 12] on 0 : !b
  chunk.kernel @k tiles [2, 3] ctas 2 args(%a as "c_desc") : !b {
    chunk.footprint write "c_desc" at affine_map<(m, n) -> (m * 2, n * 4)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %n, %i = "tt.elementwise_inline_asm"(%t, %t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32, i32) -> (i32, i32, i32)
    "ttng.async_tma_copy_local_to_global"(%c, %m, %n, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A tile in two stores is done after the second. Where tiles add on some rank, each store asks the table.
// CHECK-LABEL: module @ttgir
// CHECK: %[[ADDS:.+]], %[[BEGIN:.+]], %[[END:.+]] = chunk.tile_sum %[[CTX:.+]][%{{.+}}] : !tt.ptr<i64>
// CHECK: %[[IF:.+]] = arith.cmpi ne, %[[ADDS]], %{{.+}} : i32
// CHECK-NEXT: scf.if %[[IF]] {
// CHECK-NEXT: chunk.wait %[[CTX]][%[[BEGIN]] to %[[END]]]
// CHECK-NEXT: "ttng.async_tma_reduce"(%{{.+}}) <{kind = 1 : i32}>
// CHECK-NEXT: } else {
// CHECK-NEXT: "ttng.async_tma_copy_local_to_global"
// CHECK-NEXT: }
// CHECK-NOT: chunk.finish_tile
// CHECK: chunk.tile_sum
// CHECK: "ttng.async_tma_reduce"
// CHECK: chunk.finish_tile %{{.+}} bulk
!d = !chunk.buffer<4x8xf32>
chunk.plan @adds mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  %p = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 8] from 0 to 1 after(%m) realize copy_engine : !d to !d
  %s = chunk.produce %a[0, 0] sizes [4, 8] on 1 reduce sum after(%p) : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c_desc") : !d {
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 4)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "ttng.async_tma_copy_local_to_global"(%c, %m, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "ttng.async_tma_copy_local_to_global"(%c, %m, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A pipelined loop carries the coordinates of a tile until it stores it, when those of the next are at hand. A branch
// chooses them where a loop over tiles and one inside are one: then the number of the tile is chosen and carried, too.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.read_tile
// CHECK: %[[FIRST:.+]] = chunk.tile_number
// CHECK: %[[ZERO:.+]] = arith.constant 0 : i32
// CHECK: scf.for {{.*}} iter_args(%{{.+}} = %{{.+}}, %[[LATER:.+]] = %{{.+}}, %[[TILE:[a-z0-9]+]] = %[[ZERO]], %[[NEXT:[a-z0-9]+]] = %[[FIRST]])
// CHECK: %[[IF:.+]]:2 = scf.if
// CHECK: chunk.read_tile
// CHECK: %[[READ:.+]] = chunk.tile_number
// CHECK: scf.yield %{{.+}}, %[[READ]] : i32, i32
// CHECK: } else {
// CHECK: scf.yield %{{.+}}, %[[NEXT]] : i32, i32
// CHECK: "ttng.async_tma_copy_local_to_global"
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[TILE]]] bulk
// CHECK: scf.yield %{{.+}}, %{{.+}}, %[[NEXT]], %[[IF]]#1 : i32, i32, i32, i32
!d = !chunk.buffer<4x8xf32>
chunk.plan @pipelined mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c_desc") : !d {
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %last: i1, %s: !ttg.mem):
    %two = arith.constant 2 : i32
    %zero = arith.constant 0 : i32
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %row = arith.muli %m, %two : i32
    %r:2 = scf.for %k = %t to %two step %two iter_args(%stored = %zero, %loaded = %row) -> (i32, i32) : i32 {
      %next = scf.if %last -> i32 {
        %m2, %i2 = "tt.elementwise_inline_asm"(%k, %k, %k) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
        %row2 = arith.muli %m2, %two : i32
        scf.yield %row2 : i32
      } else {
        scf.yield %loaded : i32
      }
      "ttng.async_tma_copy_local_to_global"(%c, %stored, %zero, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
      scf.yield %loaded, %next : i32, i32
    }
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// What a loop ends with, and what a select chooses.
// CHECK-LABEL: module @ttgir
// CHECK: chunk.read_tile
// CHECK: %[[FIRST:.+]] = chunk.tile_number
// CHECK: %[[LOOP:.+]]:2 = scf.for {{.*}} iter_args(%{{.+}} = %{{.+}}, %[[TILE:.+]] = %[[FIRST]])
// CHECK: chunk.read_tile
// CHECK: %[[READ:.+]] = chunk.tile_number
// CHECK: %[[CHOSEN:.+]] = arith.select %{{.+}}, %[[READ]], %[[TILE]] : i32
// CHECK: scf.yield %{{.+}}, %[[CHOSEN]] : i32, i32
// CHECK: "ttng.async_tma_copy_local_to_global"(%{{.+}}, %[[LOOP]]#0
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[LOOP]]#1] bulk
!d = !chunk.buffer<4x8xf32>
chunk.plan @behind mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c_desc") : !d {
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %last: i1, %s: !ttg.mem):
    %two = arith.constant 2 : i32
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    %r = scf.for %k = %t to %two step %two iter_args(%kept = %m) -> (i32) : i32 {
      %m2, %i2 = "tt.elementwise_inline_asm"(%k, %k, %k) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
      %chosen = arith.select %last, %m2, %kept : i32
      scf.yield %chosen : i32
    }
    "ttng.async_tma_copy_local_to_global"(%c, %r, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
// A kernel of one tile may store it anywhere.
// CHECK-LABEL: module @ttgir
// CHECK: %[[ZERO:.+]] = arith.constant 0 : i32
// CHECK: "ttng.async_tma_copy_local_to_global"
// CHECK-NEXT: chunk.finish_tile %{{.+}}[%[[ZERO]]] bulk
!d = !chunk.buffer<4x8xf32>
chunk.plan @one mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  chunk.kernel @k tiles [1] ctas 1 args(%a as "c_desc") : !d {
    chunk.footprint write "c_desc" at affine_map<(m) -> (0, 0)> sizes [4, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "ttng.async_tma_copy_local_to_global"(%c, %t, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!d = !chunk.buffer<4x8xf32>
chunk.plan @lost mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  // expected-error @+1 {{cannot tell which tile stores to "c_desc": expects addresses to be made of the coordinates that the tile marker returns}}
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c_desc") : !d {
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    // expected-note @+1 {{the store}}
    "ttng.async_tma_copy_local_to_global"(%c, %t, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!d = !chunk.buffer<4x8xf32>
chunk.plan @atomics mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 8] on 0 : !d
  // expected-error @+1 {{expects tiles to write "c" by stores of descriptors or pointers, but found tt.atomic_rmw; store to another buffer, or let a transfer copy it elsewhere}}
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c") : !d {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 8]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.ptr<f32> loc("c"), %t: i32):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "tt.atomic_rmw"(%c, %m) : (!tt.ptr<f32>, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!d = !chunk.buffer<4x16xf8E5M2>
chunk.plan @bytes mesh [2] {
  %a = chunk.buffer "a" : !d
  %m = chunk.produce %a[0, 0] sizes [4, 16] on 0 : !d
  %p = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 16] from 0 to 1 after(%m) realize copy_engine : !d to !d
  %s = chunk.produce %a[0, 0] sizes [4, 16] on 1 reduce sum after(%p) : !d
  // expected-error @+1 {{expects f32, f16, bf16 or i32 where tiles add by TMA to what is there, but "c_desc" holds 'f8E5M2'; store by pointers, or leave the sums to a role}}
  chunk.kernel @k tiles [2] ctas 2 args(%a as "c_desc") : !d {
    chunk.footprint write "c_desc" at affine_map<(m) -> (m * 2, 0)> sizes [2, 16]
  }
}
module @ttgir {
  "tt.func"() <{function_type = (!tt.ptr<i64>, i32) -> (), sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8> loc("sy_input"), %c: !tt.desc loc("c_desc"), %t: i32, %s: !ttg.mem):
    %m, %i = "tt.elementwise_inline_asm"(%t, %t, %t) <{asm_string = "// syncopate.tile\0A", constraints = "", packed_element = 1 : i32, pure = false}> : (i32, i32, i32) -> (i32, i32)
    "ttng.async_tma_copy_local_to_global"(%c, %m, %t, %s) : (!tt.desc, i32, i32, !ttg.mem) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}
