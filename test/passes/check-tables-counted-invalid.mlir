// Good tables whose sizes are read at run time, and edits of those of rank 0 that break them one at a time.
// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 0/s/, 1, 2, 2, -1\]>/, 1, 1, 2, -1]>/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: command 1 of rank 0 reads its number of rows from element 1 of buffer 1 less 2, but its transfer from 2 of 1 less 2

// RUN: sed "/rank 0/s/, 1, 2, 2, -1\]>/, -1, 0, 0, -1]>/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ALL
// ALL: command 1 of rank 0 reads its number of rows from element 0 of buffer -1 less 0, but its transfer from 2 of 1 less 2

// RUN: sed "/rank 0/s/, 1, 3\]>, commands/, 1, 2]>, commands/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=NEEDS
// NEEDS: expects what tiles need to be read from element 3 of buffer 1, but got 2 of 1

// RUN: sed "/rank 0/s/\[2, 0, 0, 0, 2\]/[2, 0, 0, 1, 2]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TILES
// TILES: expects all tiles to name the same waits if what they need is read at run time, but tile [2] names [1, 2)

// What a tile may have waited for does not stand for the wait at the end of the call.
// RUN: sed "/rank 0/s/\(calls = [^>]* : \[[0-9]*, [0-9]*, [0-9]*, [0-9]*, \)\([0-9]*\), [0-9]*,/\1\2, \2,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=END
// END: ends the call of rank 0 without a wait for a transfer to it

!n = !chunk.buffer<6xi32>
!b = !chunk.buffer<8x4xf32>
chunk.plan @needs mesh [2] {
  %b = chunk.buffer "b" : !b
  %n = chunk.buffer "n" : !n
  chunk.input %b[0, 0] sizes [4, 4] on 0 : !b
  chunk.input %b[4, 0] sizes [4, 4] on 1 : !b
  chunk.input %n[0] sizes [6] on 0 : !n
  chunk.input %n[0] sizes [6] on 1 : !n
  %t0 = chunk.put %b[4, 0] to %b[4, 0] sizes [2, 4] from 1 to 0 rows %n[1, 0] : !n : !b to !b
  %t1 = chunk.put %b[0, 0] to %b[0, 0] sizes [2, 4] from 0 to 1 rows %n[2, 0] : !n : !b to !b
  %t2 = chunk.put %b[6, 0] to %b[6, 0] sizes [2, 4] from 1 to 0 rows %n[1, 2] : !n : !b to !b
  %t3 = chunk.put %b[2, 0] to %b[2, 0] sizes [2, 4] from 0 to 1 rows %n[2, 2] : !n : !b to !b
  chunk.kernel @k tiles [3] ctas 2 args(%b as "b") needs(%n[3] : !n) after(%t0, %t1, %t2, %t3) : !b {
    chunk.footprint read "b" at affine_map<(m) -> (0, 0)> sizes [8, 4]
  }
}
