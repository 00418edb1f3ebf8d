// SPDX-License-Identifier: Apache-2.0
//
// What rowsmith replaces: kernels for a row length from a short list (kCols, a power of two), one
// block a row and one pack of 16 bytes a thread. A switch over H picks the instance; every other H
// is an error. Compiled with -DROW_LENGTH.

constexpr int kCols = ROW_LENGTH;

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <int kThreads>
struct Lanes {
  static constexpr int kWidth = kThreads < 32 ? kThreads : 32;
  static constexpr unsigned kMask = kWidth == 32 ? 0xffffffffu : (1u << kWidth) - 1;
  static constexpr int kWarps = kThreads < 32 ? 1 : kThreads / 32;
};

// Every thread gets the block's result; `partials` is used by one call only.
template <int kThreads, class Fold>
__device__ float over_block(float v, Fold fold, float* partials) {
  using L = Lanes<kThreads>;
#pragma unroll
  for (int d = L::kWidth / 2; d > 0; d /= 2) v = fold(v, __shfl_xor_sync(L::kMask, v, d));
  if constexpr (L::kWarps > 1) {
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = v;
    __syncthreads();
    v = partials[0];
#pragma unroll
    for (int w = 1; w < L::kWarps; ++w) v = fold(v, partials[w]);
  }
  return v;
}

// The safe form: maximum, then sum, each a reduction over the block. v becomes the row's share.
template <int kThreads, int kCount>
__device__ void safe(float (&v)[kCount]) {
  __shared__ float maxima[32], sums[32];
  float largest = v[0];
#pragma unroll
  for (int i = 1; i < kCount; ++i) largest = fmaxf(largest, v[i]);
  largest = over_block<kThreads>(largest, Larger(), maxima);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum += v[i] = __expf(v[i] - largest);
  sum = over_block<kThreads>(sum, Sum(), sums);
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] = __fdividef(v[i], sum);
}

#if ROW_LENGTH <= 4096
extern "C" __global__ void __launch_bounds__(kCols / 4)
    safe_f32x4(const float* __restrict__ x, float* __restrict__ y) {
  const long long at = blockIdx.x * (long long)kCols + threadIdx.x * 4;
  const float4 in = *(const float4*)(x + at);
  float v[4] = {in.x, in.y, in.z, in.w};
  safe<kCols / 4>(v);
  *(float4*)(y + at) = make_float4(v[0], v[1], v[2], v[3]);
}

// One reduction of a (maximum, sum) pair; x is read again for the output.
extern "C" __global__ void __launch_bounds__(kCols / 4)
    online_f32x4(const float* __restrict__ x, float* __restrict__ y) {
  using L = Lanes<kCols / 4>;
  __shared__ float2 partials[32];
  const long long at = blockIdx.x * (long long)kCols + threadIdx.x * 4;
  const float4 in = *(const float4*)(x + at);
  float largest = fmaxf(fmaxf(in.x, in.y), fmaxf(in.z, in.w));
  float sum = __expf(in.x - largest) + __expf(in.y - largest) + __expf(in.z - largest) +
              __expf(in.w - largest);
  const auto merge = [&](float m, float s) {
    const float both = fmaxf(largest, m);
    sum = sum * __expf(largest - both) + s * __expf(m - both);
    largest = both;
  };
#pragma unroll
  for (int d = L::kWidth / 2; d > 0; d /= 2) {
    const float m = __shfl_xor_sync(L::kMask, largest, d);
    const float s = __shfl_xor_sync(L::kMask, sum, d);
    merge(m, s);
  }
  if constexpr (L::kWarps > 1) {
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = make_float2(largest, sum);
    __syncthreads();
    largest = partials[0].x, sum = partials[0].y;
#pragma unroll
    for (int w = 1; w < L::kWarps; ++w) merge(partials[w].x, partials[w].y);
  }
  const float4 again = *(const float4*)(x + at);
  const float scale = __fdividef(1.0f, sum);
  *(float4*)(y + at) =
      make_float4(__expf(again.x - largest) * scale, __expf(again.y - largest) * scale,
                  __expf(again.z - largest) * scale, __expf(again.w - largest) * scale);
}
#endif

__device__ void widen(unsigned two, float& low, float& high) {
  asm("{\n .reg .b16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h;\n}"
      : "=f"(low), "=f"(high)
      : "r"(two));
}
__device__ unsigned narrow(float low, float high) {
  unsigned two;
  asm("{\n .reg .b16 l, h;\n cvt.rn.f16.f32 l, %1;\n cvt.rn.f16.f32 h, %2;\n"
      " mov.b32 %0, {l, h};\n}"
      : "=r"(two)
      : "f"(low), "f"(high));
  return two;
}

extern "C" __global__ void __launch_bounds__(kCols / 8)
    safe_f16x8(const unsigned short* __restrict__ x, unsigned short* __restrict__ y) {
  const long long at = blockIdx.x * (long long)kCols + threadIdx.x * 8;
  const uint4 in = *(const uint4*)(x + at);
  float v[8];
  widen(in.x, v[0], v[1]), widen(in.y, v[2], v[3]);
  widen(in.z, v[4], v[5]), widen(in.w, v[6], v[7]);
  safe<kCols / 8>(v);
  *(uint4*)(y + at) =
      make_uint4(narrow(v[0], v[1]), narrow(v[2], v[3]), narrow(v[4], v[5]), narrow(v[6], v[7]));
}
