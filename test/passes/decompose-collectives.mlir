// RUN: syncopate-opt %s --chunk-decompose-collectives | FileCheck %s --check-prefix=PUSH
// RUN: syncopate-opt %s --chunk-decompose-collectives="algorithm=direct direction=pull" | FileCheck %s --check-prefix=PULL
// RUN: syncopate-opt %s --chunk-decompose-collectives=algorithm=ring | FileCheck %s --check-prefix=RING
// RUN: syncopate-opt %s --chunk-decompose-collectives="algorithm=ring direction=pull" | FileCheck %s --check-prefix=RINGPULL
// RUN: not syncopate-opt %s --chunk-decompose-collectives=algorithm=tree 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: expects a known algorithm, but got 'tree'

// Seven rows on three members: blocks of 3, 3 and 1 rows.

// PUSH-LABEL: chunk.plan @ragged
// PULL-LABEL: chunk.plan @ragged
// RING-LABEL: chunk.plan @ragged
// RINGPULL-LABEL: chunk.plan @ragged
chunk.plan @ragged mesh [4] {
  %a = chunk.buffer "a" : !chunk.buffer<7x4xf32>
  %t = chunk.all_gather %a axis 0 group [3, 1, 0] : !chunk.buffer<7x4xf32>
  chunk.kernel @k tiles [1] ctas 1 args() after(%t) {}
}
// PUSH-DAG: %[[T0:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [3, 4] from 3 to 1
// PUSH-DAG: %[[T1:.+]] = chunk.put %0[3, 0] to %0[3, 0] sizes [3, 4] from 1 to 0
// PUSH-DAG: %[[T2:.+]] = chunk.put %0[6, 0] to %0[6, 0] sizes [1, 4] from 0 to 3
// PUSH-DAG: %[[T3:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [3, 4] from 3 to 0
// PUSH-DAG: %[[T4:.+]] = chunk.put %0[3, 0] to %0[3, 0] sizes [3, 4] from 1 to 3
// PUSH-DAG: %[[T5:.+]] = chunk.put %0[6, 0] to %0[6, 0] sizes [1, 4] from 0 to 1
// PUSH: %[[ALL:.+]] = chunk.join %[[T0]], %[[T1]], %[[T2]], %[[T3]], %[[T4]], %[[T5]]
// PUSH-NEXT: chunk.claim after(%[[ALL]]) {
// PUSH-NEXT: chunk.all_gather %0 axis 0 group [3, 1, 0]
// PUSH-NEXT: }
// PUSH-NEXT: chunk.kernel @k tiles [1] ctas 1 args() after(%[[ALL]])

// PULL-DAG: chunk.get %0[3, 0] to %0[3, 0] sizes [3, 4] from 1 to 3
// PULL-DAG: chunk.get %0[6, 0] to %0[6, 0] sizes [1, 4] from 0 to 1
// PULL-DAG: chunk.get %0[0, 0] to %0[0, 0] sizes [3, 4] from 3 to 0
// PULL-DAG: chunk.get %0[6, 0] to %0[6, 0] sizes [1, 4] from 0 to 3
// PULL-DAG: chunk.get %0[0, 0] to %0[0, 0] sizes [3, 4] from 3 to 1
// PULL-DAG: chunk.get %0[3, 0] to %0[3, 0] sizes [3, 4] from 1 to 0

// The second step passes on what the first one brought.
// RING: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [3, 4] from 3 to 1 :
// RING: %[[B:.+]] = chunk.put %0[3, 0] to %0[3, 0] sizes [3, 4] from 1 to 0 :
// RING: %[[C:.+]] = chunk.put %0[6, 0] to %0[6, 0] sizes [1, 4] from 0 to 3 :
// RING: chunk.put %0[6, 0] to %0[6, 0] sizes [1, 4] from 3 to 1 after(%[[C]])
// RING: chunk.put %0[0, 0] to %0[0, 0] sizes [3, 4] from 1 to 0 after(%[[A]])
// RING: chunk.put %0[3, 0] to %0[3, 0] sizes [3, 4] from 0 to 3 after(%[[B]])

// RINGPULL: %[[A:.+]] = chunk.get %0[0, 0] to %0[0, 0] sizes [3, 4] from 3 to 1 :
// RINGPULL: chunk.get %0[0, 0] to %0[0, 0] sizes [3, 4] from 1 to 0 after(%[[A]])

// What a collective says of itself goes before the option, and blocks may be empty.
// PULL-LABEL: chunk.plan @named
// PULL: chunk.put %0[0] to %0[0] sizes [1] from 0 to 1
// PULL: chunk.put %0[1] to %0[1] sizes [1] from 1 to 2
// PULL: chunk.put %0[0] to %0[0] sizes [1] from 0 to 2
// PULL: chunk.put %0[1] to %0[1] sizes [1] from 1 to 0
// PULL-NOT: chunk.put
chunk.plan @named mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<2xf32>
  %t = chunk.all_gather %a axis 0 group [0, 1, 2] by direct push : !chunk.buffer<2xf32>
}

// A strategy goes before the default.
// PUSH-LABEL: chunk.plan @strategy
// PUSH: chunk.get
chunk.plan @strategy mesh [2] strategy <algorithm = direct, direction = pull, splits = 1, realization = copy_engine, order = arrival, group_m = 8> {
  %a = chunk.buffer "a" : !chunk.buffer<2xf32>
  %t = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<2xf32>
}
