// RUN: syncopate-opt %s -split-input-file -verify-diagnostics

!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c7_none mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects parts to be in [1, 4096], but got 0}}
  %0 = chunk.put %s[0, 0] parts 0 step [2, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c7_copy mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects a reduction to combine its parts}}
  %0 = chunk.put %s[0, 0] parts 2 step [2, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c7_entries mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects a step of 2 entries, but got 1}}
  %0 = chunk.put %s[0, 0] parts 2 step [2] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c7_negative mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects step of dimension 0 to be in [0, 2^48), but got -2}}
  %0 = chunk.put %s[4, 0] parts 2 step [-2, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c7_overlap mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects a step that keeps parts of sizes [2, 4] apart, but got [1, 3]}}
  %0 = chunk.put %s[0, 0] parts 2 step [1, 3] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c3_last_part mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects src chunk to lie inside '!chunk.buffer<6x4xf32>', but dimension 0 has offset 6 and size 2}}
  %0 = chunk.put %s[0, 0] parts 4 step [2, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c5_any_part mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects src and dst chunks of the same buffer on the same rank not to overlap}}
  %0 = chunk.put %s[0, 0] parts 2 step [2, 0] to %s[3, 0] sizes [2, 4] from 0 to 0 reduce sum : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c8_far mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects behind to be in [0, 2], but got 3}}
  %0 = chunk.put %s[0, 0] parts 2 step [2, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum behind 3 : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c8_copy mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects behind to be in [0, 0], but got 1}}
  %0 = chunk.put %s[0, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 behind 1 : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c9_max mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects an unordered reduction to be the sum of one part}}
  %0 = chunk.put %s[0, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce max unordered : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf32>
chunk.plan @transfer_c9_parts mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects an unordered reduction to be the sum of one part}}
  %0 = chunk.put %s[0, 0] parts 2 step [2, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum unordered : !s to !s
}

// -----
!s = !chunk.buffer<6x4xf8E4M3FN>
chunk.plan @transfer_c9_type mesh [2] {
  %s = chunk.buffer "s" : !s
  // expected-error @+1 {{expects elements of f32, f16, bf16 or i32 to be added unordered, but got 'f8E4M3FN'}}
  %0 = chunk.put %s[0, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 reduce sum unordered : !s to !s
}
