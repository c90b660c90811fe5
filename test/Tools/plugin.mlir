// The opt tool and stock mlir-opt with the plugin know the same passes and pipelines.

// RUN: qtranspose-opt %s --dump-pass-pipeline --pass-pipeline='builtin.module(qtranspose-fold-transpose-into-dequant,qtranspose-default)' 2>&1 | FileCheck %s
// RUN: mlir-opt %s --load-pass-plugin=%plugin --dump-pass-pipeline --pass-pipeline='builtin.module(qtranspose-fold-transpose-into-dequant,qtranspose-default)' 2>&1 | FileCheck %s

// An unknown name is an error of both, not a silent nothing.
// RUN: not qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-no-such-pass)' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not mlir-opt %s --load-pass-plugin=%plugin --pass-pipeline='builtin.module(qtranspose-no-such-pass)' 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: builtin.module(
// CHECK-NEXT: qtranspose-fold-transpose-into-dequant{{.*}},
// CHECK-NEXT: qtranspose-fold-transpose-into-dequant
// UNKNOWN: 'qtranspose-no-such-pass' does not refer to a registered pass
module {}
