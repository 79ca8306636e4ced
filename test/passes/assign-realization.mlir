// RUN: syncopate-opt %s --chunk-assign-realization | FileCheck %s --check-prefix=DEFAULT
// RUN: syncopate-opt %s --chunk-assign-realization=realization=copy_engine | FileCheck %s --check-prefix=ENGINE
// RUN: syncopate-opt %s --chunk-assign-realization=realization=ldst_dedicated | FileCheck %s --check-prefix=DEDICATED
// RUN: syncopate-opt %s --chunk-assign-realization="realization=ldst_dedicated comm_ctas=3" | FileCheck %s --check-prefix=THREE
// RUN: syncopate-opt %s --chunk-assign-realization=realization=ldst_dedicated | syncopate-opt --chunk-assign-realization=comm_ctas=2 | FileCheck %s --check-prefix=AGAIN
// RUN: not syncopate-opt %s --chunk-assign-realization=realization=pigeon 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: syncopate-opt %s --chunk-assign-realization=realization=nccl | FileCheck %s --check-prefix=NCCL
// RUN: not syncopate-opt %s --chunk-assign-realization="realization=ldst_dedicated comm_ctas=-1" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not syncopate-opt %s --chunk-assign-realization="realization=ldst_dedicated comm_ctas=65537" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: syncopate-opt %s --chunk-assign-realization=realization=tma_colocated | FileCheck %s --check-prefix=COLOCATED
// RUN: syncopate-opt %s --chunk-assign-realization=realization=tma_dedicated | FileCheck %s --check-prefix=TMA
// UNKNOWN: expects a known realization, but got 'pigeon'
// NONE: 'chunk.kernel' op expects comm_ctas to be in [1, 65536], one at least for each dedicated realization, but got -1
// MANY: 'chunk.kernel' op expects comm_ctas to be in [1, 65536], one at least for each dedicated realization, but got 65537

// The kernel has CTAs for communication only where a transfer needs them.
chunk.plan @p mesh [2] strategy <comm_ctas = 5> {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  // DEFAULT: realize ldst_colocated
  // ENGINE: realize copy_engine
  // DEDICATED: realize ldst_dedicated
  // NCCL: chunk.get {{.*}} from 0 to 1 realize nccl
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  // What a transfer says of itself goes before the option.
  // DEFAULT: realize ldst_colocated
  // ENGINE: realize ldst_colocated
  // DEDICATED: realize ldst_colocated
  %t1 = chunk.put %a[1] to %a[1] sizes [1] from 0 to 1 realize ldst_colocated : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  // DEFAULT: chunk.kernel @k tiles [3] ctas 2 args()
  // ENGINE: chunk.kernel @k tiles [3] ctas 2 args()
  // DEDICATED: chunk.kernel @k tiles [3] ctas 2 comm_ctas 5 args()
  // THREE: chunk.kernel @k tiles [3] ctas 2 comm_ctas 3 args()
  // AGAIN: chunk.kernel @k tiles [3] ctas 2 comm_ctas 2 args()
  chunk.kernel @k tiles [3] ctas 2 args() {}
}

// What the strategy's realization cannot combine, loads and stores do.
// DEFAULT-LABEL: chunk.plan @reductions
// ENGINE-LABEL: chunk.plan @reductions
// DEDICATED-LABEL: chunk.plan @reductions
// COLOCATED-LABEL: chunk.plan @reductions
// TMA-LABEL: chunk.plan @reductions
chunk.plan @reductions mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  // DEFAULT: realize ldst_colocated
  // ENGINE: realize ldst_colocated
  // DEDICATED: realize ldst_dedicated
  // COLOCATED: realize tma_colocated
  // TMA: realize tma_dedicated
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 reduce sum : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  // DEFAULT: realize ldst_colocated
  // ENGINE: realize ldst_colocated
  // DEDICATED: realize ldst_dedicated
  // COLOCATED: realize ldst_colocated
  // TMA: realize ldst_dedicated
  %t1 = chunk.put %a[1] parts 2 step [1] to %a[0] sizes [1] from 1 to 1 reduce sum after(%t0) : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  // COLOCATED: realize ldst_colocated
  // TMA: realize ldst_dedicated
  %t2 = chunk.put %a[0] to %a[3] sizes [1] from 0 to 1 reduce max : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
}
