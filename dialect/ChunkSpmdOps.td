//===- ChunkSpmdOps.td - what all ranks do alike --------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKSPMDOPS_TD
#define SYNCOPATE_DIALECT_CHUNKSPMDOPS_TD

include "dialect/ChunkPlanOps.td"

def Chunk_SpmdOp : Chunk_PlanBodyOp<"spmd", [
    NoRegionArguments, NoTerminator, SingleBlock]> {
  let summary = "what every member of a group transfers, written once";
  let description = [{
    Each `chunk.transfer` in the body is carried out by every member of the
    group, which differ only in their position in it: offsets and peers are
    affine in that. All of it comes after the tokens in `after`; the token is
    that of all transfers.

    It means what `chunk-expand-spmd` makes of it: for one transfer after
    another, a put or get of each member.

    Constraints:
    * (spmd_c1) the group has at least one member, all of them ranks of the
      plan, none twice.
    * (spmd_c2) the body holds transfers only, at least one.

    Example: an all_gather around a ring of three.

    ```mlir
    %t = chunk.spmd group [0, 1, 2] {
      %0 = chunk.transfer push %a at affine_map<(i) -> (i * 2, 0)>
        to %a at affine_map<(i) -> (i * 2, 0)> sizes [2, 4]
        peer affine_map<(i) -> ((i + 1) mod 3)>
        : !chunk.buffer<6x4xf32> to !chunk.buffer<6x4xf32>
      %1 = chunk.transfer push %a at affine_map<(i) -> ((i - 1) mod 3 * 2, 0)>
        to %a at affine_map<(i) -> ((i - 1) mod 3 * 2, 0)> sizes [2, 4]
        peer affine_map<(i) -> ((i + 1) mod 3)>
        after(%0 at affine_map<(i) -> ((i - 1) mod 3)>)
        : !chunk.buffer<6x4xf32> to !chunk.buffer<6x4xf32>
    }
    ```
  }];
  let arguments = (ins DenseI64ArrayAttr:$group,
                       Variadic<Chunk_TokenType>:$dependencies);
  let results = (outs Chunk_TokenType:$token);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `group` $group (`after` `(` $dependencies^ `)`)? attr-dict-with-keyword
    $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Chunk_TransferOp : Chunk_Op<"transfer", [HasParent<"SpmdOp">]> {
  let summary = "a transfer of every member of a group";
  let description = [{
    With `push`, member i puts the chunk at `src` to `dst` at the member whose
    position is given by `peer`; with `pull`, it gets it from there. The maps
    take i. What lies outside of either buffer at its end is left out, so that
    the last blocks may be shorter, or empty: then nothing is transferred, and
    what comes after this comes after what this comes after.

    `after(%t at map)` comes after the transfer `%t` of the member whose
    position the map gives; without a map, after the same member's.

    Constraints:
    * (spmd_transfer_c1) the maps take one dimension, give as many offsets as
      the buffers have dimensions, or one position, and are affine as those of
      footprints are.
    * (spmd_transfer_c2) for every member, peers and those in `after` are
      positions in the group.
    * (spmd_transfer_c3) for every member, offsets are not negative.
    * (spmd_transfer_c4) tokens in `after` are those of transfers of the same
      body.
    * (spmd_transfer_c5) some member transfers something; what each does keeps
      the constraints of `TransferOpInterface`.
  }];
  let arguments = (ins Chunk_DirectionAttr:$direction,
                       Chunk_BufferType:$src,
                       AffineMapAttr:$src_offsets,
                       Chunk_BufferType:$dst,
                       AffineMapAttr:$dst_offsets,
                       DenseI64ArrayAttr:$sizes,
                       AffineMapAttr:$peer,
                       OptionalAttr<Chunk_ReductionAttr>:$reduction,
                       Variadic<Chunk_TokenType>:$dependencies,
                       AffineMapArrayAttr:$members,
                       OptionalAttr<Chunk_RealizationAttr>:$realization);
  let results = (outs Chunk_TokenType:$token);
  let assemblyFormat = [{
    `` $direction $src `at` $src_offsets `to` $dst `at` $dst_offsets
    `sizes` $sizes `peer` $peer (`reduce` `` $reduction^)?
    custom<MemberTokens>($dependencies, $members)
    (`realize` `` $realization^)? attr-dict `:` type($src) `to` type($dst)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What a member transfers, if anything is left of it. Requires that the
    /// constraints up to the third hold.
    std::optional<Route> getRoute(int64_t member);
    /// The position of the member whose transfer a member's comes after, for
    /// one of the tokens.
    int64_t getMember(unsigned token, int64_t member);
  }];
}

#endif // SYNCOPATE_DIALECT_CHUNKSPMDOPS_TD
