// All-gather + GEMM on four ranks, direct push: each rank puts its block of A to
// every other rank. C's tiles are 128 × 64, so tile (m, n) reads 128 rows of A.
//
//   syncopate-opt --syncopate-plan-pipeline examples/plans/all_gather_push.mlir
//
// prints the schedule of each rank: its tiles in order, what each waits for, its
// commands, and the flags that it raises.

chunk.plan @all_gather_push mesh [4] {
  %a = chunk.buffer "a" : !chunk.buffer<512x512xbf16>
  chunk.input %a[0, 0] sizes [128, 512] on 0 : !chunk.buffer<512x512xbf16>
  chunk.input %a[128, 0] sizes [128, 512] on 1 : !chunk.buffer<512x512xbf16>
  chunk.input %a[256, 0] sizes [128, 512] on 2 : !chunk.buffer<512x512xbf16>
  chunk.input %a[384, 0] sizes [128, 512] on 3 : !chunk.buffer<512x512xbf16>
  %t = chunk.all_gather %a axis 0 group [0, 1, 2, 3] by direct push
    : !chunk.buffer<512x512xbf16>
  chunk.kernel @gemm tiles [4, 8] ctas 8 args(%a as "a_desc") after(%t)
      : !chunk.buffer<512x512xbf16> {
    chunk.footprint read "a_desc" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 512]
  }
}
