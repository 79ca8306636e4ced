// RUN: syncopate-opt %s -split-input-file -verify-diagnostics

!b = !chunk.buffer<8xf32>

// spmd_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-error @+1 {{expects group rank to be in [0, 2), but got -1}}
  %t = chunk.spmd group [0, -1] {
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i)> sizes [1] peer affine_map<(i) -> (1 - i)> : !b to !b
  }
}

// -----

// spmd_c1
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects a group of at least 1 ranks, but got 0}}
  %t = chunk.spmd group [] {
  }
}

// -----

// spmd_c2
chunk.plan @p mesh [2] {
  // expected-error @+1 {{expects at least one transfer in its body}}
  %t = chunk.spmd group [0, 1] {
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects a chunk.transfer in the body of a chunk.spmd}}
    %c = arith.constant 0 : i32
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects an affine map from a position to 1 offsets, but got affine_map<(d0) -> (d0, 0)>}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i, 0)> sizes [1] peer affine_map<(i) -> (1 - i)> : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c1
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects an affine map from a position to 1 position, but got affine_map<(d0) -> (d0 mod 0)>}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i)> sizes [1] peer affine_map<(i) -> (i mod 0)> : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c2
chunk.plan @p mesh [4] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1, 3] {
    // expected-error @+1 {{expects peer of member 2 to be in [0, 3), but got 3}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i)> sizes [1] peer affine_map<(i) -> (i + 1)> : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c2
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1] {
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i)> sizes [1] peer affine_map<(i) -> (1 - i)> : !b to !b
    // expected-error @+1 {{expects member to come after of member 0 to be in [0, 2), but got -1}}
    %1 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i)> sizes [1] peer affine_map<(i) -> (1 - i)> after(%0 at affine_map<(i) -> (i - 1)>) : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c2
chunk.plan @p mesh [4] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1, 2] {
    // expected-error @+1 {{expects peer of member 2 to be in [0, 3), but got what does not fit 64 bits}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i + 1)> sizes [1] peer affine_map<(i) -> ((i * 9223372036854775807) mod 2)> : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c3
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects offsets of member 0 not to be negative, but got -1}}
    %0 = chunk.transfer pull %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i - 1)> sizes [1] peer affine_map<(i) -> (1 - i)> : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c4
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  // expected-note @+1 {{the other operation}}
  %x = chunk.put %a[0] to %a[1] sizes [1] from 0 to 0 : !b to !b
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects to come after transfers of the same chunk.spmd; what comes before all of it belongs behind its group}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (i)> sizes [1] peer affine_map<(i) -> (1 - i)> after(%x) : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c5
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects a chunk inside of both buffers for some member at least}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i + 8)> to %a at affine_map<(i) -> (i)> sizes [1] peer affine_map<(i) -> (1 - i)> : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c5, transfer_c5
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects src and dst chunks of the same buffer on the same rank not to overlap}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %a at affine_map<(i) -> (1)> sizes [1] peer affine_map<(i) -> (i)> : !b to !b
  }
}

// -----

!b = !chunk.buffer<8xf32>

// spmd_transfer_c5, transfer_c4
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %c = chunk.buffer "c" : !chunk.buffer<8xi32>
  %t = chunk.spmd group [0, 1] {
    // expected-error @+1 {{expects src and dst to have the same element type, but got 'f32' and 'i32'}}
    %0 = chunk.transfer push %a at affine_map<(i) -> (i)> to %c at affine_map<(i) -> (1)> sizes [1] peer affine_map<(i) -> (i)> : !b to !chunk.buffer<8xi32>
  }
}
