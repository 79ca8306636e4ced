// RUN: syncopate-opt %s --chunk-assign-realization | FileCheck %s --check-prefix=DEFAULT
// RUN: syncopate-opt %s --chunk-assign-realization=realization=copy_engine | FileCheck %s --check-prefix=ENGINE
// RUN: not syncopate-opt %s --chunk-assign-realization=realization=pigeon 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not syncopate-opt %s --chunk-assign-realization=realization=nccl 2>&1 | FileCheck %s --check-prefix=REFUSED
// UNKNOWN: expects a known realization, but got 'pigeon'
// REFUSED: 'chunk.put' op expects one of the realizations copy_engine tma_dedicated tma_colocated ldst_dedicated ldst_colocated, but got nccl

chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<4xf32>
  // DEFAULT: realize ldst_colocated
  // ENGINE: realize copy_engine
  %t0 = chunk.put %a[0] to %a[0] sizes [1] from 0 to 1 : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
  // What a transfer says of itself goes before the option.
  // DEFAULT: realize ldst_colocated
  // ENGINE: realize ldst_colocated
  %t1 = chunk.put %a[1] to %a[1] sizes [1] from 0 to 1 realize ldst_colocated : !chunk.buffer<4xf32> to !chunk.buffer<4xf32>
}
