// RUN: syncopate-opt %s --chunk-check-claims -split-input-file -verify-diagnostics

!buf = !chunk.buffer<4x2xf32>
// Written out by hand, by way of another buffer of a rank outside the group.
chunk.plan @sound mesh [3] {
  %a = chunk.buffer "a" : !buf
  %x = chunk.buffer "x" : !buf
  chunk.input %a[0, 0] sizes [2, 2] on 0 : !buf
  chunk.input %a[2, 0] sizes [2, 2] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %x[2, 0] sizes [2, 2] from 0 to 2 : !buf to !buf
  %t1 = chunk.put %x[2, 0] to %a[0, 0] sizes [1, 2] from 2 to 1 after(%t0) : !buf to !buf
  %t2 = chunk.put %x[3, 0] to %a[1, 0] sizes [1, 2] from 2 to 1 after(%t0) : !buf to !buf
  %t3 = chunk.get %a[2, 0] to %a[2, 0] sizes [2, 2] from 1 to 0 : !buf to !buf
  chunk.claim after(%t1, %t2, %t3) {
    %t = chunk.all_gather %a axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<4x2xf32>
chunk.plan @other_block mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [2, 2] on 0 : !buf
  chunk.input %a[2, 0] sizes [2, 2] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [1, 2] from 0 to 1 : !buf to !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t1 = chunk.put %a[0, 0] to %a[1, 0] sizes [1, 2] from 0 to 1 : !buf to !buf
  %t2 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 2] from 1 to 0 : !buf to !buf
  // expected-error @+1 {{expects rank 1 to hold block 0 of rank 0, but at offsets [1, 0] sizes [1, 2] it holds what rank 0 had in "a" at offsets [0, 0]}}
  chunk.claim after(%t0, %t1, %t2) {
    %t = chunk.all_gather %a axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<4x2xf32>
chunk.plan @other_rank mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [2, 2] on 0 : !buf
  chunk.input %a[2, 0] sizes [2, 2] on 1 : !buf
  chunk.input %a[0, 0] sizes [4, 2] on 2 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 2] from 0 to 1 : !buf to !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t1 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 2] from 2 to 0 : !buf to !buf
  // expected-error @+1 {{expects rank 0 to hold block 1 of rank 1, but at offsets [2, 0] sizes [2, 2] it holds what rank 2 had in "a" at offsets [2, 0]}}
  chunk.claim after(%t0, %t1) {
    %t = chunk.all_gather %a axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<4x2xf32>
chunk.plan @too_early mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [2, 2] on 0 : !buf
  chunk.input %a[2, 0] sizes [2, 2] on 1 : !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 2] from 0 to 1 : !buf to !buf
  %t1 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 2] from 1 to 0 : !buf to !buf
  // expected-error @+1 {{expects rank 1 to hold block 0 of rank 0, but at offsets [0, 0] sizes [2, 2] it holds what a transfer brings that the claim does not come after}}
  chunk.claim after(%t1) {
    %t = chunk.all_gather %a axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<4x2xf32>
chunk.plan @too_little mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [2, 2] on 0 : !buf
  chunk.input %a[2, 0] sizes [2, 2] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [1, 2] from 0 to 1 : !buf to !buf
  // expected-error @+1 {{expects rank 1 to hold block 0 of rank 0, but at offsets [1, 0] sizes [1, 2] it holds nothing}}
  chunk.claim after(%t0) {
    %t = chunk.all_gather %a axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<4x2xf32>
chunk.plan @no_input mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [1, 2] on 0 : !buf
  chunk.input %a[2, 0] sizes [2, 2] on 1 : !buf
  // expected-error @+1 {{expects rank 0 to hold block 0 when the collective starts, but at offsets [1, 0] sizes [1, 2] it holds nothing}}
  chunk.claim {
    %t = chunk.all_gather %a axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @sum_by_hand mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  chunk.input %a[0] sizes [2] on 2 : !buf
  %t0 = chunk.get %a[0] to %a[0] sizes [2] from 1 to 0 reduce sum : !buf to !buf
  %t1 = chunk.get %a[0] to %a[0] sizes [2] from 2 to 0 reduce sum after(%t0) : !buf to !buf
  %t2 = chunk.put %a[0] to %a[0] sizes [2] from 0 to 1 after(%t1) : !buf to !buf
  %t3 = chunk.put %a[0] to %a[0] sizes [2] from 0 to 2 after(%t1) : !buf to !buf
  chunk.claim after(%t2, %t3) {
    %t = chunk.all_reduce %a reduce sum axis 0 group [0, 1, 2] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @twice mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  %t0 = chunk.get %a[0] to %a[0] sizes [1] from 1 to 0 reduce sum : !buf to !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t1 = chunk.get %a[0] to %a[0] sizes [1] from 1 to 0 reduce sum after(%t0) : !buf to !buf
  %t2 = chunk.get %a[1] to %a[1] sizes [1] from 0 to 1 reduce sum : !buf to !buf
  // expected-error @+1 {{expects rank 0 to hold the sum of all members' block 0, but at offsets [0] sizes [1] it holds the sum of what rank 0 had in "a" at offsets [0] and what rank 1 had in "a" at offsets [0] and what rank 1 had in "a" at offsets [0]}}
  chunk.claim after(%t1, %t2) {
    %t = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
// A maximum does not mind.
chunk.plan @maximum_twice mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  %t0 = chunk.get %a[0] to %a[0] sizes [1] from 1 to 0 reduce max : !buf to !buf
  %t1 = chunk.get %a[0] to %a[0] sizes [1] from 1 to 0 reduce max after(%t0) : !buf to !buf
  %t2 = chunk.get %a[1] to %a[1] sizes [1] from 0 to 1 reduce max : !buf to !buf
  chunk.claim after(%t1, %t2) {
    %t = chunk.reduce_scatter %a reduce max axis 0 group [0, 1] : !buf
  }
}

// -----
// All parts at once, in slots.
!buf = !chunk.buffer<3xf32>
chunk.plan @parts mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [3] on 0 : !buf
  chunk.input %a[0] sizes [3] on 1 : !buf
  chunk.input %a[0] sizes [3] on 2 : !buf
  %p1 = chunk.put %a[0] to %s[0] sizes [1] from 1 to 0 : !buf to !buf
  %p2 = chunk.put %a[0] to %s[1] sizes [1] from 2 to 0 : !buf to !buf
  %r0 = chunk.put %s[0] parts 2 step [1] to %a[0] sizes [1] from 0 to 0 reduce sum behind 1 after(%p1, %p2) : !buf to !buf
  %q0 = chunk.put %a[1] to %s[0] sizes [1] from 0 to 1 : !buf to !buf
  %q2 = chunk.put %a[1] to %s[1] sizes [1] from 2 to 1 : !buf to !buf
  %r1 = chunk.put %s[0] parts 2 step [1] to %a[1] sizes [1] from 1 to 1 reduce sum after(%q0, %q2) : !buf to !buf
  // Or unordered.
  %u0 = chunk.put %a[2] to %a[2] sizes [1] from 0 to 2 reduce sum unordered : !buf to !buf
  %u1 = chunk.put %a[2] to %a[2] sizes [1] from 1 to 2 reduce sum unordered : !buf to !buf
  chunk.claim after(%r0, %r1, %u0, %u1) {
    %t = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1, 2] : !buf
  }
}

// -----
// The second part is not what it should be.
!buf = !chunk.buffer<3xf32>
chunk.plan @wrong_part mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [3] on 0 : !buf
  chunk.input %a[0] sizes [3] on 1 : !buf
  chunk.input %a[0] sizes [3] on 2 : !buf
  %p1 = chunk.put %a[0] to %s[0] sizes [1] from 1 to 0 : !buf to !buf
  %p2 = chunk.put %a[1] to %s[1] sizes [1] from 2 to 0 : !buf to !buf
  // expected-note @+1 {{the transfer that brings it}}
  %r0 = chunk.put %s[0] parts 2 step [1] to %a[0] sizes [1] from 0 to 0 reduce sum after(%p1, %p2) : !buf to !buf
  // expected-error @+1 {{expects rank 0 to hold the sum of all members' block 0, but at offsets [0] sizes [1] it holds the sum of what rank 0 had in "a" at offsets [0] and what rank 1 had in "a" at offsets [0] and what rank 2 had in "a" at offsets [1]}}
  chunk.claim after(%r0) {
    %t = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1, 2] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @mixed mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  chunk.input %a[0] sizes [2] on 2 : !buf
  %t0 = chunk.get %a[0] to %a[0] sizes [1] from 1 to 0 reduce sum : !buf to !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t1 = chunk.get %a[0] to %a[0] sizes [1] from 2 to 0 reduce max after(%t0) : !buf to !buf
  // expected-error @+1 {{expects rank 0 to hold the sum of all members' block 0}}
  chunk.claim after(%t1) {
    %t = chunk.all_reduce %a reduce sum axis 0 group [0, 1, 2] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @missing mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  %t0 = chunk.get %a[0] to %a[0] sizes [1] from 1 to 0 reduce sum : !buf to !buf
  // expected-error @+1 {{expects rank 1 to hold the sum of all members' block 1, but at offsets [1] sizes [1] it holds what rank 1 had in "a" at offsets [1]}}
  chunk.claim after(%t0) {
    %t = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @not_decomposed mesh [2] {
  %a = chunk.buffer "a" : !buf
  // expected-error @+1 {{is a collective; run chunk-decompose-collectives first}}
  %t = chunk.all_gather %a axis 0 group [0, 1] : !buf
  chunk.claim after(%t) {
    %same = chunk.all_gather %a axis 0 group [0, 1] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
// What the collective comes after is not what the claim comes after.
chunk.plan @tokens_of_the_body mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [1] on 0 : !buf
  chunk.input %a[1] sizes [1] on 1 : !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 : !buf to !buf
  %t1 = chunk.put %a[1] to %a[1] sizes [1] from 1 to 0 : !buf to !buf
  // expected-error @+1 {{holds what a transfer brings that the claim does not come after}}
  chunk.claim {
    %t = chunk.all_gather %a axis 0 group [0, 1] after(%t0, %t1) : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
// Members have to hold what owners held when the collective could start, not what was put there since.
chunk.plan @other_source mesh [2] {
  %a = chunk.buffer "a" : !buf
  %x = chunk.buffer "x" : !buf
  chunk.input %a[0] sizes [1] on 0 : !buf
  chunk.input %x[0] sizes [1] on 0 : !buf
  chunk.input %x[1] sizes [1] on 1 : !buf
  %t0 = chunk.put %x[1] to %a[1] sizes [1] from 1 to 1 : !buf to !buf
  %t1 = chunk.put %x[0] to %a[1] sizes [1] from 0 to 1 after(%t0) : !buf to !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t2 = chunk.put %a[1] to %a[1] sizes [1] from 1 to 0 after(%t1) : !buf to !buf
  %t3 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 : !buf to !buf
  // expected-error @+1 {{expects rank 0 to hold block 1 of rank 1}}
  chunk.claim after(%t2, %t3) {
    %t = chunk.all_gather %a axis 0 group [0, 1] after(%t0) : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @broadcast_of_the_wrong_rank mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 2 : !buf to !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t1 = chunk.put %a[1] to %a[1] sizes [1] from 1 to 2 : !buf to !buf
  // expected-error @+1 {{expects rank 2 to hold the buffer of rank 0, but at offsets [1] sizes [1] it holds what rank 1 had in "a" at offsets [1]}}
  chunk.claim after(%t0, %t1) {
    %t = chunk.broadcast %a root 0 group [0, 2] : !buf
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @no_buffer_to_broadcast mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [1] on 0 : !buf
  // expected-error @+1 {{expects rank 0 to hold the buffer when the collective starts, but at offsets [1] sizes [1] it holds nothing}}
  chunk.claim {
    %t = chunk.broadcast %a root 0 group [0, 1] : !buf
  }
}

// -----
!src = !chunk.buffer<3xf32>
!dst = !chunk.buffer<4xf32>
chunk.plan @exchange_by_hand mesh [2] {
  %a = chunk.buffer "a" : !src
  %b = chunk.buffer "b" : !dst
  chunk.input %a[0] sizes [3] on 0 : !src
  chunk.input %a[0] sizes [3] on 1 : !src
  %t0 = chunk.put %a[2] to %b[0] sizes [1] from 0 to 1 : !src to !dst
  %t1 = chunk.get %a[0] to %b[2] sizes [2] from 1 to 0 : !src to !dst
  %t2 = chunk.put %a[0] to %b[0] sizes [2] from 0 to 0 : !src to !dst
  %t3 = chunk.put %a[2] to %b[2] sizes [1] from 1 to 1 : !src to !dst
  chunk.claim after(%t0, %t1, %t2, %t3) {
    %t = chunk.all_to_all %a to %b axis 0 group [0, 1] : !src to !dst
  }
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @exchange_of_the_wrong_block mesh [2] {
  %a = chunk.buffer "a" : !buf
  %b = chunk.buffer "b" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  // expected-note @+1 {{the transfer that brings it}}
  %t0 = chunk.put %a[0] to %b[0] sizes [1] from 0 to 1 : !buf to !buf
  %t1 = chunk.put %a[0] to %b[1] sizes [1] from 1 to 0 : !buf to !buf
  %t2 = chunk.put %a[0] to %b[0] sizes [1] from 0 to 0 : !buf to !buf
  %t3 = chunk.put %a[1] to %b[1] sizes [1] from 1 to 1 : !buf to !buf
  // expected-error @+1 {{expects rank 1 to hold block 1 of rank 0, but at offsets [0] sizes [1] it holds what rank 0 had in "a" at offsets [0]}}
  chunk.claim after(%t0, %t1, %t2, %t3) {
    %t = chunk.all_to_all %a to %b axis 0 group [0, 1] : !buf to !buf
  }
}
