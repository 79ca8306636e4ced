// RUN: syncopate-opt %s -split-input-file -verify-diagnostics | syncopate-opt -split-input-file | FileCheck %s

// CHECK: %[[M:.+]] = chunk.produce %{{.+}}[0, 0] sizes [2, 4] on 0 : <4x4xf32>
// CHECK: %[[T:.+]] = chunk.put
// CHECK: chunk.produce %{{.+}}[0, 0] sizes [2, 4] on 1 reduce sum after(%[[T]]) : <4x4xf32>
// CHECK: chunk.output %{{.+}}[0, 0] sizes [2, 4] on 1 : <4x4xf32>
!b = !chunk.buffer<4x4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %m = chunk.produce %a[0, 0] sizes [2, 4] on 0 : !b
  %t = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 after(%m) : !b to !b
  %s = chunk.produce %a[0, 0] sizes [2, 4] on 1 reduce sum after(%t) : !b
  chunk.output %a[0, 0] sizes [2, 4] on 1 : !b
}

// -----
// produce_c1
!b = !chunk.buffer<4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-error @+1 {{expects holding rank to be in [0, 2), but got 2}}
  %m = chunk.produce %a[0] sizes [2] on 2 : !b
}

// -----
// produce_c2
!b = !chunk.buffer<4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-error @+1 {{expects produced chunk to lie inside}}
  %m = chunk.produce %a[3] sizes [2] on 1 : !b
}

// -----
// produce_c4
!b = !chunk.buffer<4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %m = chunk.produce %a[0] sizes [2] on 0 : !b
  // expected-error @+1 {{expects nothing to come after if its tiles overwrite what is there}}
  %n = chunk.produce %a[2] sizes [2] on 0 after(%m) : !b
}

// -----
// produce_c4
!b = !chunk.buffer<4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-error @+1 {{expects tiles to add to what is there, but got reduction max}}
  %n = chunk.produce %a[2] sizes [2] on 0 reduce max : !b
}

// -----
// output_c4
!b = !chunk.buffer<4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-note @+1 {{the other output}}
  chunk.output %a[0] sizes [2] on 1 : !b
  // expected-error @+1 {{expects to be the only output of rank 1 in its buffer}}
  chunk.output %a[2] sizes [2] on 1 : !b
}
