// RUN: syncopate-opt %s --chunk-allocate-signals | FileCheck %s

// Two transfers and their twins, then four blocks of three ranks.
// CHECK: chunk.plan @p mesh [3] signals <data_twin, ready, ready_twin, done, done_twin, engine_done, group, group_twin, total : [2, 4, 7, 10, 13, 16, 17, 17, 17]>
chunk.plan @p mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  // CHECK: chunk.put {{.*}} signal 0 :
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  // CHECK: chunk.get {{.*}} signal 1 :
  %t1 = chunk.get %a[1] to %a[1] sizes [1] from 0 to 1 : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
}
