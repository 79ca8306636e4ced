// RUN: syncopate-opt %s | syncopate-opt | FileCheck %s

!s = !chunk.buffer<6x4xbf16>
!c = !chunk.buffer<2x4xbf16>
// CHECK-LABEL: chunk.plan @p
chunk.plan @p mesh [2] {
  %s = chunk.buffer "s" : !s
  %c = chunk.buffer "c" : !c
  // CHECK: chunk.put %0[0, 0] parts 3 step [2, 0] to %1[0, 0] sizes [2, 4] from 1 to 1 reduce sum behind 1 :
  %0 = chunk.put %s[0, 0] parts 3 step [2, 0] to %c[0, 0] sizes [2, 4] from 1 to 1 reduce sum behind 1 : !s to !c
  // CHECK: chunk.get %0[1, 0] parts 2 step [3, 1] to %1[0, 0] sizes [2, 3] from 1 to 0 reduce max after(%2) :
  %1 = chunk.get %s[1, 0] parts 2 step [3, 1] to %c[0, 0] sizes [2, 3] from 1 to 0 reduce max after(%0) : !s to !c
  // CHECK: reduce sum unordered after(%2) realize tma_colocated :
  %2 = chunk.put %s[0, 0] to %c[0, 0] sizes [2, 4] from 0 to 1 reduce sum unordered after(%0) realize tma_colocated : !s to !c
  // What is the default is not printed.
  // CHECK: chunk.put %0[0, 0] to %1[0, 0] sizes [2, 4] from 0 to 1 reduce sum :
  %3 = chunk.put %s[0, 0] to %c[0, 0] sizes [2, 4] from 0 to 1 reduce sum behind 0 : !s to !c
}
