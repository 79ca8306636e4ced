// RUN: syncopate-opt %s -split-input-file -verify-diagnostics

// Every constraint of the dialect, by its label in ODS.

// transfer_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects dst rank to be in [0, 2), but got 7}}
  %t = chunk.put %a[0, 0] to %a[4, 0] sizes [2, 4] from 0 to 7 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// transfer_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects src rank to be in [0, 2), but got -1}}
  %t = chunk.put %a[0, 0] to %a[4, 0] sizes [2, 4] from -1 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// transfer_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects 2 dst offsets and sizes for '!chunk.buffer<8x4xf32>', but got 3 and 2}}
  %t = chunk.put %a[0, 0] to %a[4, 0, 0] sizes [2, 4] from 0 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// transfer_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects dst chunk to lie inside '!chunk.buffer<8x4xf32>', but dimension 0 has offset 7 and size 2}}
  %t = chunk.put %a[0, 0] to %a[7, 0] sizes [2, 4] from 0 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// transfer_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects dst chunk to lie inside '!chunk.buffer<8x4xf32>', but dimension 0 has offset 9223372036854775807 and size 2}}
  %t = chunk.put %a[0, 0] to %a[9223372036854775807, 0] sizes [2, 4] from 0 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// transfer_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects size of dimension 0 to be positive, but got 0}}
  %t = chunk.put %a[0, 0] to %a[0, 0] sizes [0, 4] from 0 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// transfer_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects dst offset of dimension 0 not to be negative, but got -1}}
  %t = chunk.put %a[0, 0] to %a[-1, 0] sizes [2, 4] from 0 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// transfer_c5
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects src and dst chunks of the same buffer on the same rank not to overlap}}
  %t = chunk.put %a[0, 0] to %a[1, 0] sizes [2, 4] from 1 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// input_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects holding rank to be in [0, 2), but got 2}}
  chunk.input %a[0, 0] sizes [2, 4] on 2 : !chunk.buffer<8x4xf32>
}

// -----

// input_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects input chunk to lie inside '!chunk.buffer<8x4xf32>', but dimension 1 has offset 2 and size 4}}
  chunk.input %a[0, 2] sizes [2, 4] on 0 : !chunk.buffer<8x4xf32>
}

// -----

// collective_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects axis to be in [0, 2), but got 2}}
  %t = chunk.all_gather %a axis 2 group [0, 1] : !chunk.buffer<8x4xf32>
}

// -----

// collective_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects a group of at least 2 ranks, but got 1}}
  %t = chunk.all_gather %a axis 0 group [0] : !chunk.buffer<8x4xf32>
}

// -----

// collective_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects unique ranks in the group, but got 0 twice}}
  %t = chunk.all_gather %a axis 0 group [0, 0] : !chunk.buffer<8x4xf32>
}

// -----

// collective_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects group rank to be in [0, 2), but got 3}}
  %t = chunk.all_gather %a axis 0 group [0, 3] : !chunk.buffer<8x4xf32>
}

// -----

// kernel_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects grid sizes to be positive, but got 0}}
  chunk.kernel @k tiles [4, 0] ctas 1 args(%a as "a") : !chunk.buffer<8x4xf32> {}
}

// -----

// kernel_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects a grid of 1 to 3 dimensions, but got 0}}
  chunk.kernel @k tiles [] ctas 1 args(%a as "a") : !chunk.buffer<8x4xf32> {}
}

// -----

// kernel_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects fewer than 4194304 tiles}}
  chunk.kernel @k tiles [9223372036854775807, 9223372036854775807] ctas 1 args(%a as "a") : !chunk.buffer<8x4xf32> {}
}

// -----

// kernel_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects ctas to be in [1, 2^20), but got 0}}
  chunk.kernel @k tiles [4] ctas 0 args(%a as "a") : !chunk.buffer<8x4xf32> {}
}

// -----

// kernel_c8
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects parts to be positive, but got 0}}
  chunk.kernel @k tiles [4] ctas 3 parts 0 args() {}
}

// -----

// kernel_c8
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects a grid of one or two dimensions if tiles are computed in parts, but got 3}}
  chunk.kernel @k tiles [4, 1, 1] ctas 3 parts 2 args() {}
}

// -----

// kernel_c8
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects a CTA for each part of the last round, but got 5 CTAs for 2 tiles in 3 parts each}}
  chunk.kernel @k tiles [7] ctas 5 parts 3 args() {}
}

// -----

// kernel_c8
chunk.plan @p mesh [2] {
  %n = chunk.buffer "n" : !chunk.buffer<8xi32>
  // expected-error @+1 {{expects whole tiles if what they need is read at run time}}
  chunk.kernel @k tiles [7] ctas 3 parts 3 args() needs(%n[0] : !chunk.buffer<8xi32>) {}
}

// -----

// kernel_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects unique argument names, but got "a" twice}}
  chunk.kernel @k tiles [4] ctas 1 args(%a as "a", %a as "a") : !chunk.buffer<8x4xf32>, !chunk.buffer<8x4xf32> {}
}

// -----

// schedule_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [4] ctas 1 args() {}
  // expected-error @+1 {{expects scheduled rank to be in [0, 2), but got 2}}
chunk.schedule @k rank 2
}

// -----

// schedule_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects a kernel of the plan, but got @k}}
  chunk.schedule @k rank 0
}

// -----

// footprint_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [4] ctas 1 args(%a as "a") : !chunk.buffer<8x4xf32> {
  // expected-error @+1 {{expects a map from 1 tile coordinates to 2 offsets, but got affine_map<(d0, d1, d2) -> (d0, 0)>}}
    chunk.footprint read "a" at affine_map<(m, n, k) -> (m, 0)> sizes [2, 4]
  }
}

// -----

// footprint_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [4] ctas 1 args(%a as "a") : !chunk.buffer<8x4xf32> {
  // expected-error @+1 {{expects 2 sizes, but got 1}}
    chunk.footprint read "a" at affine_map<(m) -> (m, 0)> sizes [2]
  }
}

// -----

// footprint_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [4] ctas 1 args(%a as "a") : !chunk.buffer<8x4xf32> {
  // expected-error @+1 {{expects sizes to be in [1, 2^48), but got -4}}
    chunk.footprint read "a" at affine_map<(m) -> (m, 0)> sizes [2, -4]
  }
}

// -----

// transfer_c4
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<8x4xi32>
  // expected-error @+1 {{expects src and dst to have the same element type, but got 'f32' and 'i32'}}
  %t = chunk.put %a[0, 0] to %b[0, 0] sizes [2, 4] from 0 to 1 : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xi32>
}

// -----

// collective_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x?xf32>
  // expected-error @+1 {{expects a buffer of static shape, but got '!chunk.buffer<8x?xf32>'}}
  %t = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<8x?xf32>
}

// -----

// footprint_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-note @+1 {{kernel binds ["a"]}}
  chunk.kernel @k tiles [4] ctas 1 args(%a as "a") : !chunk.buffer<8x4xf32> {
    // expected-error @+1 {{expects an argument bound by the kernel, but got "b"}}
    chunk.footprint read "b" at affine_map<(m) -> (m, 0)> sizes [2, 4]
  }
}

// -----

// plan_c1
// expected-error @+1 {{expects mesh to have at least one entry}}
chunk.plan @p mesh [] {}

// -----

// plan_c1
// expected-error @+1 {{expects mesh sizes to be positive, but got 0}}
chunk.plan @p mesh [2, 0] {}

// -----

// plan_c1
// expected-error @+1 {{expects at most 4096 ranks}}
chunk.plan @p mesh [9223372036854775807, 2] {}

// -----

// plan_c2
chunk.plan @p mesh [2] {
  // expected-note @+1 {{first buffer of this name}}
  %a = chunk.buffer "a" : !chunk.buffer<8xf32>
  // expected-error @+1 {{expects a unique name, but got "a" again}}
  %b = chunk.buffer "a" : !chunk.buffer<8xf32>
}

// -----

// buffer_c1
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects a buffer of 1 to 5 dimensions, but got 6}}
  %a = chunk.buffer "a" : !chunk.buffer<1x1x1x1x1x1xf32>
}

// -----

// buffer_c2
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects dimension 0 to be positive, but got 0}}
  %a = chunk.buffer "a" : !chunk.buffer<0xf32>
}

// -----

// buffer_c3
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects elements of 8, 16, 32 or 64 bits, but got 'i1'}}
  %a = chunk.buffer "a" : !chunk.buffer<4xi1>
}

// -----

// buffer_c3
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects elements of 8, 16, 32 or 64 bits, but got 'index'}}
  %a = chunk.buffer "a" : !chunk.buffer<4xindex>
}

// -----

// table_c1
// expected-error @+1 {{expects unique columns, but got "a" twice}}
module attributes {x.t = #chunk.table<a, a : [0, 1]>} {}

// -----

// table_c2
// expected-error @+1 {{expects a row of 2 values, but got 1}}
module attributes {x.t = #chunk.table<a, b : [0, 1], [2]>} {}

// -----

// strategy_c1
// expected-error @+1 {{expects splits to be in [0, 4096], but got -1}}
chunk.plan @p mesh [2] strategy <splits = -1> {}

// -----

// strategy_c1
// expected-error @+1 {{expects splits to be in [0, 4096], but got 9223372036854775807}}
chunk.plan @p mesh [2] strategy <splits = 9223372036854775807> {}

// -----

// strategy_c1
// expected-error @+1 {{expects group_m to be positive, but got 0}}
chunk.plan @p mesh [2] strategy <group_m = 0> {}

// -----

// strategy_c3
// expected-error @+1 {{expects comm_ctas to be in [1, 65536], but got 0}}
chunk.plan @p mesh [2] strategy <comm_ctas = 0> {}

// -----

// strategy_c2
// expected-error @+1 {{expects pause to be in [0, 1000000], but got -1}}
chunk.plan @p mesh [2] strategy <pause = -1> {}

// -----

// plan_c1
// expected-error @+1 {{expects at most 4096 ranks}}
chunk.plan @p mesh [4611686018427387904] {}

// -----

// plan_c3
chunk.plan @p mesh [2] {
  // expected-note @+1 {{the other kernel}}
  chunk.kernel @k tiles [4] ctas 1 args() {}
  // expected-error @+1 {{expects to be the only kernel of its plan}}
  chunk.kernel @l tiles [4] ctas 1 args() {}
}

// -----

// plan_c4
chunk.plan @p mesh [2] {
  chunk.kernel @k tiles [4] ctas 1 args() {}
  // expected-note @+1 {{the other schedule}}
  chunk.schedule @k rank 1
  // expected-error @+1 {{expects to be the only schedule of rank 1}}
  chunk.schedule @k rank 1
}

// -----

// plan_c5
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects an operation of a plan here}}
  %b, %t = "tt.foo"() : () -> (!chunk.buffer<8xf32>, !chunk.token)
  %u = chunk.put %b[0] to %b[0] sizes [4] from 0 to 1 after(%t) : !chunk.buffer<8xf32> to !chunk.buffer<8xf32>
}

// -----

// buffer_c4
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects a buffer of fewer than 2^48 bytes}}
  %a = chunk.buffer "a" : !chunk.buffer<4611686018427387904x?x4xf64>
}

// -----

// transfer_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<?x?xf32>
  // expected-error @+1 {{expects dst chunk to end before 2^48, but dimension 0 has offset 9223372036854775807 and size 2}}
  %t = chunk.put %a[0, 0] to %a[9223372036854775807, 0] sizes [2, 4] from 0 to 1 : !chunk.buffer<?x?xf32> to !chunk.buffer<?x?xf32>
}

// -----

// transfer_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<?x?xf32>
  // expected-error @+1 {{expects src chunk to have fewer than 2^48 bytes}}
  %t = chunk.put %a[0, 0] to %a[0, 0] sizes [1099511627776, 1099511627776] from 0 to 1 : !chunk.buffer<?x?xf32> to !chunk.buffer<?x?xf32>
}

// -----

// transfer_c6
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<512x512x4x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<512x512x4x8xf32>
  // The inner dimensions are contiguous on both sides: one slice of rows.
  %t = chunk.put %a[0, 0, 0, 0] to %a[0, 0, 0, 0] sizes [512, 511, 4, 4] from 0 to 1 : !chunk.buffer<512x512x4x4xf32> to !chunk.buffer<512x512x4x4xf32>
  // expected-error @+1 {{expects a chunk of at most 65536 slices of rows with one stride, but got 262144}}
  %u = chunk.put %a[0, 0, 0, 0] to %b[0, 0, 0, 0] sizes [512, 512, 4, 4] from 0 to 1 : !chunk.buffer<512x512x4x4xf32> to !chunk.buffer<512x512x4x8xf32>
}

// -----

// input_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<?xf32>
  // expected-error @+1 {{expects input chunk to end before 2^48, but dimension 0 has offset 1 and size 9223372036854775807}}
  chunk.input %a[1] sizes [9223372036854775807] on 0 : !chunk.buffer<?xf32>
}

// -----

// input_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<512x512x4x4xf32>
  // expected-error @+1 {{expects a chunk of at most 65536 slices of rows with one stride, but got 262144}}
  chunk.input %a[0, 0, 0, 0] sizes [512, 512, 4, 2] on 0 : !chunk.buffer<512x512x4x4xf32>
}

// -----

// kernel_c2
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects ctas to be in [1, 2^20), but got 1048576}}
  chunk.kernel @k tiles [4] ctas 1048576 args() {}
}

// -----

// footprint_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8xf32>
  chunk.kernel @k tiles [4, 4] ctas 1 args(%a as "a") : !chunk.buffer<8xf32> {
    // expected-error @+1 {{expects an affine map whose divisors are positive and whose constants are above -2^63, but got affine_map<(d0, d1) -> (d0 floordiv 0)>}}
    chunk.footprint read "a" at affine_map<(m, n) -> (m floordiv 0)> sizes [4]
  }
}

// -----

// footprint_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8xf32>
  chunk.kernel @k tiles [4, 4] ctas 1 args(%a as "a") : !chunk.buffer<8xf32> {
    // expected-error @+1 {{expects an affine map whose divisors are positive and whose constants are above -2^63, but got affine_map<(d0, d1) -> (-9223372036854775808)>}}
    chunk.footprint read "a" at affine_map<(m, n) -> (-4611686018427387904 - 4611686018427387904)> sizes [4]
  }
}

// -----

// footprint_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8xf32>
  chunk.kernel @k tiles [4] ctas 1 args(%a as "a") : !chunk.buffer<8xf32> {
    // expected-error @+1 {{expects sizes to be in [1, 2^48), but got 9223372036854775807}}
    chunk.footprint read "a" at affine_map<(m) -> (m)> sizes [9223372036854775807]
  }
}

// -----

// join_c1
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects at least one token}}
  %t = chunk.join
}

// -----

// claim_c1
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects one collective in its body}}
  chunk.claim {
  }
}

// -----

// claim_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  // expected-error @+1 {{expects one collective in its body}}
  chunk.claim {
    %t0 = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<4xf32>
    %t1 = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<4xf32>
  }
}

// -----

// claim_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  chunk.claim {
    // expected-error @+1 {{expects parent op 'chunk.plan'}}
    chunk.input %a[0] sizes [4] on 0 : !chunk.buffer<4xf32>
  }
}

// -----

// plan_c7
chunk.plan @p mesh [3] {
  // expected-error @+1 {{expects at most 8388608 tiles on all ranks together, but got 4000000 on each of 3}}
  chunk.kernel @k tiles [2000, 2000] ctas 1 args() {}
}

// -----

// plan_c8
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects names in UTF-8, but got "\FF"}}
  %a = chunk.buffer "\FF" : !chunk.buffer<8x4xf32>
}

// -----

// collective_c4
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<1000x100x2x4x2xi8>
  // expected-error @+1 {{expects a chunk of at most 65536 slices of rows with one stride, but got 200000}}
  %t = chunk.all_gather %a axis 4 group [0, 1] : !chunk.buffer<1000x100x2x4x2xi8>
}

// -----

// kernel_c4
chunk.plan @p mesh [2] {
  chunk.kernel @k tiles [1] ctas 1 args() {
    // expected-error @+1 {{expects footprints and steps in the body of a kernel}}
    %c = arith.constant 0 : i32
  }
}

// -----

// kernel_c2
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects comm_ctas to be in [0, 2^20 - ctas), but got 1048575}}
  chunk.kernel @k tiles [1] ctas 1 comm_ctas 1048575 args() {}
}

// -----

// all_to_all_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects src and dst to be two buffers: a block cannot come to a place that another one has not left}}
  %t = chunk.all_to_all %a to %a axis 0 group [0, 1] : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// roles_c1
"tt.func"() ({
^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8>):
  // expected-error @+1 {{expects one role for each realization, but got two for ldst_dedicated}}
  chunk.roles %context, %input : !tt.ptr<i64>, !tt.ptr<i8> compute {
  } communicate ldst_dedicated {
  } communicate ldst_dedicated {
  }
}) : () -> ()

// -----

// roles_c1
"tt.func"() ({
^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8>):
  // expected-error @+1 {{expects as many realizations as roles that communicate, but got 0 and 1}}
  "chunk.roles"(%context, %input) <{realizations = []}> ({}, {}) : (!tt.ptr<i64>, !tt.ptr<i8>) -> ()
}) : () -> ()

// -----

"tt.func"() ({
^bb0(%context: !tt.ptr<i64>, %input: !tt.ptr<i8>):
  chunk.roles %context, %input : !tt.ptr<i64>, !tt.ptr<i8> compute {
  // expected-error @+1 {{expects a known realization, but got 'pigeon'}}
  } communicate pigeon {
  }
}) : () -> ()

// -----

// all_to_all_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<8x4xi32>
  // expected-error @+1 {{expects src and dst to have the same element type, but got 'f32' and 'i32'}}
  %t = chunk.all_to_all %a to %b axis 0 group [0, 1] : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xi32>
}

// -----

// all_to_all_c3
chunk.plan @p mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects dst to have shape [9, 4], but got [8, 4]}}
  %t = chunk.all_to_all %a to %b axis 0 group [0, 1, 2] : !chunk.buffer<8x4xf32> to !chunk.buffer<8x4xf32>
}

// -----

// all_to_all_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<8xf32>
  // expected-error @+1 {{expects dst to have shape [8, 4], but got [8]}}
  %t = chunk.all_to_all %a to %b axis 0 group [0, 1] : !chunk.buffer<8x4xf32> to !chunk.buffer<8xf32>
}

// -----

// all_to_all_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<3x4xf32>
  // expected-error @+1 {{expects dst to have shape [8, 4], but got [3, 4]}}
  %t = chunk.all_to_all %a to %b axis 0 rows [0, 1, 2, 0, 1, 2] group [0, 1] : !chunk.buffer<8x4xf32> to !chunk.buffer<3x4xf32>
}

// -----

// all_to_all_c4
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<2x4xf32>
  // expected-error @+1 {{expects 4 rows, one for each row of dst at each of 2 members, but got 3}}
  %t = chunk.all_to_all %a to %b axis 0 rows [0, 1, 2] group [0, 1] : !chunk.buffer<8x4xf32> to !chunk.buffer<2x4xf32>
}

// -----

// all_to_all_c4
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<2x4xf32>
  // expected-error @+1 {{expects rows to be in [-1, 8), but got 8}}
  %t = chunk.all_to_all %a to %b axis 0 rows [0, 1, 8, -1] group [0, 1] : !chunk.buffer<8x4xf32> to !chunk.buffer<2x4xf32>
}

// -----

// all_to_all_c4
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  %b = chunk.buffer "b" : !chunk.buffer<2x4xf32>
  // expected-error @+1 {{expects member 1 to send each row once, but got row 5 twice}}
  %t = chunk.all_to_all %a to %b axis 0 rows [5, 4, 5, 5] group [0, 1] : !chunk.buffer<8x4xf32> to !chunk.buffer<2x4xf32>
}

// -----

// broadcast_c1
chunk.plan @p mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects root to be one of the group [0, 2], but got 1}}
  %t = chunk.broadcast %a root 1 group [0, 2] : !chunk.buffer<8x4xf32>
}

// -----

// collective_c2
chunk.plan @p mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects a group of at least 2 ranks, but got 1}}
  %t = chunk.broadcast %a root 2 group [2] : !chunk.buffer<8x4xf32>
}

// -----

chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects an algorithm or a direction, but got 'tree'}}
  %t = chunk.broadcast %a root 1 group [0, 1] by tree : !chunk.buffer<8x4xf32>
}

// -----

// kernel_c5
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects the value of integer argument "M" to be one of 64 bits, but got 8 : i32}}
  chunk.kernel @k tiles [1] ctas 1 args() attributes {integers = {M = 8 : i32}} {}
}

// -----

// MLIR's rule for every operation: what is used stands before.
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8xf32>
  // expected-error @+1 {{operand #2 does not dominate this use}}
  %t = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 after(%u) : !chunk.buffer<8xf32> to !chunk.buffer<8xf32>
  // expected-note @+1 {{operand defined here}}
  %u = chunk.put %a[4] to %a[4] sizes [4] from 1 to 0 : !chunk.buffer<8xf32> to !chunk.buffer<8xf32>
}
