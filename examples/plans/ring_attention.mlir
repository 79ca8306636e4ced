// Causal attention of a sequence that three ranks share: keys are passed on around
// a ring while they are used. A tile is 16 queries of a head of its rank, and walks
// blocks of 8 keys up to its diagonal, in the order in which they arrive.
//
//   syncopate explain examples/plans/ring_attention.mlir
//
// says at which step of which tile a rank first needs what another one brings.

chunk.plan @ring_attention mesh [3] {
  %k = chunk.buffer "k" : !chunk.buffer<96x32xbf16>
  chunk.input %k[0, 0] sizes [32, 32] on 0 : !chunk.buffer<96x32xbf16>
  chunk.input %k[32, 0] sizes [32, 32] on 1 : !chunk.buffer<96x32xbf16>
  chunk.input %k[64, 0] sizes [32, 32] on 2 : !chunk.buffer<96x32xbf16>
  %t = chunk.all_gather %k axis 0 group [0, 1, 2] by ring push
    : !chunk.buffer<96x32xbf16>
  chunk.kernel @attention tiles [2, 2] ctas 2 args(%k as "k_desc") after(%t)
      : !chunk.buffer<96x32xbf16> {
    chunk.steps on 0 from affine_map<(h, m) -> (0)> to affine_map<(h, m) -> (m * 2 + 2)>
    chunk.steps on 1 from affine_map<(h, m) -> (0)> to affine_map<(h, m) -> (m * 2 + 6)>
    chunk.steps on 2 from affine_map<(h, m) -> (0)> to affine_map<(h, m) -> (m * 2 + 10)>
    chunk.footprint read "k_desc" at affine_map<(h, m, n) -> (n * 8, h * 16)> sizes [8, 16]
  }
}
