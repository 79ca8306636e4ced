// RUN: syncopate-opt %s --chunk-check-plan -split-input-file -verify-diagnostics

// Ranks 1 and 2 add to what is at rank 0, without an order between them; who
// reads it comes after both, and who overwrites it too.
!buf = !chunk.buffer<8xf32>
chunk.plan @sound mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  %u1 = chunk.put %a[0] to %s[0] sizes [4] from 1 to 0 reduce sum unordered after(%first) : !buf to !buf
  %u2 = chunk.put %a[1] to %s[1] sizes [3] from 2 to 0 reduce sum unordered after(%first) : !buf to !buf
  %read = chunk.put %s[0] to %s[4] sizes [4] from 0 to 0 after(%u1, %u2) : !buf to !buf
  %over = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 after(%read) : !buf to !buf
  // All parts of what is combined have been brought.
  %there = chunk.put %a[0] to %a[4] sizes [4] from 0 to 0 : !buf to !buf
  %sum = chunk.put %s[0] parts 2 step [4] to %a[4] sizes [4] from 0 to 0 reduce sum after(%over, %there) : !buf to !buf
}

// -----
// Who reads comes after all that add.
!buf = !chunk.buffer<8xf32>
chunk.plan @read_during_sum mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  %u1 = chunk.put %a[0] to %s[0] sizes [4] from 1 to 0 reduce sum unordered after(%first) : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %u2 = chunk.put %a[0] to %s[0] sizes [4] from 2 to 0 reduce sum unordered after(%first) : !buf to !buf
  // expected-error @+1 {{reads a chunk of rank 0 while another transfer writes it: neither comes after the other}}
  %read = chunk.put %s[0] to %s[4] sizes [4] from 0 to 0 after(%u1) : !buf to !buf
}

// -----
// A sum comes after who has read what it changes.
!buf = !chunk.buffer<8xf32>
chunk.plan @sum_during_read mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  // expected-error @+1 {{reads a chunk of rank 0 while another transfer writes it: neither comes after the other}}
  %read = chunk.put %s[0] to %s[4] sizes [4] from 0 to 0 after(%first) : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %u = chunk.put %a[0] to %s[0] sizes [4] from 2 to 0 reduce sum unordered after(%first) : !buf to !buf
}

// -----
// An ordered sum and an unordered one race.
!buf = !chunk.buffer<8xf32>
chunk.plan @ordered_and_unordered mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %o = chunk.put %a[0] to %s[0] sizes [4] from 1 to 0 reduce sum after(%first) : !buf to !buf
  // expected-error @+1 {{while another transfer writes it: neither comes after the other}}
  %u = chunk.put %a[0] to %s[0] sizes [4] from 2 to 0 reduce sum unordered after(%first) : !buf to !buf
}

// -----
// In the other order of the plan, too.
!buf = !chunk.buffer<8xf32>
chunk.plan @unordered_and_ordered mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %u = chunk.put %a[0] to %s[0] sizes [4] from 2 to 0 reduce sum unordered after(%first) : !buf to !buf
  // expected-error @+1 {{while another transfer writes it: neither comes after the other}}
  %o = chunk.put %a[0] to %s[0] sizes [4] from 1 to 0 reduce sum after(%first) : !buf to !buf
}

// -----
// Overwriting comes after all sums, not only after the last one of the plan.
!buf = !chunk.buffer<8xf32>
chunk.plan @overwrites_a_sum mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %u1 = chunk.put %a[0] to %s[0] sizes [4] from 1 to 0 reduce sum unordered after(%first) : !buf to !buf
  %u2 = chunk.put %a[0] to %s[0] sizes [4] from 2 to 0 reduce sum unordered after(%first) : !buf to !buf
  // expected-error @+1 {{writes a chunk of rank 0 that another transfer writes too: neither comes after the other}}
  %over = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 after(%u2) : !buf to !buf
}

// -----
// Something has to be there first.
!buf = !chunk.buffer<8xf32>
chunk.plan @nothing_there mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  // expected-error @+1 {{reads at offsets [0] sizes [4] what rank 0 does not hold}}
  %u = chunk.put %a[0] to %s[0] sizes [4] from 1 to 0 reduce sum unordered : !buf to !buf
}

// -----
// And come before.
!buf = !chunk.buffer<8xf32>
chunk.plan @first_value_unordered mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  // expected-note @+1 {{the other transfer}}
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  // expected-error @+1 {{while another transfer writes it: neither comes after the other}}
  %u = chunk.put %a[0] to %s[0] sizes [4] from 1 to 0 reduce sum unordered : !buf to !buf
}

// -----
// Every part is there.
!buf = !chunk.buffer<8xf32>
chunk.plan @missing_part mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  %there = chunk.put %a[0] to %a[4] sizes [4] from 0 to 0 : !buf to !buf
  // expected-error @+1 {{reads at offsets [4] sizes [4] what rank 0 does not hold}}
  %sum = chunk.put %s[0] parts 2 step [4] to %a[4] sizes [4] from 0 to 0 reduce sum after(%first, %there) : !buf to !buf
}

// -----
// Every part is read, so none is overwritten meanwhile.
!buf = !chunk.buffer<8xf32>
chunk.plan @overwrites_part mesh [3] {
  %a = chunk.buffer "a" : !buf
  %s = chunk.buffer "s" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[0] sizes [4] on 1 : !buf
  chunk.input %a[0] sizes [4] on 2 : !buf
  %first = chunk.put %a[0] to %s[0] sizes [4] from 0 to 0 : !buf to !buf
  %second = chunk.put %a[0] to %s[4] sizes [4] from 0 to 0 : !buf to !buf
  %there = chunk.put %a[0] to %a[4] sizes [4] from 0 to 0 : !buf to !buf
  // expected-error @+1 {{reads a chunk of rank 0 while another transfer writes it: neither comes after the other}}
  %sum = chunk.put %s[0] parts 2 step [4] to %a[4] sizes [4] from 0 to 0 reduce sum after(%first, %second, %there) : !buf to !buf
  // expected-note @+1 {{the other transfer}}
  %over = chunk.put %a[0] to %s[6] sizes [1] from 1 to 0 after(%first, %second) : !buf to !buf
}
