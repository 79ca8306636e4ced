// Tables of a plan with gets, where ranks stage their inputs, and edits of them.
// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: syncopate-opt %t --syncopate-check-pipeline -o /dev/null

// RUN: sed "/rank 0/s/1, 2, 1, 2, 4, 0, 0, 1, 0, 0,/1, 1, 1, 2, 4, 0, 0, 1, 0, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=INPUT
// INPUT: is carried out by rank 0 without a wait for the input of rank 1 to be in place

// RUN: sed "/rank 1/s/4, 5, 3, 4, 4, 0, 0, 1, 0, 0,/4, 4, 3, 4, 4, 0, 0, 1, 0, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TOKEN
// TOKEN: is carried out by rank 1 without a wait for a transfer that it comes after
// TOKEN: note: the other transfer

// RUN: sed "/rank 0/s/0, 1, 0, 1, 4, 0, 0, 1, 0, 0,/0, 0, 0, 1, 4, 0, 0, 1, 0, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ROLE
// ROLE: replaces the input of rank 0 by its communication role without a wait for a transfer that may still read that of the call before
// ROLE: note: the transfer

// RUN: sed "/rank 0/s/ : \[2, 2, 2, 3, 3, 4, 2, 3, 0,/ : [2, 2, 2, 2, 3, 4, 2, 3, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=HOST
// HOST: replaces the input of rank 0 without a wait for a transfer that may still read that of the call before

// RUN: sed "/rank 0/s/ : \[2, 2, 2, 3, 3, 4, 2, 3, 0,/ : [2, 2, 2, 3, 4, 4, 2, 3, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=END
// END: ends the call of rank 0 without a wait for a transfer to it
// END: note: the transfer

// RUN: sed "/rank 0/s/, \[2, 1, 0, 32, 0, 1, 0, 1, 32, 32, 32, 1, 2, 1, 2, 4, 0, 0, 1, 0, 0, -1, 0, 0, -1\]//" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: is carried out by no command of rank 0

// RUN: sed "/rank 0/s/\[-1, 0, 0, 0, 0, 0, 0, 1, 32/[-1, 0, 0, 0, 0, 0, 0, 1, 16/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PART
// PART: stages a part of its rank's input only: offsets [1, 0] sizes [1, 4] of "a" are missing

// RUN: sed "/rank 0/s/\[-1, 0, 0, 0, 0, 0, 0, 1, 32/[-1, 0, 0, 16, 0, 0, 16, 1, 32/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: command 0 of rank 0 stages offsets [1, 0] sizes [2, 4], which is no input of the rank

// RUN: sed "/rank 0/s/\[-1, 0, 0, 0, 0, 0, 0, 1, 32/[-1, 0, 0, 0, 1, 0, 0, 1, 32/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: command 0 of rank 0 stages an input, so it has to copy a place of its rank onto itself

// RUN: sed "/rank 0/s/0, 1, 0, 1, 4, 0, 0, 1, 0, 0,/0, 1, 0, 1, 1, 0, 0, 1, 0, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=HOW
// HOW: command 0 of rank 0 stages an input by realization 1, but expects that of a communication role which carries out a transfer of the plan

!b = !chunk.buffer<4x4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %x = chunk.buffer "x" : !b
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !b
  chunk.input %a[2, 0] sizes [2, 4] on 1 : !b
  %t0 = chunk.put %a[2, 0] to %x[2, 0] sizes [2, 4] from 1 to 0 : !b to !b
  %t1 = chunk.get %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 : !b to !b
  %t2 = chunk.get %a[2, 0] to %x[0, 0] sizes [2, 4] from 1 to 0 : !b to !b
  %t3 = chunk.put %a[0, 0] to %x[0, 0] sizes [2, 4] from 1 to 1 after(%t1) : !b to !b
  chunk.kernel @k tiles [1] ctas 1 args(%a as "a") after(%t0, %t1, %t2, %t3) : !b {
    chunk.footprint read "a" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
