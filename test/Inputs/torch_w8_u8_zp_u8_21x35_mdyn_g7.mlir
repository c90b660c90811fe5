module {
func.func @torch_w8_u8_zp_u8_21x35_mdyn_g7(%arg0: tensor<?x35xf32>) -> (tensor<?x21xf32>) {
%v1 = arith.constant 0 : index
%v3 = arith.constant dense_resource<torch_tensor_21_35_torch.int8> : tensor<21x35xi8>
%v9 = arith.constant dense_resource<torch_tensor_21_1_torch.int8> : tensor<21x1xi8>
%v21 = arith.constant dense_resource<torch_tensor_21_1_torch.float32> : tensor<21x1xf32>
%v30 = arith.constant 0x00000000 : f32
%v34 = arith.constant dense_resource<torch_tensor_21_torch.float32> : tensor<21xf32>
%v2 = tensor.dim %arg0, %v1 : tensor<?x35xf32>
%v4 = tensor.empty() : tensor<21x35xf32>
%v7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v3 : tensor<21x35xi8>) outs(%v4 : tensor<21x35xf32>) {
^bb0(%v5: i8, %v6: f32):
%v8 = arith.uitofp %v5 : i8 to f32
linalg.yield %v8 : f32
} -> tensor<21x35xf32>
%v10 = tensor.empty() : tensor<21x1xf32>
%v13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v9 : tensor<21x1xi8>) outs(%v10 : tensor<21x1xf32>) {
^bb0(%v11: i8, %v12: f32):
%v14 = arith.uitofp %v11 : i8 to f32
linalg.yield %v14 : f32
} -> tensor<21x1xf32>
%v15 = tensor.empty() : tensor<21x35xf32>
%v19 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v7, %v13 : tensor<21x35xf32>, tensor<21x1xf32>) outs(%v15 : tensor<21x35xf32>) {
^bb0(%v16: f32, %v17: f32, %v18: f32):
%v20 = arith.subf %v16, %v17 : f32
linalg.yield %v20 : f32
} -> tensor<21x35xf32>
%v22 = tensor.empty() : tensor<21x35xf32>
%v26 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v19, %v21 : tensor<21x35xf32>, tensor<21x1xf32>) outs(%v22 : tensor<21x35xf32>) {
^bb0(%v23: f32, %v24: f32, %v25: f32):
%v27 = arith.mulf %v23, %v24 : f32
linalg.yield %v27 : f32
} -> tensor<21x35xf32>
%v28 = tensor.empty() : tensor<35x21xf32>
%v29 = linalg.transpose ins(%v26 : tensor<21x35xf32>) outs(%v28 : tensor<35x21xf32>) permutation = [1, 0]
%v31 = tensor.empty(%v2) : tensor<?x21xf32>
%v32 = linalg.fill ins(%v30 : f32) outs(%v31 : tensor<?x21xf32>) -> tensor<?x21xf32>
%v33 = linalg.matmul ins(%arg0, %v29 : tensor<?x35xf32>, tensor<35x21xf32>) outs(%v32 : tensor<?x21xf32>) -> tensor<?x21xf32>
%v35 = tensor.empty(%v2) : tensor<?x21xf32>
%v39 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v33, %v34 : tensor<?x21xf32>, tensor<21xf32>) outs(%v35 : tensor<?x21xf32>) {
^bb0(%v36: f32, %v37: f32, %v38: f32):
%v40 = arith.addf %v36, %v37 : f32
linalg.yield %v40 : f32
} -> tensor<?x21xf32>
return %v39 : tensor<?x21xf32>
}
}
{-#
  dialect_resources: {
    builtin: {
      torch_tensor_21_35_torch.int8: "0x0100000081E3D2E884DABCAE04B3B55CCF7E5EBABC8A575A65E29E85CA42095E9215073253CEA8A580A0E40995C6CE67ACCA05C586E0DA63A508E8CC2D316E672B50C0D0D36D62BF0E502D9A9E0CCF6A6B8C1A260FF57E3B073E8B725EFE97EB8843707F4C6383DC8EAB36CFB48EC375945738A1D677D48DC916ECDFF6F6FAB095A4B2999F49F58469B6E7F1FB813ABDD0ADD5D0A27DAD50BD2BB0CF6E4E4CBDDDA69166A31B2C999A001C9D0985B8C77A8771F5CA49EFF5E04A53BF6CD68EDCFAE289E8CE6B1A96A456550DAEEFF13A76B70D4C140A6DBD6702A472DA1454130D1EA5E79CF90A82871751F0AA70C7274770DEF636A889019F22863E977ACB1FB87B2A7467D53E0463544B7F22B5E6A9D65AAC7E2B8FEE36D981B06E8A9F5C0F4F888CD834191EB81FD3A30EF01E84C01ABDC5926BE969CCD8208715BD879509773376366051273614FE6C1AC01FAB37BDE00CCA88D1FB12C6FFF27F53D48C39D480ABF23E8C38BF2BC8A41E0150B4CD956CCA10E9024ABEF51AE7C06B8086E8553F979F238823D70798E6D145C18E6D203F8100FDB34CAD06B9F3D6A59AF6978F6296A355FD729EB0F2DF94C82704D9B7DCDFDD1A6E6C9DC4539080691B732B11A1A8434308BE914ECB47E3CEB5A6226311F1D8137D38ABEDDDBA30088B058DD2963D655B339E92FD8526E0513CCB330D6A1DF16A6361691DEFC96E23B9609A3A783C7A4BA96ECE6073315516F0DB4E5F25E1D5037CFFA4C8289B75D171BC674A5FA76F895EFB6E3B02D396C724115953D2C360F977B79DD45CE646B9003405C9D3D51C0F23F536345289B115AB0168227C410EC0794C32397656BA6A82271C343C5DAE1FADA5B90C55C9E26BCD6EB177E670AEB955EBCA05AA2E1EDBF453CDAA2846A3AC98CBB0DEBC34D4B472E732C3FE1F3D46DAA14045786ECF102365AA5F30CB94D5E107B80F405FDAC4E32C5A41DC4BCF698DC04303C17737E32E61AE1242C04E8F18BAC5D7FB6E9A04C421D62DCE382BC5C0A8174F5B1BCBE24860640B870F",
      torch_tensor_21_1_torch.int8: "0x010000009F9E7E675D88459579A4478C98BC71A18958455149",
      torch_tensor_21_1_torch.float32: "0x04000000086D293C08CFD63BFDB62A3B6CEFCD3A4D090E3CAA32E73B6EDFE23AA963A53BBD39393CA5E9883B2C14B63B784BD93BBECB463B0376113CAF33F33B7A3DA33BBB450D3C6F66B53B937C653BFEBC9E3B3337013C",
      torch_tensor_21_torch.float32: "0x040000007EB66DBC2AC996BC30099B3FD6BD543E86A9353F33141DBF033ECE3FD779313EF032423F428ECABE902C5FBFFFCD97BF38C9A0BF58C583BF534008BF26CF5CBF5729A23ED47B1BBE4701903F376E813FFC61CABE"
    }
  }
#-}
