// Tables of a plan whose tiles hand over what they compute, and edits of those of rank 0.
// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 2\], \[0, 0, 0, 0, 2, 3\]/[0, 0, 0, 0, 2, 3], [0, 0, 0, 0, 1, 2]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=SWAPPED
// SWAPPED: command 1 of rank 0 is handed over by tile 1, but its transfer by tile 0

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 2\], \[0, 0, 0, 0, 2, 3\]/[0, 0, 0, 0, 1, 2], [0, 0, 0, 0, 0, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=NOBODY
// NOBODY: command 2 of rank 0 is handed over by no tile, but its transfer by tile 1

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 2\], \[0, 0, 0, 0, 2, 3\]/[0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 2, 3]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: command 0 of rank 0 is handed over by tile 0, but its transfer by none

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 2\], \[0, 0, 0, 0, 2, 3\]/[0, 0, 0, 0, 1, 3], [0, 0, 0, 0, 2, 3]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: expects command 2 to be handed over by one tile, but got another one in row 1 of tile_groups

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 2, 3\]/[0, 0, 0, 0, 2, 9]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: expects row 1 of tile_groups to name rows of commands in [0, 3], but got [2, 9)

// RUN: sed "/rank 0/s/\(before_tiles, [^]]*\), 0, -1, 0\]/\1, 2, -1, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=BEFORE
// BEFORE: expects before_tiles to be in [0, 1], the commands that the role beside the tiles has besides, but got 2

// A queue that is waited for before the tiles that it waits for is a circle.
// RUN: sed "/rank 0/s/\(before_tiles, [^]]*\), 0, -1, 0\]/\1, 1, -1, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=CIRCLE
// CIRCLE: the ldst_colocated role of rank 0 at transfer 2 waits for itself, in a circle
// CIRCLE: the ldst_colocated role of rank 0 at transfer 2 waits for the flag at rank 0 of transfer 0, which is to be raised by the ldst_colocated role of rank 0 beside CTA 0 at transfer 0
// CIRCLE: the ldst_colocated role of rank 0 beside CTA 0 at transfer 0 waits for the ldst_colocated role of rank 0 at transfer 2

// What a tile hands over waits for the call before by itself.
// RUN: sed "/rank 0/s/\(\[0, 0, 0, 0, 1, 1, 0, 1, 32, 32, 32, 3, \)4/\13/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=GUARD
// GUARD: is carried out by rank 0 without a wait for the call before of rank 1, to which it writes

// Two transfers raise one flag, and the end waits for both.
// RUN: sed "/rank 1/s/\[1, 2\]/[1, 1]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COUNTED
// COUNTED: to count to 1, but in a call it counts to 2

!p = !chunk.buffer<4x4xf32>
chunk.plan @send mesh [2] {
  %p = chunk.buffer "p" : !p
  %q = chunk.buffer "q" : !p
  %r = chunk.buffer "r" : !p
  %made = chunk.produce %p[0, 0] sizes [4, 4] on 0 : !p
  %t0 = chunk.put %p[0, 0] to %q[0, 0] sizes [2, 4] from 0 to 1 after(%made) : !p to !p
  %t1 = chunk.put %p[2, 0] to %q[2, 0] sizes [2, 4] from 0 to 1 after(%made) : !p to !p
  %t2 = chunk.put %p[0, 0] to %r[0, 0] sizes [4, 4] from 0 to 1 after(%made, %t0) : !p to !p
  chunk.kernel @k tiles [2] ctas 2 args(%p as "c") : !p {
    chunk.footprint write "c" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
