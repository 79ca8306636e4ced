// A ring all-gather on three ranks, written with puts. Rank r puts its own block to
// its right neighbour, then forwards the block that its left neighbour brought. The
// token of the transfer that brought the block is what the forwarding one comes
// after, although the two are carried out by different ranks: a dependence across
// ranks is an SSA edge, and a cyclic plan cannot be written.
//
//   syncopate-opt --syncopate-plan-pipeline examples/plans/ring_by_hand.mlir

!buf = !chunk.buffer<384x256xbf16>

chunk.plan @ring_by_hand mesh [3] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [128, 256] on 0 : !buf
  chunk.input %a[128, 0] sizes [128, 256] on 1 : !buf
  chunk.input %a[256, 0] sizes [128, 256] on 2 : !buf

  // First hop: everyone sends its own block to the right.
  %b0_at1 = chunk.put %a[0, 0] to %a[0, 0] sizes [128, 256] from 0 to 1 : !buf to !buf
  %b1_at2 = chunk.put %a[128, 0] to %a[128, 0] sizes [128, 256] from 1 to 2 : !buf to !buf
  %b2_at0 = chunk.put %a[256, 0] to %a[256, 0] sizes [128, 256] from 2 to 0 : !buf to !buf

  // Second hop: everyone forwards what has just arrived.
  %b0_at2 = chunk.put %a[0, 0] to %a[0, 0] sizes [128, 256] from 1 to 2 after(%b0_at1) : !buf to !buf
  %b1_at0 = chunk.put %a[128, 0] to %a[128, 0] sizes [128, 256] from 2 to 0 after(%b1_at2) : !buf to !buf
  %b2_at1 = chunk.put %a[256, 0] to %a[256, 0] sizes [128, 256] from 0 to 1 after(%b2_at0) : !buf to !buf

  %t = chunk.join %b0_at2, %b1_at0, %b2_at1
  // What that amounts to; the compiler proves it.
  chunk.claim after(%t) {
    %same = chunk.all_gather %a axis 0 group [0, 1, 2] : !buf
  }
  chunk.kernel @gemm tiles [3, 4] ctas 4 args(%a as "a_desc") after(%t) : !buf {
    chunk.footprint read "a_desc" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 256]
  }
}
