// Tables of a plan whose tiles compute what is moved, and edits of those of rank 0.
// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 0/s/end : \[2, 1, 2\], \[2, 2, 3\]/end : [1, 1, 2], [2, 2, 3]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: expects row 0 of groups to count 2 tiles, as many as are in it, but got 1

// RUN: sed "/rank 0/s/\[1, 0, 0, 0, 0, 0\], \[1, 0, 0, 0, 0, 0\]>/[1, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0]>/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=LEFT
// LEFT: expects row 1 of groups to count 1 tiles, as many as are in it, but got 2

// RUN: sed "/rank 0/s/tile_groups = [^>]*>/tile_groups = #chunk.table<group, accumulates, wait_begin, wait_end, command_begin, command_end>/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: expects tile_groups to have a row for each tile if tiles compute chunks, and else none, but got 0

// RUN: sed "/rank 0/s/64, 64, 64, 1, 3, 0, 1, 4/64, 64, 64, 2, 3, 0, 1, 4/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: is carried out by rank 0 without a wait for tile [0] of rank 0, which computes what it touches

// RUN: sed "/rank 0/s/64, 64, 64, 1, 3, 0, 1, 4/64, 64, 64, 1, 2, 0, 1, 4/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=REMOTE
// REMOTE: is carried out by rank 0 without a wait for tile [0] of rank 1, which computes what it touches

// RUN: sed "/rank 0/s/\[2, 0, 0, 0, 1\], \[3, 0/[2, 0, 0, 0, 0], [3, 0/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=REUSE
// REUSE: tile [2] of rank 0 starts without a wait for a transfer of the call before, which touches what it writes

// RUN: sed "/rank 0/s/end : \[2, 1, 2\], \[2, 2, 3\]/end : [2, 1, 1], [2, 2, 3]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=SILENT
// SILENT: waits for the flag at rank 0 of group 0 of tiles, which nobody raises

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 0, 0\], \[0, 0, 0, 0, 0, 0\], \[1/[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ADDS
// ADDS: expects tile_groups to say of tile [0] whether it adds to what is there, as the plan does

// RUN: sed "/rank 0/s/\[2, 0, 0, 0, 1\], \[3, 0, 0, 0, 0\]/[2, 0, 0, 1, 2], [3, 0, 0, 0, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=CIRCLE
// CIRCLE: waits for itself, in a circle

// RUN: sed "/rank 0/s/0, 1, 4, 1, 0, 1, 0, 0,/0, 1, 4, 2, 0, 1, 0, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=REDUCTION
// REDUCTION: command 0 of rank 0 has reduction 2, but its transfer has 1

!p = !chunk.buffer<8x4xf32>
chunk.plan @scatter mesh [2] {
  %p = chunk.buffer "p" : !p
  %m0 = chunk.produce %p[0, 0] sizes [8, 4] on 0 : !p
  %m1 = chunk.produce %p[0, 0] sizes [8, 4] on 1 : !p
  %r = chunk.reduce_scatter %p reduce sum axis 0 group [0, 1] after(%m0, %m1) by pull : !p
  chunk.output %p[0, 0] sizes [4, 4] on 0 : !p
  chunk.output %p[4, 0] sizes [4, 4] on 1 : !p
  chunk.kernel @gemm tiles [4] ctas 1 args(%p as "c") : !p {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
