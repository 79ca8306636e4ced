// RUN: syncopate-opt %s --syncopate-plan-pipeline -split-input-file -verify-diagnostics

!buf = !chunk.buffer<8xf32>
chunk.plan @overwrite_input mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0] sizes [4] on 0 : !buf
  chunk.input %a[3] sizes [4] on 1 : !buf
  // expected-error @+1 {{overwrites an input of rank 1 at offsets [3] sizes [4], which tables cannot say}}
  %t0 = chunk.put %a[0] to %a[0] sizes [4] from 0 to 1 : !buf to !buf
  chunk.kernel @k tiles [1] ctas 1 args() after(%t0) {}
}
