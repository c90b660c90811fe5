// The lines after JSON are the document.

// RUN: sed -n 's|^// JSON: ||p' %s > %t.json
// RUN: qtranspose-opt %s --qtranspose-attach-encodings=file=%t.json --allow-unregistered-dialect -o %t.once \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>%t.remarks
// RUN: FileCheck %s --input-file=%t.once
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK --implicit-check-not=remark:
// RUN: qtranspose-opt %t.once --qtranspose-attach-encodings=file=%t.json --allow-unregistered-dialect -o %t.twice
// RUN: diff %t.once %t.twice

// JSON: {"version": "1.0.0",
// JSON:  "param_encodings": [
// JSON:    {"name": "fc.weight", "bw": 8, "dtype": "INT", "enc_type": "PER_CHANNEL", "is_sym": true,
// JSON:     "scale": [0.5, 0.25], "offset": [-128, -127]},
// JSON:    {"name": "table", "bw": 4, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": false,
// JSON:     "scale": [2], "offset": [-3]},
// JSON:    {"name": "bias", "bw": 32, "dtype": "INT", "enc_type": "PER_CHANNEL", "is_sym": true,
// JSON:     "scale": [0.5, 0.25], "offset": [0, 0]}],
// JSON:  "activation_encodings": [
// JSON:    {"name": "input", "bw": 16, "dtype": "INT", "is_sym": false, "scale": [0.125], "offset": [-5]},
// JSON:    {"name": "relu", "bw": 16, "dtype": "FLOAT"}]}

// CHECK: module attributes {qtranspose.encodings = {document = "{{.*}}fc.weight{{.*}}", unmatched_activations = [], unmatched_parameters = []}}

// A global per tensor; a location names a bias, whose only dim has the channels.

// CHECK: ml_program.global private @table({{.*}}) : tensor<2x3xf32> {qtranspose.encoding = {bitwidth = 4 : i64, name = "table", offset = array<i64: -3>, role = "parameter", scale = array<f64: 2.000000e+00>}}
ml_program.global private @table(dense<1.0> : tensor<2x3xf32>) : tensor<2x3xf32>

// The weight is on the left: its rows are its channels. The input is an argument that the frontend named.

// CHECK-LABEL: func.func @layer(
// CHECK-SAME: %{{.*}}: tensor<3x3xf32> {frontend.name = "input", qtranspose.encoding = {bitwidth = 16 : i64, name = "input", offset = array<i64: -5>, role = "activation", scale = array<f64: 1.250000e-01>}}
// CHECK: arith.constant {qtranspose.encoding = {axis = 0 : i64, bitwidth = 8 : i64, name = "fc.weight", offset = array<i64: -128, -127>, role = "parameter", scale = array<f64: 5.000000e-01, 2.500000e-01>, symmetric}} dense_resource<fc.weight>
// CHECK: arith.constant {qtranspose.encoding = {axis = 0 : i64, {{.*}}name = "bias"
// CHECK: ins(%{{.*}} : tensor<2x3xf32>) {{.*}} attrs = {qtranspose.encoding = {bitwidth = 16 : i64, float, name = "relu", role = "activation"}}
// REMARK-DAG: remark: {{(loc.*)?}}[Passed] attached | {{.*}} Function=layer | Remark="parameter 'fc.weight' along axis 0"
// REMARK-DAG: remark: {{(loc.*)?}}[Passed] attached | {{.*}} Remark="parameter 'table'"
// REMARK-DAG: remark: {{(loc.*)?}}[Passed] attached | {{.*}} Function=layer | Remark="parameter 'bias' along axis 0"
// REMARK-DAG: remark: {{(loc.*)?}}[Passed] attached | {{.*}} Remark="activation 'input'"
// REMARK-DAG: remark: {{(loc.*)?}}[Passed] attached | {{.*}} Function=layer | Remark="activation 'relu'"
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @layer(%x: tensor<3x3xf32> {frontend.name = "input"}) -> tensor<2x3xf32> {
  %w = arith.constant dense_resource<fc.weight> : tensor<2x3xf32>
  %b = arith.constant dense<[1.0, 2.0]> : tensor<2xf32> loc("bias")
  %e = tensor.empty() : tensor<2x3xf32>
  %init = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<2xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  %zero = arith.constant 0.0 : f32
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.maximumf %in, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x3xf32> loc("relu")
  return %r : tensor<2x3xf32>
}

{-# dialect_resources: { builtin: { fc.weight: "0x040000000000803F00000040000040400000803F0000004000004040" } } #-}
