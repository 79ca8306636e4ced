// Good tables, and edits of those of rank 0 that break them one at a time.
// RUN: syncopate-opt %s --syncopate-plan-pipeline -o %t
// RUN: syncopate-opt %t --chunk-check-tables -o /dev/null
// RUN: syncopate-opt %s --syncopate-plan-pipeline=realization=copy_engine -o %t.engine
// RUN: syncopate-opt %t.engine --chunk-check-tables -o /dev/null

// RUN: not syncopate-opt %s --chunk-allocate-signals --chunk-order-tiles --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: has no realization; run chunk-assign-realization first

// RUN: sed "s/tiles = \(.*\)\[1, 0, 0, 0, 1\]/tiles = \1[1, 0, 0, 0, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TILE
// TILE: 'chunk.kernel' op tile [1] of rank 0 starts without a wait for a transfer that brings what it reads
// TILE: note: the transfer

// RUN: sed "/rank 0/s/1, 2, 0, 1, 4, 0, 500/1, 1, 0, 1, 4, 0, 500/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=GUARD
// GUARD: is carried out by rank 0 without a wait for the call before of rank 1, to which it writes

// RUN: sed "/rank 0/s/1, 2, 0, 1, 4, 0, 500/1, 2, 0, 0, 4, 0, 500/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=SILENT
// SILENT: CTA 0 of rank 1 at tile [0, 0, 0] waits for the flag at rank 1 of transfer 0, which nobody raises

// RUN: sed "/rank 0/s/\[1, 0, 0\], \[1, 8, 0\]/[1, 0, 0], [1, 0, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: the end of the call of rank 0 raises the flag at rank 1 of transfer 0, which is raised already
// TWICE: note: the ldst_colocated role of rank 0 at transfer 0 raises it too

// RUN: sed "/rank 0/s/\[1, 1\], \[9, 0\]/[1, 2], [9, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: CTA 0 of rank 0 at tile [1, 0, 0] waits for the flag at rank 0 of transfer 1 to count to 2, but in a call it counts to 1

// RUN: sed "/rank 0/s/\[1, 1\], \[9, 0\]/[1, 0], [9, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=BEFORE
// BEFORE: waits for what the call before did to the flag at rank 0 of transfer 1, but only what the end of a call raises says that

// RUN: sed "/rank 0/s/\[9, 0\]/[9, 1]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=CIRCLE
// CIRCLE: error: {{.*}} waits for itself, in a circle
// CIRCLE-DAG: note: the ldst_colocated role of rank 0 at transfer 0 waits for the flag at rank 0 that rank 1 has ended its call, which is to be raised by the end of the call of rank 1
// CIRCLE-DAG: note: CTA 0 of rank 1 at tile [0, 0, 0] waits for the flag at rank 1 of transfer 0, which is to be raised by the ldst_colocated role of rank 0 at transfer 0
// CIRCLE-DAG: note: the end of the call of rank 1 waits for CTA 0 of rank 1 at tile [0, 0, 0]

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 0, 0, 1, 32/[0, 0, 0, 0, 1, 0, 16, 1, 32/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=SHIFTED
// SHIFTED: command 0 of rank 0 moves offsets [0, 0] sizes [2, 4] to offsets [1, 0] sizes [2, 4], which is not how transfer 0 moves them

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 0, 0, 1, 32/[0, 0, 0, 0, 1, 0, 0, 1, 16/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PART
// PART: is carried out only in part by the commands of rank 0

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 0, 0, 1, 32/[0, 0, 0, 0, 1, 0, 0, 5, 16/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=REGION
// REGION: command 0 of rank 0 has a source of 5 rows of 16 bytes with stride 32 at byte 0, which is no region of '!chunk.buffer<4x4xf32>'

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 0, 0, 1, 32/[0, 0, 0, 0, 0, 0, 0, 1, 32/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: command 0 of rank 0 has its destination in buffer 0 of rank 0, but its transfer in buffer 0 of rank 1

// RUN: sed "/rank 0/s/\[0, 0, 0, 0, 1, 0, 0, 1, 32/[1, 0, 0, 0, 1, 0, 0, 1, 32/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: command 0 of rank 0 carries out transfer 1, but expects transfer 0

// RUN: sed "/rank 0/s/0, 1, 4, 0, 500/0, 1, 3, 0, 500/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=REALIZATION
// REALIZATION: command 0 of rank 0 has realization 3, but its transfer has 'ldst_colocated'

// RUN: sed "/rank 0/s/0, 1, 4, 0, 500/0, 9, 4, 0, 500/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: expects row 0 of commands to name rows of signals in [0, 2], but got [0, 9)

// RUN: sed "/rank 0/s/\[1, 8, 0\]/[1, 80, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=FLAG
// FLAG: the end of the call of rank 0 raises flag 80, but expects a flag in [0, 13)

// RUN: sed "/rank 0/s/\[1, 8, 0\]/[7, 8, 0]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: raises a flag of rank 7, but expects a rank in [0, 2)

// RUN: sed "/rank 0/s/\[1, 8, 0\]/[1, 8, 1]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: raises the flag at rank 1 that rank 0 has ended its call by kind 1, but expects kind 0, which stores the epoch, or 2, which adds one, for a flag

// RUN: sed "/rank 0/s/columns = .*//; s/kind : /sort : /" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=COLUMNS
// COLUMNS: expects signals to have the columns rank, signal, kind, but got

// RUN: sed "/schedule @k rank 1/d" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: expects a schedule for each of its 2 ranks, but got 1

// RUN: sed "/rank 0/s/2, 2, 2, 4, 1, 2, 0,/2, 2, 3, 4, 1, 2, 0,/" %t.engine | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ENGINE
// ENGINE: replaces the input of rank 0 without a wait for a transfer that may still read that of the call before

// RUN: sed "/rank 0/s/\[1, 1\], \[11, 1\]/[1, 1], [1, 1]/" %t.engine | sed "/rank 0/s/1, 2, 0, 1, 0, 0, 0, 1, 0, 0,/1, 1, 0, 1, 0, 0, 0, 1, 0, 0,/" | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=LEFT
// LEFT: the end of the call of rank 1 raises the twin at rank 0 that rank 1 has ended its call, which no stream takes down

// RUN: sed "/rank 0/s/\[11, 1\]/[9, 0]/" %t.engine | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TWIN
// TWIN: the copy engine of rank 0 at transfer 0 waits for the flag at rank 0 that rank 1 has ended its call, but a stream waits for twins only

// RUN: sed "/rank 0/s/\[1, 10, 1\]/[1, 2, 1]/; /rank 1/s/\[10, 1\]/[2, 1]/" %t.engine | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=BLOCK
// BLOCK: the end of the call of rank 0 raises the twin at rank 1 of transfer 0, but the ends of calls raise the twins of their flags, and nobody else does: only those start raised

// RUN: sed "/rank 0/s/\[1, 0, 0\]/[1, 0, 2]/" %t.engine | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=ADDS
// ADDS: the copy engine of rank 0 at transfer 0 raises the flag at rank 1 of transfer 0 by kind 2, but a copy engine cannot add

// RUN: sed "/rank 0/s/\[1, 8, 0\]/[1, 8, 2]/; /rank 1/s/\[0, 9, 0\]/[1, 8, 2]/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=AHEAD
// AHEAD: the end of the call of rank 1 raises the flag at rank 1 that rank 0 has ended its call, which another rank adds to
// AHEAD: note: the end of the call of rank 0 adds to it too

// RUN: sed "/rank 0/s/, 500, 1, 0, 0,/, -5, 1, 0, 0,/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=PAUSE
// PAUSE: command 0 of rank 0 expects pause to be in [0, 1000000], but got -5

// What the guard has waited for says nothing of the kernel: if nothing is to be put in place, the host does not wait.
// RUN: sed "/rank 0/s/guard_begin, \(.*\) : \[1, 1, 2, 2, 2, 3/guard_begin, \1 : [1, 1, 1, 2, 2, 3/; /rank 0/s/1, 2, 0, 1, 4, 0, 500/1, 1, 0, 1, 4, 0, 500/" %t | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=HOST
// HOST: is carried out by rank 0 without a wait for the call before of rank 1, to which it writes

// RUN: syncopate-opt %s --syncopate-plan-pipeline -o - | sed "/rank 0/s/, calls = [^>]*>//; /rank 0/s/calls = [^>]*>, //" | not syncopate-opt --chunk-check-tables 2>&1 | FileCheck %s --check-prefix=TABLE
// TABLE: has no table of calls; run chunk-build-tables first

!b = !chunk.buffer<4x4xf32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  chunk.input %a[0, 0] sizes [2, 4] on 0 : !b
  chunk.input %a[2, 0] sizes [2, 4] on 1 : !b
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [2, 4] from 0 to 1 : !b to !b
  %t1 = chunk.put %a[2, 0] to %a[2, 0] sizes [2, 4] from 1 to 0 : !b to !b
  chunk.kernel @k tiles [2] ctas 1 args(%a as "a") after(%t0, %t1) : !b {
    chunk.footprint read "a" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
