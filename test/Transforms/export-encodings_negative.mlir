// Nothing attached, no file, or a file that cannot be: one error, and no file appears.

// RUN: not qtranspose-opt %s --qtranspose-export-encodings=file=%t.json -o /dev/null 2>&1 | FileCheck %s
// CHECK: error: no encodings are attached to the module
// RUN: not ls %t.json

// RUN: not qtranspose-opt %s --qtranspose-export-encodings -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOFILE
// NOFILE: error: qtranspose-export-encodings needs a file

// RUN: echo '{"param_encodings": {}}' > %t.in.json
// RUN: not qtranspose-opt %s -o /dev/null --pass-pipeline='builtin.module(qtranspose-attach-encodings{file=%t.in.json},qtranspose-export-encodings{file=%t.none/out.json})' 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: error: {{.*}}out.json: cannot write

// A document that was changed by hand.
// RUN: sed 's|^module {|module attributes {qtranspose.encodings = {document = "[1"}} {|' %s > %t.mlir
// RUN: not qtranspose-opt %t.mlir --qtranspose-export-encodings=file=%t.json -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHANGED
// CHANGED: error: not JSON
module {
}
