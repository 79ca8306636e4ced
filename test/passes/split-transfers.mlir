// RUN: syncopate-opt %s --chunk-split-transfers=splits=3 | FileCheck %s
// RUN: syncopate-opt %s --chunk-split-transfers | FileCheck %s --check-prefix=DEFAULT
// RUN: not syncopate-opt %s --chunk-split-transfers=splits=-1 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: expects splits to be in [0, 4096], but got -1
// RUN: not syncopate-opt %s --chunk-split-transfers=splits=9223372036854775807 2>&1 | FileCheck %s --check-prefix=HUGE
// HUGE: expects splits to be in [0, 4096], but got 9223372036854775807

// CHECK-LABEL: chunk.plan @chain
// DEFAULT-LABEL: chunk.plan @chain
// DEFAULT-COUNT-3: chunk.put
// DEFAULT-NOT: chunk.join
chunk.plan @chain mesh [3] {
  %a = chunk.buffer "a" : !chunk.buffer<16x4xf32>
  // Seven rows in three pieces: 3, 3 and 1.
  // CHECK: %[[P0:.+]] = chunk.put %0[0, 0] to %0[8, 0] sizes [3, 4] from 0 to 1 :
  // CHECK: %[[P1:.+]] = chunk.put %0[3, 0] to %0[11, 0] sizes [3, 4] from 0 to 1 :
  // CHECK: %[[P2:.+]] = chunk.put %0[6, 0] to %0[14, 0] sizes [1, 4] from 0 to 1 :
  // CHECK: %[[P:.+]] = chunk.join %[[P0]], %[[P1]], %[[P2]]
  %t0 = chunk.put %a[0, 0] to %a[8, 0] sizes [7, 4] from 0 to 1 : !chunk.buffer<16x4xf32> to !chunk.buffer<16x4xf32>
  // It passes on what the first one brought: piece after piece.
  // CHECK: chunk.put %0[8, 0] to %0[0, 0] sizes [3, 4] from 1 to 2 after(%[[P0]])
  // CHECK: chunk.put %0[11, 0] to %0[3, 0] sizes [3, 4] from 1 to 2 after(%[[P1]])
  // CHECK: chunk.put %0[14, 0] to %0[6, 0] sizes [1, 4] from 1 to 2 after(%[[P2]])
  %t1 = chunk.put %a[8, 0] to %a[0, 0] sizes [7, 4] from 1 to 2 after(%t0) : !chunk.buffer<16x4xf32> to !chunk.buffer<16x4xf32>
  // It passes on a part only: each piece after all.
  // CHECK-COUNT-3: after(%[[P]])
  %t2 = chunk.put %a[8, 0] to %a[8, 0] sizes [6, 4] from 1 to 2 after(%t0) : !chunk.buffer<16x4xf32> to !chunk.buffer<16x4xf32>
}

// The first dimension of more than one row is cut; a single element is not.
// CHECK-LABEL: chunk.plan @columns
// CHECK: chunk.put %0[0, 0] to %0[0, 0] sizes [1, 1] from 0 to 1
// CHECK: chunk.put %0[0, 1] to %0[0, 1] sizes [1, 1] from 0 to 1
// CHECK: chunk.join
// CHECK: %[[ONE:.+]] = chunk.put %0[0, 3] to %0[0, 3] sizes [1, 1] from 0 to 1
// CHECK-NOT: chunk.join
chunk.plan @columns mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<1x4xf32>
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [1, 2] from 0 to 1 : !chunk.buffer<1x4xf32> to !chunk.buffer<1x4xf32>
  %t1 = chunk.put %a[0, 3] to %a[0, 3] sizes [1, 1] from 0 to 1 : !chunk.buffer<1x4xf32> to !chunk.buffer<1x4xf32>
}

// By size: 4 MiB and 15 MiB make one piece, 16 MiB two, 1 GiB four; 64 MiB in 1024 rows, or in 8 of 128, make two.
// CHECK-LABEL: chunk.plan @by_size
// DEFAULT-LABEL: chunk.plan @by_size
// DEFAULT: sizes [1024, 1024] from 0 to 1
// DEFAULT: sizes [3840, 1024] from 0 to 1
// DEFAULT-COUNT-2: sizes [2048, 1024] from 0 to 1
// DEFAULT-COUNT-4: sizes [65536, 1024] from 0 to 1
// DEFAULT-COUNT-2: sizes [512, 16384] from 0 to 1
// DEFAULT-COUNT-2: sizes [4, 128, 16384] from 0 to 1
// DEFAULT-NOT: chunk.put
chunk.plan @by_size mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<262144x1024xf32>
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [1024, 1024] from 0 to 1 : !chunk.buffer<262144x1024xf32> to !chunk.buffer<262144x1024xf32>
  %t1 = chunk.put %a[0, 0] to %a[0, 0] sizes [3840, 1024] from 0 to 1 : !chunk.buffer<262144x1024xf32> to !chunk.buffer<262144x1024xf32>
  %t2 = chunk.put %a[0, 0] to %a[0, 0] sizes [4096, 1024] from 0 to 1 : !chunk.buffer<262144x1024xf32> to !chunk.buffer<262144x1024xf32>
  %t3 = chunk.put %a[0, 0] to %a[0, 0] sizes [262144, 1024] from 0 to 1 : !chunk.buffer<262144x1024xf32> to !chunk.buffer<262144x1024xf32>
  %b = chunk.buffer "b" : !chunk.buffer<1024x16384xf32>
  %t4 = chunk.put %b[0, 0] to %b[0, 0] sizes [1024, 16384] from 0 to 1 : !chunk.buffer<1024x16384xf32> to !chunk.buffer<1024x16384xf32>
  %c = chunk.buffer "c" : !chunk.buffer<8x128x16384xf32>
  %t5 = chunk.put %c[0, 0, 0] to %c[0, 0, 0] sizes [8, 128, 16384] from 0 to 1 : !chunk.buffer<8x128x16384xf32> to !chunk.buffer<8x128x16384xf32>
}

// A piece of what combines several parts comes after that piece of each of them.
// CHECK-LABEL: chunk.plan @parts
// DEFAULT-LABEL: chunk.plan @parts
chunk.plan @parts mesh [3] {
  %s = chunk.buffer "s" : !chunk.buffer<6x4xf32>
  %c = chunk.buffer "c" : !chunk.buffer<3x4xf32>
  // CHECK: %[[A0:.+]] = chunk.put %1[0, 0] to %0[0, 0] sizes [1, 4] from 1 to 0
  // CHECK: %[[A1:.+]] = chunk.put %1[1, 0] to %0[1, 0] sizes [1, 4] from 1 to 0
  // CHECK: %[[B0:.+]] = chunk.put %1[0, 0] to %0[3, 0] sizes [1, 4] from 2 to 0
  // CHECK: %[[B1:.+]] = chunk.put %1[1, 0] to %0[4, 0] sizes [1, 4] from 2 to 0
  %a = chunk.put %c[0, 0] to %s[0, 0] sizes [3, 4] from 1 to 0 : !chunk.buffer<3x4xf32> to !chunk.buffer<6x4xf32>
  %b = chunk.put %c[0, 0] to %s[3, 0] sizes [3, 4] from 2 to 0 : !chunk.buffer<3x4xf32> to !chunk.buffer<6x4xf32>
  // CHECK: chunk.put %0[0, 0] parts 2 step [3, 0] to %1[0, 0] sizes [1, 4] from 0 to 0 reduce sum behind 1 after(%[[A0]], %[[B0]])
  // CHECK: chunk.put %0[1, 0] parts 2 step [3, 0] to %1[1, 0] sizes [1, 4] from 0 to 0 reduce sum behind 1 after(%[[A1]], %[[B1]])
  %sum = chunk.put %s[0, 0] parts 2 step [3, 0] to %c[0, 0] sizes [3, 4] from 0 to 0 reduce sum behind 1 after(%a, %b) : !chunk.buffer<6x4xf32> to !chunk.buffer<3x4xf32>
}
