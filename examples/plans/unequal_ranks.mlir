// Ranks may do different things. Rank 0 holds three quarters of A and pushes them in
// three pieces by its own warps; rank 1 holds the last quarter, which rank 0 pulls
// with its copy engine. Each transfer names its realization.
//
//   syncopate-opt --syncopate-plan-pipeline examples/plans/unequal_ranks.mlir

!buf = !chunk.buffer<512x256xbf16>

chunk.plan @unequal_ranks mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [384, 256] on 0 : !buf
  chunk.input %a[384, 0] sizes [128, 256] on 1 : !buf

  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [128, 256] from 0 to 1 realize ldst_colocated : !buf to !buf
  %t1 = chunk.put %a[128, 0] to %a[128, 0] sizes [128, 256] from 0 to 1 realize ldst_colocated : !buf to !buf
  %t2 = chunk.put %a[256, 0] to %a[256, 0] sizes [128, 256] from 0 to 1 realize ldst_colocated : !buf to !buf
  %t3 = chunk.get %a[384, 0] to %a[384, 0] sizes [128, 256] from 1 to 0 realize copy_engine : !buf to !buf

  %t = chunk.join %t0, %t1, %t2, %t3
  chunk.kernel @gemm tiles [4, 4] ctas 4 args(%a as "a_desc") after(%t) : !buf {
    chunk.footprint read "a_desc" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 256]
  }
}
