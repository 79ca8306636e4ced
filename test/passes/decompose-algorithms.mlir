// RUN: syncopate-opt %s --chunk-decompose-collectives=algorithm=bidirectional_ring --split-input-file | FileCheck %s --check-prefix=BOTH
// RUN: syncopate-opt %s --chunk-decompose-collectives=algorithm=hierarchical --split-input-file | FileCheck %s --check-prefix=LEVELS
// RUN: syncopate-opt %s --chunk-decompose-collectives="algorithm=hierarchical direction=pull" --split-input-file | FileCheck %s --check-prefix=PULL
// RUN: syncopate-opt %s --chunk-decompose-collectives=algorithm=recursive_doubling --split-input-file | FileCheck %s --check-prefix=DOUBLING
// RUN: syncopate-opt %s --chunk-decompose-collectives=algorithm=ring --split-input-file | FileCheck %s --check-prefix=RING
// RUN: not syncopate-opt %s --chunk-decompose-collectives=direction=up --split-input-file 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: expects a known direction, but got 'up'

!b = !chunk.buffer<8x2xf32>

// The first half of rank 0's block goes to rank 1 and on to rank 2, the second half to rank 3 and on to rank 2.
// BOTH-LABEL: chunk.plan @gather
// BOTH: %[[F:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [1, 2] from 0 to 1 :
// BOTH-NEXT: %[[B:.+]] = chunk.put %0[1, 0] to %0[1, 0] sizes [1, 2] from 0 to 3 :
// BOTH: chunk.put %0[0, 0] to %0[0, 0] sizes [1, 2] from 1 to 2 after(%[[F]])
// BOTH: chunk.put %0[1, 0] to %0[1, 0] sizes [1, 2] from 3 to 2 after(%[[B]])

// Nodes are the ranks 0, 1 and 2, 3. Rank 0's block goes to rank 2, the one at its place of the other node, and to
// rank 1; rank 1 has that of rank 2 from rank 0.
// LEVELS-LABEL: chunk.plan @gather
// LEVELS: chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 0 to 2 :
// LEVELS: %[[A:.+]] = chunk.put %0[4, 0] to %0[4, 0] sizes [2, 2] from 2 to 0 :
// LEVELS: chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 0 to 1 :
// LEVELS: chunk.put %0[4, 0] to %0[4, 0] sizes [2, 2] from 0 to 1 after(%[[A]])
// PULL-LABEL: chunk.plan @gather
// PULL: %[[A:.+]] = chunk.get %0[4, 0] to %0[4, 0] sizes [2, 2] from 2 to 0 :
// PULL: chunk.get %0[4, 0] to %0[4, 0] sizes [2, 2] from 0 to 1 after(%[[A]])

// DOUBLING-LABEL: chunk.plan @gather
// DOUBLING: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 0 to 1 :
// DOUBLING: %[[B:.+]] = chunk.put %0[2, 0] to %0[2, 0] sizes [2, 2] from 1 to 0 :
// DOUBLING: chunk.put %0[0, 0] to %0[0, 0] sizes [4, 2] from 0 to 2 after(%[[B]])
// DOUBLING: chunk.put %0[0, 0] to %0[0, 0] sizes [4, 2] from 1 to 3 after(%[[A]])
chunk.plan @gather mesh [2, 2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.all_gather %a axis 0 group [0, 1, 2, 3] : !b
}

// -----

!b = !chunk.buffer<8x2xf32>

// Rank 0 gathers within its node what goes into its own block and into that of rank 2, its like on the other node; then
// the nodes exchange.
// LEVELS-LABEL: chunk.plan @scatter
// LEVELS: %[[OWN:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 1 to 0 reduce sum :
// LEVELS: %[[NEAR:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 3 to 2 reduce sum :
// LEVELS: chunk.put %0[0, 0] to %0[0, 0] sizes [2, 2] from 2 to 0 reduce sum after(%[[NEAR]], %[[OWN]])

// Partners halve what they are about: first by half of the group, then by a quarter.
// DOUBLING-LABEL: chunk.plan @scatter
// DOUBLING: chunk.put %0[4, 0] to %0[4, 0] sizes [4, 2] from 0 to 2 reduce sum :
// DOUBLING: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [4, 2] from 2 to 0 reduce sum :
// DOUBLING: %[[B:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [4, 2] from 3 to 1 reduce sum :
// DOUBLING: chunk.put %0[2, 0] to %0[2, 0] sizes [2, 2] from 0 to 1 reduce sum after(%[[A]], %[[B]])

// The halves grow on their way in both directions: rank 0's is behind rank 0 in each.
// BOTH-LABEL: chunk.plan @scatter
// BOTH: chunk.put %0[6, 0] to %0[6, 0] sizes [1, 2] from 0 to 1 reduce sum :
// BOTH-NEXT: chunk.put %0[3, 0] to %0[3, 0] sizes [1, 2] from 0 to 3 reduce sum :
chunk.plan @scatter mesh [2, 2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1, 2, 3] : !b
}

// -----

!b = !chunk.buffer<8x2xf32>

// RING-LABEL: chunk.plan @broadcast
// RING: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 3 to 0 :
// RING-NEXT: %[[B:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 0 to 1 after(%[[A]])
// RING-NEXT: chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 1 to 2 after(%[[B]])
// BOTH-LABEL: chunk.plan @broadcast
// BOTH: chunk.put %0[0, 0] to %0[0, 0] sizes [4, 2] from 3 to 0 :
// BOTH-NEXT: chunk.put %0[4, 0] to %0[4, 0] sizes [4, 2] from 3 to 2 :
// LEVELS-LABEL: chunk.plan @broadcast
// LEVELS: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 3 to 1 :
// LEVELS-NEXT: chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 3 to 2 :
// LEVELS-NEXT: chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 1 to 0 after(%[[A]])
// DOUBLING-LABEL: chunk.plan @broadcast
// DOUBLING: %[[A:.+]] = chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 3 to 0 :
// DOUBLING-NEXT: chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 3 to 1 :
// DOUBLING-NEXT: chunk.put %0[0, 0] to %0[0, 0] sizes [8, 2] from 0 to 2 after(%[[A]])
chunk.plan @broadcast mesh [2, 2] {
  %a = chunk.buffer "a" : !b
  %t = chunk.broadcast %a root 3 group [0, 1, 2, 3] : !b
}

// -----

// Seven rows: blocks of 3, 3 and 1; each comes to a place of 3 rows. The own block is copied, too.
// RING-LABEL: chunk.plan @exchange
// RING-DAG: chunk.get %0[3, 0] to %1[0, 0] sizes [3, 2] from 0 to 1 :
// RING-DAG: chunk.get %0[6, 0] to %1[3, 0] sizes [1, 2] from 1 to 2 :
// RING-DAG: chunk.get %0[0, 0] to %1[6, 0] sizes [3, 2] from 2 to 0 :
// RING-DAG: chunk.get %0[6, 0] to %1[6, 0] sizes [1, 2] from 2 to 2 :
// RING: chunk.claim
chunk.plan @exchange mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<7x2xf32>
  %b = chunk.buffer "b" : !chunk.buffer<9x2xf32>
  %t = chunk.all_to_all %a to %b axis 0 group [0, 1, 2] by direct pull : !chunk.buffer<7x2xf32> to !chunk.buffer<9x2xf32>
}
