// What has no place is kept on the module, with a reason; the program stays as it is.

// RUN: sed -n 's|^// JSON: ||p' %s > %t.json
// RUN: qtranspose-opt %s --qtranspose-attach-encodings=file=%t.json -o %t.mlir \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: FileCheck %s --input-file=%t.mlir --check-prefix=IR --implicit-check-not=qtranspose.encoding
// RUN: qtranspose-opt %s -o %t.before
// RUN: sed 's|^module attributes {.*} {$|module {|' %t.mlir > %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %t.mlir --qtranspose-export-encodings=file=%t.out.json -o /dev/null
// RUN: FileCheck %s --input-file=%t.out.json --check-prefix=KEPT

// An error is one line.
// RUN: not qtranspose-opt %s --qtranspose-attach-encodings -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOFILE
// NOFILE: error: qtranspose-attach-encodings needs a file
// RUN: not qtranspose-opt %s --qtranspose-attach-encodings=file=%t.missing -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: {{.*}}.missing: cannot read
// RUN: echo '{"param_encodings": [1]}' > %t.bad.json
// RUN: not qtranspose-opt %s --qtranspose-attach-encodings=file=%t.bad.json -o /dev/null 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: error: {{.*}}.bad.json: 'param_encodings' has an entry without a 'name'

// JSON: {"version": "0.6.1",
// JSON:  "param_encodings": {
// JSON:    "nobody": [{"bitwidth": 8, "scale": 0.5, "offset": 0}],
// JSON:    "twice": [{"bitwidth": 8, "scale": 0.5, "offset": 0}],
// JSON:    "w": [{"bitwidth": 8, "scale": 0.5, "offset": 0}, {"bitwidth": 8, "scale": 0.5, "offset": 0},
// JSON:          {"bitwidth": 8, "scale": 0.5, "offset": 0}]},
// JSON:  "activation_encodings": {
// JSON:    "p": [{"bitwidth": 8, "scale": 0.5, "offset": 0}],
// JSON:    "q": [{"bitwidth": 8, "scale": 0.5, "offset": 0}]}}

// Three scales: the weight has three columns, but those are summed over.
// CHECK-DAG: remark: [Missed] encoding-does-not-fit | {{.*}} Reason="'w' has 3 scales, and no axis for them"
// CHECK-DAG: remark: [Missed] encoding-unmatched | {{.*}} Reason="no tensor is named 'nobody'"
// CHECK-DAG: remark: [Missed] encoding-ambiguous | {{.*}} Reason="different tensors are named 'twice'"
// Two activations without a name are not guessed, although one operand has no encoding.
// CHECK-DAG: remark: [Missed] encoding-unmatched | {{.*}} Reason="no tensor is named 'p'"
// CHECK-DAG: remark: [Missed] encoding-unmatched | {{.*}} Reason="no tensor is named 'q'"

// IR: qtranspose.encodings = {document = "{{.*}}", unmatched_activations = ["p", "q"], unmatched_parameters = ["nobody", "twice", "w"]}
// KEPT: "activation_encodings"
// KEPT: "p"
// KEPT: "q"
// KEPT: "param_encodings"
// KEPT: "nobody"
// KEPT: "twice"
// KEPT: "w"
func.func @f(%x: tensor<3x5xf32>, %init: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2xf32>, tensor<3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32> loc("twice")
  %b = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> loc("twice")
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%init : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %y, %a, %b : tensor<2x5xf32>, tensor<2xf32>, tensor<3xf32>
}

{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040000040400000803F0000004000004040" } } #-}
