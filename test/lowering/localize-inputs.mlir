// RUN: syncopate-opt %s --pass-pipeline="builtin.module(chunk.plan(chunk-separate-inputs),chunk-localize-inputs)" -split-input-file | FileCheck %s

!buf = !chunk.buffer<8x4xf32>

// Rows of the rank's own input come from the companion, counted from the begin of the input.
// CHECK-LABEL: chunk.plan @aligned
// CHECK: chunk.kernel @k {{.*}} attributes {localized = "a", separate = ["a"]}
// CHECK: ^bb0(%[[CTX:.+]]: !tt.ptr<i64>, %[[OWN:.+]]: !tt.tensordesc<x>, %[[ALL:.+]]: !tt.tensordesc<x>, %[[ROW:.+]]: i32):
// CHECK: %[[BEGIN:.+]], %[[END:.+]] = chunk.input_rows %[[CTX]]
// CHECK-DAG: %[[BEHIND:.+]] = arith.cmpi sge, %[[ROW]], %[[BEGIN]]
// CHECK-DAG: %[[BEFORE:.+]] = arith.cmpi slt, %[[ROW]], %[[END]]
// CHECK: %[[IS:.+]] = arith.andi %[[BEHIND]], %[[BEFORE]]
// CHECK: %[[FROM:.+]] = arith.select %[[IS]], %[[OWN]], %[[ALL]] : !tt.tensordesc<x>
// CHECK: %[[SKIPPED:.+]] = arith.select %[[IS]], %[[BEGIN]], %{{.+}} : i32
// CHECK: %[[AT:.+]] = arith.subi %[[ROW]], %[[SKIPPED]]
// CHECK: "ttng.async_tma_copy_global_to_local"(%[[FROM]], %[[AT]], %{{.+}})
chunk.plan @aligned mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.input %a[4, 0] sizes [4, 4] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 4] from 0 to 1 realize copy_engine : !buf to !buf
  %t1 = chunk.put %a[4, 0] to %a[4, 0] sizes [4, 4] from 1 to 0 realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x") after(%t0, %t1) : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %own: !tt.tensordesc<x> loc("sy_input_x"), %x: !tt.tensordesc<x> loc("x"), %row: i32 loc("row")):
    "ttng.async_tma_copy_global_to_local"(%x, %row, %row) : (!tt.tensordesc<x>, i32, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!buf = !chunk.buffer<8x4xf32>

// A tile of three rows reads the input together with other rows, so everything is to come from the buffer. The code is that of
// other plans: here the host says that no rows are the rank's own, since the input is not separate.
// CHECK-LABEL: chunk.plan @mixed
// CHECK-NOT: separate
// CHECK: attributes {localized = "a"}
// CHECK-NOT: separate
// CHECK: chunk.input_rows
chunk.plan @mixed mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [4, 4] on 0 : !buf
  chunk.input %a[4, 0] sizes [4, 4] on 1 : !buf
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [4, 4] from 0 to 1 realize copy_engine : !buf to !buf
  %t1 = chunk.put %a[4, 0] to %a[4, 0] sizes [4, 4] from 1 to 0 realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [3] ctas 2 args(%a as "x") after(%t0, %t1) : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 3, 0)> sizes [3, 4]
  }
}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %own: !tt.tensordesc<x> loc("sy_input_x"), %x: !tt.tensordesc<x> loc("x"), %row: i32 loc("row")):
    "ttng.async_tma_copy_global_to_local"(%x, %row, %row) : (!tt.tensordesc<x>, i32, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!buf = !chunk.buffer<8x4xf32>

// A use that is no load; inputs that are no whole rows are data, as above.
// CHECK-LABEL: chunk.plan @other_use
// CHECK-NOT: localized
// CHECK-LABEL: chunk.plan @columns
// CHECK-NOT: separate
// CHECK: attributes {localized = "a"}
chunk.plan @other_use mesh [2] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [8, 4] on 0 : !buf
  chunk.input %a[0, 0] sizes [8, 4] on 1 : !buf
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x") : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
chunk.plan @columns mesh [1] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [8, 2] on 0 : !buf
  chunk.kernel @l tiles [4] ctas 2 args(%a as "x") : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 2]
  }
}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %own: !tt.tensordesc<x> loc("sy_input_x"), %x: !tt.tensordesc<x> loc("x"), %row: i32 loc("row")):
    "ttng.async_tma_copy_global_to_local"(%x, %row, %row) : (!tt.tensordesc<x>, i32, i32) -> ()
    "ttng.prefetch"(%x) : (!tt.tensordesc<x>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
  "tt.func"() <{sym_name = "l"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %own: !tt.tensordesc<x> loc("sy_input_x"), %x: !tt.tensordesc<x> loc("x"), %row: i32 loc("row")):
    "ttng.async_tma_copy_global_to_local"(%x, %row, %row) : (!tt.tensordesc<x>, i32, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!buf = !chunk.buffer<8x4xf32>

// Another argument reads the same buffer, so the input has to be there.
// CHECK-LABEL: chunk.plan @two_arguments
// CHECK-NOT: localized
chunk.plan @two_arguments mesh [1] {
  %a = chunk.buffer "a" : !buf
  chunk.input %a[0, 0] sizes [8, 4] on 0 : !buf
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x", %a as "y") : !buf, !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
    chunk.footprint read "y" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %own: !tt.tensordesc<x> loc("sy_input_x"), %x: !tt.tensordesc<x> loc("x"), %y: !tt.tensordesc<x> loc("y"), %row: i32 loc("row")):
    "ttng.async_tma_copy_global_to_local"(%x, %row, %row) : (!tt.tensordesc<x>, i32, i32) -> ()
    "ttng.async_tma_copy_global_to_local"(%y, %row, %row) : (!tt.tensordesc<x>, i32, i32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!buf = !chunk.buffer<8x4xf32>

// No argument is bound to the input: transfers read it where the caller keeps it.
// CHECK-LABEL: chunk.plan @unbound
// CHECK: chunk.kernel @k {{.*}} attributes {localized = "given", separate = ["given"]}
chunk.plan @unbound mesh [1] {
  %given = chunk.buffer "given" : !buf
  %a = chunk.buffer "a" : !buf
  chunk.input %given[0, 0] sizes [8, 4] on 0 : !buf
  %t = chunk.put %given[0, 0] to %a[0, 0] sizes [8, 4] from 0 to 0 realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x") after(%t) : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %x: !tt.tensordesc<x> loc("x"), %row: i32 loc("row")):
    "tt.return"() : () -> ()
  }) : () -> ()
}

// -----
!buf = !chunk.buffer<8x4xf32>

// A transfer reads what the caller provides together with what another one brought.
// CHECK-LABEL: chunk.plan @unbound_mixed
// CHECK-NOT: localized
chunk.plan @unbound_mixed mesh [1] {
  %given = chunk.buffer "given" : !buf
  %a = chunk.buffer "a" : !buf
  chunk.input %given[0, 0] sizes [4, 4] on 0 : !buf
  %t = chunk.put %given[0, 0] to %given[4, 0] sizes [4, 4] from 0 to 0 realize copy_engine : !buf to !buf
  %u = chunk.put %given[0, 0] to %a[0, 0] sizes [8, 4] from 0 to 0 after(%t) realize copy_engine : !buf to !buf
  chunk.kernel @k tiles [4] ctas 2 args(%a as "x") after(%u) : !buf {
    chunk.footprint read "x" at affine_map<(m) -> (m * 2, 0)> sizes [2, 4]
  }
}
module @ttgir {
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %x: !tt.tensordesc<x> loc("x"), %row: i32 loc("row")):
    "tt.return"() : () -> ()
  }) : () -> ()
}
