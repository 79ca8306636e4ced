// RUN: syncopate-opt %s --chunk-check-plan -split-input-file -verify-diagnostics

!buf = !chunk.buffer<8xf32>
chunk.plan @sound mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[4] sizes [2] on 1 : !buf
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 : !buf to !buf
  // Reads an input and what came before, together.
  %t1 = chunk.put %a[0] to %a[0] sizes [6] from 1 to 2 after(%t0) : !buf to !buf
  // Through a join, and after a transfer after the one that brought it.
  %t2 = chunk.join %t1
  %t3 = chunk.get %a[0] to %a[6] sizes [2] from 1 to 0 after(%t2) : !buf to !buf
}

// -----
// A slot may be used again by who comes after its readers, here by way of a
// transfer between other ranks, and what is written in parts may be read as a
// whole.
!buf = !chunk.buffer<8xf32>
chunk.plan @slot mesh [2] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  %t0 = chunk.put %a[0] to %s[0] sizes [2] from 0 to 1 : !buf to !buf
  %t1 = chunk.put %a[2] to %s[2] sizes [2] from 0 to 1 : !buf to !buf
  %j0 = chunk.join %t1, %t0
  %u0 = chunk.put %s[0] to %a[0] sizes [4] from 1 to 1 after(%j0) : !buf to !buf
  %u1 = chunk.get %s[1] to %a[4] sizes [2] from 1 to 0 after(%j0) : !buf to !buf
  %v = chunk.put %a[0] to %a[6] sizes [1] from 0 to 0 after(%u0, %u1) : !buf to !buf
  %t2 = chunk.put %a[0] to %s[1] sizes [2] from 0 to 1 after(%v) : !buf to !buf
  %t3 = chunk.put %a[0] to %s[1] sizes [1] from 0 to 1 after(%t2) : !buf to !buf
}

// -----
// Overwriting only a part of what is being read is enough.
!buf = !chunk.buffer<8xf32>
chunk.plan @overwrite_part mesh [2] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  %t0 = chunk.put %a[0] to %s[0] sizes [4] from 0 to 1 : !buf to !buf
  // expected-error @+1 {{reads a chunk of rank 1 while another transfer writes it: neither comes after the other}}
  %t1 = chunk.put %s[0] to %a[0] sizes [4] from 1 to 1 after(%t0) : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %t2 = chunk.put %a[0] to %s[2] sizes [1] from 0 to 1 after(%t0) : !buf to !buf
}

// -----
// What is written there now counts, not what was there before.
!buf = !chunk.buffer<8xf32>
chunk.plan @overwritten_before mesh [2] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  %t0 = chunk.put %a[0] to %s[0] sizes [4] from 0 to 1 : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %t1 = chunk.put %a[0] to %s[1] sizes [1] from 0 to 1 after(%t0) : !buf to !buf
  // expected-error @+1 {{reads a chunk of rank 1 while another transfer writes it: neither comes after the other}}
  %t2 = chunk.put %s[0] to %a[0] sizes [4] from 1 to 1 after(%t0) : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @no_source mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  // expected-error @+1 {{reads at offsets [4] sizes [1] what rank 0 does not hold}}
  %t = chunk.put %a[2] to %a[2] sizes [3] from 0 to 1 : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @read_during_write mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  // expected-note @+1 {{the other transfer}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 : !buf to !buf
  // expected-error @+1 {{reads a chunk of rank 1 while another transfer writes it: neither comes after the other}}
  %t1 = chunk.put %a[0] to %a[4] sizes [4] from 1 to 0 : !buf to !buf
}

// -----
!buf = !chunk.buffer<8xf32>
chunk.plan @write_twice mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[2] sizes [4] on 1 : !buf
  // expected-note @+1 {{the other transfer}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 2 : !buf to !buf
  // expected-error @+1 {{writes a chunk of rank 2 that another transfer writes too: neither comes after the other}}
  %t1 = chunk.put %a[2] to %a[2] sizes [4] from 1 to 2 : !buf to !buf
}

// -----
!buf = !chunk.buffer<2xf32>
// What reduces may add to an input; what it adds to has to be there.
chunk.plan @reduces mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [1] on 1 : !buf
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 reduce sum : !buf to !buf
  // expected-error @+1 {{reads at offsets [1] sizes [1] what rank 1 does not hold}}
  %t1 = chunk.put %a[1] to %a[1] sizes [1] from 0 to 1 reduce sum : !buf to !buf
}

// -----
!buf = !chunk.buffer<2xf32>
chunk.plan @reduces_at_once mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [2] on 0 : !buf
  chunk.input %a[0] sizes [2] on 1 : !buf
  chunk.input %a[0] sizes [2] on 2 : !buf
  // expected-note @+1 {{the other transfer}}
  %t0 = chunk.put %a[0] to %a[0] sizes [2] from 1 to 0 reduce sum : !buf to !buf
  // expected-error @+1 {{neither comes after the other}}
  %t1 = chunk.put %a[0] to %a[0] sizes [2] from 2 to 0 reduce sum : !buf to !buf
}
