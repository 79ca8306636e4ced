// RUN: syncopate-opt %s --syncopate-plan-pipeline | FileCheck %s
// RUN: syncopate-opt %s --syncopate-plan-pipeline | syncopate-opt --syncopate-check-pipeline -o /dev/null
// RUN: syncopate-opt %s --syncopate-plan-pipeline | sed "s/ comm_ctas 6//" | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=NOBODY
// NOBODY: 'chunk.kernel' op expects comm_ctas to be at least 1, one for each dedicated realization, but got 0; run chunk-assign-realization first

// RUN: syncopate-opt %s --syncopate-plan-pipeline | sed "/rank 0/s/\(\[-1, 0, 0, 0,[^]]*\), 4, 0, 0, 1, 0, 0,/\1, 2, 0, 0, 1, 0, 0,/" | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: command 0 of rank 0 stages an input by realization 2, but expects that of a communication role which carries out a transfer of the plan

// RUN: syncopate-opt %s --syncopate-plan-pipeline | sed "/rank 0/s/\(\[-1, 0, 0, 0,[^]]*\), 4, 0, 0, 1, 0, 0,/\1, 3, 0, 0, 1, 0, 0,/" | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=BOTH
// BOTH: command 1 of rank 0 stages an input by realization 4, but another part of it is staged by 3

!b = !chunk.buffer<6x4xf32>
chunk.plan @p mesh [3] strategy <comm_ctas = 6> {
  // Two readers get rank 0's input by different roles, and a third transfer is a push: rank 0 stages its two inputs by
  // one role that the kernel has for the readers' sake, the last of them.
  // CHECK: chunk.kernel @k tiles [3] ctas 3 comm_ctas 6
  // CHECK: chunk.schedule @k rank 0 {{.*}} realization, reduction, pause, parts, part_stride, behind, {{.*}} : [-1, 0, 0, 0, 0, 0, 0, 1, 32, 32, 32, [[B:[0-9]+]], [[E:[0-9]+]], {{[0-9]+}}, {{[0-9]+}}, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1], [-1, 0, 1, 0, 0, 1, 0, 1, 32, 32, 32, {{.*}}, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1]>
  // A dedicated role does not rest between the blocks that it stores to another rank.
  // CHECK: chunk.schedule @k rank 1 {{.*}} count_past, exchange : [0, 0, 0, 0, 1, 0, 0, {{[^]]*}}, 3, 0, 0, 1, 0, 0, -1, 0, 0, -1], [2, 1, 0, 32, 2, 0, 32, {{[^]]*}}, 3, 0, 0, 1, 0, 0, -1, 0, 0, -1], [3, 1, 1, 32, 2, 1, 32, {{[^]]*}}, 4, 0, 500, 1, 0, 0, -1, 0, 0, -1]>
  // CHECK: chunk.schedule @k rank 2 {{.*}} count_past, exchange : [1, 0, 0, 0, 2, 0, 0, {{[^]]*}}, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1]>
  %a = chunk.buffer "a" : !b
  %x = chunk.buffer "x" : !b
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !b
  chunk.input %x[0, 0] sizes [2, 4] on 0 : !b
  chunk.input %a[2, 0] sizes [2, 4] on 1 : !b
  chunk.input %x[2, 0] sizes [2, 4] on 1 : !b
  %t0 = chunk.get %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 realize ldst_dedicated : !b to !b
  %t1 = chunk.get %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 2 realize ldst_colocated : !b to !b
  %t2 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 4] from 1 to 2 realize ldst_dedicated : !b to !b
  %t3 = chunk.put %x[2, 0] to %x[2, 0] sizes [2, 4] from 1 to 2 realize ldst_colocated : !b to !b
  chunk.kernel @k tiles [3] ctas 3 args() {}
}
