// SPDX-License-Identifier: Apache-2.0
//
// The by-value parameter structs: one definition for the device text and for the host that fills
// them. Strides in elements. An exact family's struct has no column count: H is in its text. The
// output scale stands in both widths, so that no f32 kernel converts it.
#pragma once

namespace rowsmith_params {

struct RowsParams {
  const void* src;
  void* dst;
  long long rows;
  long long src_stride;
  long long dst_stride;
  double out_scale;
  float out_scale_f32;
  int pass;  // of a family that takes several launches: 0, 1 ..
};
static_assert(sizeof(RowsParams) == 56, "layout is part of the binary");

struct GenericParams {
  const void* src;
  void* dst;
  long long rows;
  long long src_stride;
  long long dst_stride;
  double out_scale;
  float out_scale_f32;
  int pass;
  long long cols;
};
static_assert(sizeof(GenericParams) == 64, "layout is part of the binary");

struct CopyParams {
  const void* src;
  void* dst;
  long long bytes;
};
static_assert(sizeof(CopyParams) == 24, "layout is part of the binary");

}  // namespace rowsmith_params
