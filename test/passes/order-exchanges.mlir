// RUN: syncopate-opt %s --chunk-assign-realization | FileCheck %s
// RUN: syncopate-opt %s --syncopate-plan-pipeline | FileCheck %s --check-prefix=TABLES

// A gather in two levels, in two pieces of each block. Between nodes NCCL moves: both directions of a piece at the same
// time, and the next piece before what is passed on within nodes.
!a = !chunk.buffer<16x4xf32>
chunk.plan @levels mesh [2, 2] strategy <realization = copy_engine, between = nccl> {
  %a = chunk.buffer "a" : !a
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !a
  chunk.input %a[8, 0] sizes [4, 4] on 2 : !a
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 2 : !a to !a
  %t1 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 4] from 0 to 2 : !a to !a
  // CHECK: %[[P0:.*]] = chunk.get %{{.*}}[0, 0] to %{{.*}}[0, 0] sizes [2, 4] from 0 to 2 realize nccl
  // CHECK: %[[Q0:.*]] = chunk.get %{{.*}}[8, 0] to %{{.*}}[8, 0] sizes [2, 4] from 2 to 0 realize nccl
  // CHECK: %[[P1:.*]] = chunk.get %{{.*}}[2, 0] to %{{.*}}[2, 0] sizes [2, 4] from 0 to 2 realize nccl
  // CHECK: %[[Q1:.*]] = chunk.get %{{.*}}[10, 0] to %{{.*}}[10, 0] sizes [2, 4] from 2 to 0 realize nccl
  %u0 = chunk.put %a[8, 0] to %a[8, 0] sizes [2, 4] from 2 to 0 : !a to !a
  %v0 = chunk.put %a[8, 0] to %a[8, 0] sizes [2, 4] from 0 to 1 after(%u0) : !a to !a
  // CHECK: chunk.put %{{.*}}[8, 0] to %{{.*}}[8, 0] sizes [2, 4] from 0 to 1 after(%[[Q0]]) realize copy_engine
  // CHECK: chunk.put %{{.*}}[10, 0] to %{{.*}}[10, 0] sizes [2, 4] from 0 to 1 after(%[[Q1]]) realize copy_engine
  %u1 = chunk.put %a[10, 0] to %a[10, 0] sizes [2, 4] from 2 to 0 : !a to !a
  %v1 = chunk.put %a[10, 0] to %a[10, 0] sizes [2, 4] from 0 to 1 after(%u1) : !a to !a
  // What NCCL moves is in the tables of both ranks. Who sends raises nothing, and here waits for nothing.
  // TABLES: chunk.schedule @k rank 0 {{.*}}exchange : [0, 0, 0, 0, 2, 0, 0, 1, 32, 32, 32, [[W:[0-9]+]], [[W]], [[S:[0-9]+]], [[S]], 5, 0, 0, 1, 0, 0, -1, 0, 0, 0]
  // TABLES-SAME: [1, 2, 0, 128, 0, 0, 128, 1, 32, 32, 32, {{.*}}, 5, 0, 0, 1, 0, 0, -1, 0, 0, 0]
  // TABLES: chunk.schedule @k rank 2 {{.*}}exchange : [0, 0, 0, 0, 2, 0, 0, 1, 32, 32, 32, {{.*}}, 5, 0, 0, 1, 0, 0, -1, 0, 0, 0]
  chunk.kernel @k tiles [2] ctas 1 args() after(%t0, %t1, %v0, %v1) {
  }
}
