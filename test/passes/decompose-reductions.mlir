// RUN: syncopate-opt %s --chunk-decompose-collectives | FileCheck %s --check-prefix=PUSH
// RUN: syncopate-opt %s --chunk-decompose-collectives="algorithm=direct direction=pull" | FileCheck %s --check-prefix=PULL
// RUN: syncopate-opt %s --chunk-decompose-collectives=algorithm=ring | FileCheck %s --check-prefix=RING
// RUN: syncopate-opt %s --chunk-decompose-collectives --chunk-split-transfers=splits=2 | FileCheck %s --check-prefix=SPLIT
// RUN: not syncopate-opt %s --syncopate-plan-pipeline 2>&1 | FileCheck %s --check-prefix=LOWERED
// LOWERED: 'chunk.put' op overwrites an input of rank 0 at offsets [0, 0] sizes [6, 2], which tables cannot say

!b = !chunk.buffer<6x2xf32>

// What the others have goes into each member's block, one after another, the next member first.
// PUSH-LABEL: chunk.plan @scatter
// PUSH: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 1 to 0 reduce sum :
// PUSH: %[[B:.+]] = chunk.put %0[2, 0] to %0[2, 0] sizes [2, 2] from 2 to 1 reduce sum :
// PUSH: %[[C:.+]] = chunk.put %0[4, 0] to %0[4, 0] sizes [2, 2] from 0 to 2 reduce sum :
// PUSH: chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 2 to 0 reduce sum after(%[[A]])
// PUSH: chunk.put %0[2, 0] to %0[2, 0] sizes [2, 2] from 0 to 1 reduce sum after(%[[B]])
// PUSH: chunk.put %0[4, 0] to %0[4, 0] sizes [2, 2] from 1 to 2 reduce sum after(%[[C]])
// PUSH: chunk.claim
// PUSH-NEXT: chunk.reduce_scatter %0 reduce sum axis 0 group [0, 1, 2]

// PULL-LABEL: chunk.plan @scatter
// PULL: chunk.get %0[0, 0] to %0[0, 0] sizes [2, 2] from 1 to 0 reduce sum :

// A block starts behind the member it belongs to, and grows on its way there.
// RING-LABEL: chunk.plan @scatter
// RING: %[[A:.+]] = chunk.put %0[4, 0] to %0[4, 0] sizes [2, 2] from 0 to 1 reduce sum :
// RING: %[[B:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 1 to 2 reduce sum :
// RING: %[[C:.+]] = chunk.put %0[2, 0] to %0[2, 0] sizes [2, 2] from 2 to 0 reduce sum :
// RING: chunk.put %0[2, 0] to %0[2, 0] sizes [2, 2] from 0 to 1 reduce sum after(%[[C]])
// RING: chunk.put %0[4, 0] to %0[4, 0] sizes [2, 2] from 1 to 2 reduce sum after(%[[A]])
// RING: chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 2 to 0 reduce sum after(%[[B]])

// Pieces follow the pieces that they add to.
// SPLIT-LABEL: chunk.plan @scatter
// SPLIT: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [1, 2] from 1 to 0 reduce sum :
// SPLIT: %[[B:.+]] = chunk.put %0[1, 0] to %0[1, 0] sizes [1, 2] from 1 to 0 reduce sum :
// SPLIT: chunk.put %0[0, 0] to %0[0, 0] sizes [1, 2] from 2 to 0 reduce sum after(%[[A]])
// SPLIT: chunk.put %0[1, 0] to %0[1, 0] sizes [1, 2] from 2 to 0 reduce sum after(%[[B]])
chunk.plan @scatter mesh [3] {
  %a = chunk.buffer "a" : !b
  chunk.input %a[0, 0] sizes [6, 2] on 0 : !b
  chunk.input %a[0, 0] sizes [6, 2] on 1 : !b
  chunk.input %a[0, 0] sizes [6, 2] on 2 : !b
  %t = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1, 2] : !b
  chunk.kernel @k tiles [1] ctas 1 args() after(%t) {}
}

// Each block is gathered when it is reduced.
// PUSH-LABEL: chunk.plan @both
// PUSH: %[[A:.+]] = chunk.put %0[0] to %0[0] sizes [1] from 1 to 0 reduce max :
// PUSH: %[[B:.+]] = chunk.put %0[1] to %0[1] sizes [1] from 0 to 1 reduce max :
// PUSH: chunk.put %0[0] to %0[0] sizes [1] from 0 to 1 after(%[[A]]) :
// PUSH: chunk.put %0[1] to %0[1] sizes [1] from 1 to 0 after(%[[B]]) :
chunk.plan @both mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<2xf32>
  chunk.input %a[0] sizes [2] on 0 : !chunk.buffer<2xf32>
  chunk.input %a[0] sizes [2] on 1 : !chunk.buffer<2xf32>
  %t = chunk.all_reduce %a reduce max axis 0 group [0, 1] : !chunk.buffer<2xf32>
}
