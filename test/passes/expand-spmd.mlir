// RUN: syncopate-opt %s | syncopate-opt | FileCheck %s --check-prefix=PRINT
// RUN: syncopate-opt %s --mlir-print-op-generic | syncopate-opt | FileCheck %s --check-prefix=PRINT
// RUN: syncopate-opt %s --chunk-expand-spmd | FileCheck %s
// RUN: syncopate-opt %s --chunk-expand-spmd --chunk-check-plan --chunk-check-claims -o /dev/null
// RUN: not syncopate-opt %s --chunk-check-plan 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: is in rank-affine form; run chunk-expand-spmd first

!b = !chunk.buffer<8x2xf32>

// An all_gather around a ring of ranks 3, 1 and 0, of blocks of 3, 3 and 2 rows.
// PRINT-DAG: #[[ROW:.+]] = affine_map<(d0) -> (d0 * 3, 0)>
// PRINT-DAG: #[[NEXT:.+]] = affine_map<(d0) -> ((d0 + 1) mod 3)>
// PRINT-DAG: #[[LAST:.+]] = affine_map<(d0) -> ((d0 - 1) mod 3)>
// PRINT-DAG: #[[PASSED:.+]] = affine_map<(d0) -> (((d0 - 1) mod 3) * 3, 0)>
// PRINT-LABEL: chunk.plan @ring
// PRINT: %[[ALL:.+]] = chunk.spmd group [3, 1, 0] {
// PRINT-NEXT: %[[FIRST:.+]] = chunk.transfer push %[[A:.+]] at #[[ROW]] to %[[A]] at #[[ROW]] sizes [3, 2] peer #[[NEXT]] : <8x2xf32> to <8x2xf32>
// PRINT-NEXT: chunk.transfer push %[[A]] at #[[PASSED]] to %[[A]] at #[[PASSED]] sizes [3, 2] peer #[[NEXT]] after(%[[FIRST]] at #[[LAST]]) realize copy_engine : <8x2xf32> to <8x2xf32>
// PRINT-NEXT: }
// PRINT-NEXT: chunk.claim after(%[[ALL]])

// CHECK-LABEL: chunk.plan @ring
// CHECK: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [3, 2] from 3 to 1 :
// CHECK-NEXT: %[[B:.+]] = chunk.put %0[3, 0] to %0[3, 0] sizes [3, 2] from 1 to 0 :
// CHECK-NEXT: %[[C:.+]] = chunk.put %0[6, 0] to %0[6, 0] sizes [2, 2] from 0 to 3 :
// CHECK-NEXT: %[[D:.+]] = chunk.put %0[6, 0] to %0[6, 0] sizes [2, 2] from 3 to 1 after(%[[C]]) realize copy_engine :
// CHECK-NEXT: %[[E:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [3, 2] from 1 to 0 after(%[[A]]) realize copy_engine :
// CHECK-NEXT: %[[F:.+]] = chunk.put %0[3, 0] to %0[3, 0] sizes [3, 2] from 0 to 3 after(%[[B]]) realize copy_engine :
// CHECK-NEXT: %[[ALL:.+]] = chunk.join %[[A]], %[[B]], %[[C]], %[[D]], %[[E]], %[[F]]
// CHECK-NEXT: chunk.claim after(%[[ALL]])
chunk.plan @ring mesh [4] {
  %a = chunk.buffer "a" : !b
  chunk.input %a[0, 0] sizes [3, 2] on 3 : !b
  chunk.input %a[3, 0] sizes [3, 2] on 1 : !b
  chunk.input %a[6, 0] sizes [2, 2] on 0 : !b
  %all = chunk.spmd group [3, 1, 0] {
    %0 = chunk.transfer push %a at affine_map<(i) -> (i * 3, 0)> to %a at affine_map<(i) -> (i * 3, 0)> sizes [3, 2] peer affine_map<(i) -> ((i + 1) mod 3)> : !b to !b
    %1 = chunk.transfer push %a at affine_map<(i) -> ((i - 1) mod 3 * 3, 0)> to %a at affine_map<(i) -> ((i - 1) mod 3 * 3, 0)> sizes [3, 2] peer affine_map<(i) -> ((i + 1) mod 3)> after(%0 at affine_map<(i) -> ((i - 1) mod 3)>) realize copy_engine : !b to !b
  }
  chunk.claim after(%all) {
    %t = chunk.all_gather %a axis 0 group [3, 1, 0] : !b
  }
}

// Member 2 has nothing to send; what comes after that comes after what comes before all. Without a map a transfer comes
// after the same member's.
// PRINT-LABEL: chunk.plan @nothing
// PRINT: chunk.spmd group [0, 1, 2] after(%{{.+}}) {
// PRINT-NEXT: %[[FIRST:.+]] = chunk.transfer pull
// PRINT-SAME: reduce sum :
// PRINT-NEXT: chunk.transfer push {{.*}} after(%[[FIRST]]) :
// CHECK-LABEL: chunk.plan @nothing
// CHECK: %[[FIRST:.+]] = chunk.put %0[0] to %1[0] sizes [1] from 0 to 0 :
// CHECK-NEXT: %[[A:.+]] = chunk.get %0[0] to %0[0] sizes [2] from 1 to 0 reduce sum after(%[[FIRST]])
// CHECK-NEXT: %[[B:.+]] = chunk.get %0[2] to %0[2] sizes [1] from 2 to 1 reduce sum after(%[[FIRST]])
// CHECK-NEXT: %[[C:.+]] = chunk.put %0[0] to %1[0] sizes [1] from 0 to 0 after(%[[A]])
// CHECK-NEXT: %[[D:.+]] = chunk.put %0[0] to %1[0] sizes [1] from 1 to 1 after(%[[B]])
// CHECK-NEXT: %[[E:.+]] = chunk.put %0[0] to %1[0] sizes [1] from 2 to 2 after(%[[FIRST]])
// CHECK-NEXT: %[[ALL:.+]] = chunk.join %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
// CHECK-NEXT: chunk.put %1[0] to %1[1] sizes [1] from 0 to 1 after(%[[ALL]])
chunk.plan @nothing mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<3xf32>
  %x = chunk.buffer "x" : !chunk.buffer<3xf32>
  chunk.input %a[0] sizes [3] on 0 : !chunk.buffer<3xf32>
  chunk.input %a[0] sizes [3] on 1 : !chunk.buffer<3xf32>
  chunk.input %a[0] sizes [3] on 2 : !chunk.buffer<3xf32>
  %first = chunk.put %a[0] to %x[0] sizes [1] from 0 to 0 : !chunk.buffer<3xf32> to !chunk.buffer<3xf32>
  %t = chunk.spmd group [0, 1, 2] after(%first) {
    %0 = chunk.transfer pull %a at affine_map<(i) -> (i * 2)> to %a at affine_map<(i) -> (i * 2)> sizes [2] peer affine_map<(i) -> ((i + 1) mod 3)> reduce sum : !chunk.buffer<3xf32> to !chunk.buffer<3xf32>
    %1 = chunk.transfer push %a at affine_map<(i) -> (0)> to %x at affine_map<(i) -> (0)> sizes [1] peer affine_map<(i) -> (i)> after(%0) : !chunk.buffer<3xf32> to !chunk.buffer<3xf32>
  }
  %last = chunk.put %x[0] to %x[1] sizes [1] from 0 to 1 after(%t) : !chunk.buffer<3xf32> to !chunk.buffer<3xf32>
}
