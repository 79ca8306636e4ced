// RUN: syncopate-opt %s -split-input-file -verify-diagnostics

// @steps_c1
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !chunk.buffer<8x4xf32> {
    // expected-error @+1 {{expects a map from 1 tile coordinates to at least one step, but got affine_map<(d0, d1) -> (d0)>}}
    chunk.steps from affine_map<(m, n) -> (m)> to affine_map<(m) -> (4)>
  }
}

// -----
// @steps_c1
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !chunk.buffer<8x4xf32> {
    // expected-error @+1 {{expects an affine map whose divisors are positive}}
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (m floordiv -2)>
  }
}

// -----
// @steps_c2
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !chunk.buffer<8x4xf32> {
    // expected-error @+1 {{expects stepped rank to be in [0, 2), but got 2}}
    chunk.steps on 2 from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}

// -----
// @kernel_c4
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !chunk.buffer<8x4xf32> {
    // expected-note @+1 {{they are said here}}
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
    // expected-error @+1 {{expects the steps of a rank to be said once}}
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}

// -----
// @kernel_c4
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !chunk.buffer<8x4xf32> {
    // expected-error @+1 {{expects the steps of all ranks at once, or of each of the 2 ranks}}
    chunk.steps on 1 from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}

// -----
// @kernel_c9
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  // expected-error @+1 {{expects tiles that walk steps to be whole, and what they need to be known before the kernel runs}}
  chunk.kernel @k tiles [3] ctas 2 parts 2 args(%a as "a") : !chunk.buffer<8x4xf32> {
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}

// -----
// @footprint_c2
chunk.plan @plan mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<8x4xf32>
  chunk.kernel @k tiles [2] ctas 2 args(%a as "a") : !chunk.buffer<8x4xf32> {
    // expected-error @+1 {{expects a map from 1 tile coordinates to 2 offsets}}
    chunk.footprint write "a" at affine_map<(m, k) -> (m * 4, k)> sizes [4, 1]
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}
