// RUN: syncopate-opt %s --pass-pipeline='builtin.module(chunk.plan(chunk-order-tiles{order=given},chunk-order-transfers))' -split-input-file | FileCheck %s

// Rank 0 computes rows 2 and 3 first, so it sends them first, and rank 1 forwards them first, too. What waits for no tile
// comes before all, and what is gathered for the kernel stays in front of it.
!c = !chunk.buffer<4x4xf32>
// CHECK-LABEL: chunk.plan @late_first
chunk.plan @late_first mesh [3] {
  %c = chunk.buffer "c" : !c
  %s = chunk.buffer "s" : !c
  %x = chunk.buffer "x" : !c
  chunk.input %x[0, 0] sizes [4, 4] on 0 : !c
  %p = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  // CHECK: %[[X:.+]] = chunk.put %{{.+}}[0, 0] to %{{.+}}[0, 0] sizes [4, 4] from 0 to 1
  // CHECK: %[[B:.+]] = chunk.put %{{.+}}[2, 0] to %{{.+}}[2, 0] sizes [2, 4] from 0 to 1
  // CHECK: chunk.put %{{.+}}[2, 0] to %{{.+}}[2, 0] sizes [2, 4] from 1 to 2 after(%[[B]])
  // CHECK: %[[A:.+]] = chunk.put %{{.+}}[0, 0] to %{{.+}}[0, 0] sizes [2, 4] from 0 to 1
  // CHECK: chunk.put %{{.+}}[0, 0] to %{{.+}}[0, 0] sizes [2, 4] from 1 to 2 after(%[[A]])
  // CHECK: chunk.kernel
  // CHECK-COUNT-3: chunk.schedule
  %a = chunk.put %c[0, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 after(%p) realize copy_engine : !c to !c
  %a2 = chunk.put %s[0, 0] to %s[0, 0] sizes [2, 4] from 1 to 2 after(%a) realize copy_engine : !c to !c
  %b = chunk.put %c[2, 0] to %s[2, 0] sizes [2, 4] from 0 to 1 after(%p) realize copy_engine : !c to !c
  %b2 = chunk.put %s[2, 0] to %s[2, 0] sizes [2, 4] from 1 to 2 after(%b) realize copy_engine : !c to !c
  %t = chunk.put %x[0, 0] to %x[0, 0] sizes [4, 4] from 0 to 1 realize copy_engine : !c to !c
  chunk.kernel @k tiles [4] ctas 1 args(%c as "y") after(%t) : !c {
    chunk.footprint write "y" at affine_map<(m) -> (m, 0)> sizes [1, 4]
  }
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [2, 0, 0], [3, 0, 0], [0, 0, 0], [1, 0, 0]>}
  chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]>}
  chunk.schedule @k rank 2 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]>}
}

// -----
// What comes after two transfers of one queue comes behind both, whichever is the last one now.
!c = !chunk.buffer<4x4xf32>
// CHECK-LABEL: chunk.plan @behind_both
chunk.plan @behind_both mesh [3] {
  %c = chunk.buffer "c" : !c
  %s = chunk.buffer "s" : !c
  %x = chunk.buffer "x" : !c
  chunk.input %x[0, 0] sizes [4, 4] on 0 : !c
  %p = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  // CHECK: chunk.put %{{.+}}[0, 0] to %{{.+}}[0, 0] sizes [4, 4] from 0 to 1
  // CHECK: %[[B:.+]] = chunk.put %{{.+}}[2, 0] to %{{.+}}[2, 0] sizes [2, 4] from 0 to 1
  // CHECK: %[[A:.+]] = chunk.put %{{.+}}[0, 0] to %{{.+}}[0, 0] sizes [2, 4] from 0 to 1
  // CHECK: chunk.put %{{.+}}[0, 0] to %{{.+}}[0, 0] sizes [4, 4] from 1 to 2 after(%[[A]], %[[B]])
  %a = chunk.put %c[0, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 after(%p) realize copy_engine : !c to !c
  %b = chunk.put %c[2, 0] to %s[2, 0] sizes [2, 4] from 0 to 1 after(%p) realize copy_engine : !c to !c
  %ab = chunk.put %s[0, 0] to %s[0, 0] sizes [4, 4] from 1 to 2 after(%a, %b) realize copy_engine : !c to !c
  %t = chunk.put %x[0, 0] to %x[0, 0] sizes [4, 4] from 0 to 1 realize copy_engine : !c to !c
  chunk.kernel @k tiles [4] ctas 1 args(%c as "y") after(%t) : !c {
    chunk.footprint write "y" at affine_map<(m) -> (m, 0)> sizes [1, 4]
  }
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [2, 0, 0], [3, 0, 0], [0, 0, 0], [1, 0, 0]>}
  chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]>}
  chunk.schedule @k rank 2 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]>}
}

// -----
// Two realizations are two queues: neither holds up the other, so nothing moves.
!c = !chunk.buffer<4x4xf32>
// CHECK-LABEL: chunk.plan @two_queues
chunk.plan @two_queues mesh [2] {
  %c = chunk.buffer "c" : !c
  %s = chunk.buffer "s" : !c
  %p = chunk.produce %c[0, 0] sizes [4, 4] on 0 : !c
  // CHECK: chunk.put {{.*}} realize copy_engine
  // CHECK: chunk.put {{.*}} realize ldst_colocated
  %a = chunk.put %c[0, 0] to %s[0, 0] sizes [2, 4] from 0 to 1 after(%p) realize copy_engine : !c to !c
  %b = chunk.put %c[2, 0] to %s[2, 0] sizes [2, 4] from 0 to 1 after(%p) realize ldst_colocated : !c to !c
  chunk.kernel @k tiles [4] ctas 1 args(%c as "y") : !c {
    chunk.footprint write "y" at affine_map<(m) -> (m, 0)> sizes [1, 4]
  }
  chunk.schedule @k rank 0 {tiles = #chunk.table<c0, c1, c2 : [2, 0, 0], [3, 0, 0], [0, 0, 0], [1, 0, 0]>}
  chunk.schedule @k rank 1 {tiles = #chunk.table<c0, c1, c2 : [0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]>}
}
