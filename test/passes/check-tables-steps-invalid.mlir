// Tables of a plan whose tiles walk steps, and edits of those of rank 0.
// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 0/s/\[2, 0, 1\], \[3, 0, 0\]/[2, 0, 0], [3, 0, 1]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: tile [0] of rank 0 starts step 2 without a wait for a transfer that brings what it reads
// LATE: note: the transfer

// RUN: sed "/rank 0/s/\[2, 0, 1\], \[3, 0, 0\]/[3, 0, 1], [3, 0, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: expects row 0 of tile_steps to name each step of its tile once, those in [0, 4), but got rows [0, 4)

// RUN: sed "/rank 0/s/begin, end : \[0, 4\]/begin, end : [0, 3]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: expects row 0 of tile_steps to name each step of its tile once, those in [0, 4), but got rows [0, 3)

// RUN: sed "/rank 0/s/begin, end : \[0, 4\]/begin, end : [5, 9]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// OUTSIDE: expects row 0 of tile_steps to name rows of steps in [0, 8], but got [5, 9)

// RUN: sed "/rank 0/s/\[2, 0, 1\]/[2, 0, 9]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=WAITS
// WAITS: expects row 2 of steps to name rows of waits in

// RUN: sed "/rank 0/s/tile_steps = #chunk.table<begin, end : [^>]*>, //" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: has no table of tile_steps

// RUN: sed "/chunk.steps/d; /footprint/d" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=UNSAID
// UNSAID: has steps, but no chunk.steps of the kernel says that tiles walk any

// RUN: sed "/chunk.steps/d" %s | not syncopate-opt --syncopate-plan-pipeline 2>&1 | FileCheck %s --check-prefix=RANGE
// RANGE: expects a chunk.steps in the body of the kernel, which says what steps a tile has

// RUN: sed "s/-> (4)>/-> (m * 99999999 - 5)>/" %s | not syncopate-opt --syncopate-plan-pipeline 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: expects steps in [0, 16777216), but those of tile [1] are not all in it

// RUN: sed "s/after(%other, %own) /after(%own) /" %s | not syncopate-opt --syncopate-plan-pipeline 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: step 2 of tile [0] of rank 0 would wait for ever: it reads "x" at offsets [0, 4] sizes [1, 2]

!a = !chunk.buffer<2x8xf32>
chunk.plan @along mesh [2] {
  %a = chunk.buffer "a" : !a
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !a
  chunk.input %a[0, 4] sizes [2, 4] on 1 : !a
  %other = chunk.put %a[0, 4] to %a[0, 4] sizes [2, 4] from 1 to 0 : !a to !a
  %own = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 : !a to !a
  chunk.kernel @k tiles [2] ctas 1 args(%a as "x") after(%other, %own) : !a {
    chunk.footprint read "x" at affine_map<(m, k) -> (m, k * 2)> sizes [1, 2]
    chunk.steps from affine_map<(m) -> (0)> to affine_map<(m) -> (4)>
  }
}
