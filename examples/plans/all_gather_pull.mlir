// All-gather + GEMM on four ranks, direct pull by the copy engines, in two pieces
// per peer. The strategy says what the plan leaves open: pieces and realization.
//
//   syncopate-opt --syncopate-plan-pipeline examples/plans/all_gather_pull.mlir

chunk.plan @all_gather_pull mesh [4] strategy <algorithm = direct, direction = pull, splits = 2, realization = copy_engine, order = arrival, group_m = 8> {
  %a = chunk.buffer "a" : !chunk.buffer<512x512xbf16>
  chunk.input %a[0, 0] sizes [128, 512] on 0 : !chunk.buffer<512x512xbf16>
  chunk.input %a[128, 0] sizes [128, 512] on 1 : !chunk.buffer<512x512xbf16>
  chunk.input %a[256, 0] sizes [128, 512] on 2 : !chunk.buffer<512x512xbf16>
  chunk.input %a[384, 0] sizes [128, 512] on 3 : !chunk.buffer<512x512xbf16>
  %t = chunk.all_gather %a axis 0 group [0, 1, 2, 3] : !chunk.buffer<512x512xbf16>
  chunk.kernel @gemm tiles [8, 8] ctas 8 args(%a as "a_desc") after(%t)
      : !chunk.buffer<512x512xbf16> {
    chunk.footprint read "a_desc" at affine_map<(m, n) -> (m * 64, 0)> sizes [64, 512]
  }
}
