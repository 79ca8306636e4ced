// RUN: syncopate-opt %s --chunk-check-plan --chunk-check-kernel -split-input-file -verify-diagnostics

!b = !chunk.buffer<8xf32>
chunk.plan @unordered mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-note @+1 {{the region}}
  %m = chunk.produce %a[0] sizes [4] on 0 : !b
  // expected-error @+1 {{touches a region that tiles of rank 0 compute, and does not come after it}}
  %t = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 : !b to !b
}

// -----
!b = !chunk.buffer<8xf32>
chunk.plan @input_too mesh [2] {
  %a = chunk.buffer "a" : !b
  chunk.input %a[0] sizes [4] on 0 : !b
  // expected-error @+1 {{names a region of rank 0 that an input names too}}
  %m = chunk.produce %a[2] sizes [4] on 0 : !b
}

// -----
!b = !chunk.buffer<8xf32>
chunk.plan @twice mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-error @+1 {{names a region of rank 0 that another operation names too}}
  %m = chunk.produce %a[0] sizes [4] on 0 : !b
  // expected-note @+1 {{the other operation}}
  %n = chunk.produce %a[2] sizes [4] on 0 : !b
}

// -----
!b = !chunk.buffer<8xf32>
chunk.plan @nothing_to_add_to mesh [2] {
  %a = chunk.buffer "a" : !b
  %m = chunk.produce %a[0] sizes [4] on 0 : !b
  %t = chunk.put %a[0] to %a[0] sizes [2] from 0 to 1 after(%m) : !b to !b
  // expected-error @+1 {{expects tiles to add to what transfers before it bring to rank 1, but none brings offsets [2] sizes [2]}}
  %s = chunk.produce %a[0] sizes [4] on 1 reduce sum after(%t) : !b
}

// -----
!b = !chunk.buffer<8xf32>
chunk.plan @not_written mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-error @+1 {{expects tiles of rank 0 to write all of it, but none writes offsets [4] sizes [2]}}
  %m = chunk.produce %a[0] sizes [6] on 0 : !b
  // expected-note @+1 {{the kernel}}
  chunk.kernel @k tiles [2] ctas 1 args(%a as "a") : !b {
    chunk.footprint write "a" at affine_map<(m) -> (m * 2)> sizes [2]
  }
}

// -----
!b = !chunk.buffer<8xf32>
chunk.plan @written_twice mesh [2] {
  %a = chunk.buffer "a" : !b
  %m = chunk.produce %a[0] sizes [6] on 0 : !b
  // expected-error @+1 {{tile [1] of rank 0 writes of "a" what tile [0] writes too, and transfers wait for either}}
  chunk.kernel @k tiles [2] ctas 1 args(%a as "a") : !b {
    chunk.footprint write "a" at affine_map<(m) -> (m * 2)> sizes [4]
  }
}

// -----
!b = !chunk.buffer<8xf32>
chunk.plan @half_added mesh [2] {
  %a = chunk.buffer "a" : !b
  %m = chunk.produce %a[0] sizes [8] on 0 : !b
  %t = chunk.put %a[0] to %a[0] sizes [2] from 0 to 1 after(%m) : !b to !b
  // expected-note @+1 {{the region that it adds to: offsets [0] sizes [2], while the tile has offsets [0] sizes [4]}}
  %s = chunk.produce %a[0] sizes [2] on 1 reduce sum after(%t) : !b
  // expected-error @+1 {{tile [0] of rank 1 writes of "a" what it adds to at one part, but not at offsets [2] sizes [2]}}
  chunk.kernel @k tiles [2] ctas 1 args(%a as "a") : !b {
    chunk.footprint write "a" at affine_map<(m) -> (m * 4)> sizes [4]
  }
}
