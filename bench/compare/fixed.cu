// SPDX-License-Identifier: Apache-2.0
//
// What rowsmith replaces: kernels for a row length from a short list (kCols, a power of two), one
// block a row and one pack of elements a thread. A switch over H picks the instance; every other H
// is an error. Compiled with -DROW_LENGTH. The naive form subtracts no maximum: it is right for
// inputs below about 88 alone.

constexpr int kCols = ROW_LENGTH;

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
// Of (maximum, sum of exponentials less that maximum).
struct Merge {
  __device__ float2 operator()(float2 a, float2 b) const {
    const float2 high = a.x >= b.x ? a : b, low = a.x >= b.x ? b : a;
    return make_float2(high.x, high.y + low.y * __expf(low.x - high.x));
  }
};

__device__ float from_lane_xor(unsigned lanes, float v, int d) {
  return __shfl_xor_sync(lanes, v, d);
}
__device__ float2 from_lane_xor(unsigned lanes, float2 v, int d) {
  return make_float2(__shfl_xor_sync(lanes, v.x, d), __shfl_xor_sync(lanes, v.y, d));
}

template <int kWidth, class T, class Fold>
__device__ T over_lanes(unsigned lanes, T v, Fold fold) {
#pragma unroll
  for (int d = kWidth / 2; d > 0; d /= 2) v = fold(v, from_lane_xor(lanes, v, d));
  return v;
}

// Every thread gets the block's result; `partials` is used by one call only.
template <int kThreads, class T, class Fold>
__device__ T over_block(T v, Fold fold, T* partials) {
  constexpr int kWidth = kThreads < 32 ? kThreads : 32;
  constexpr int kWarps = kThreads / kWidth;
  constexpr unsigned kLanes = 0xffffffffu >> (32 - kWidth);
  v = over_lanes<kWidth>(kLanes, v, fold);
  if constexpr (kWarps > 1) {
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = v;
    __syncthreads();
    v = over_lanes<kWarps>(kLanes, partials[threadIdx.x % kWarps], fold);
  }
  return v;
}

__device__ void load(const float* x, float (&v)[1]) {
  v[0] = *x;
}
__device__ void load(const float* x, float (&v)[4]) {
  const float4 in = *(const float4*)x;
  v[0] = in.x, v[1] = in.y, v[2] = in.z, v[3] = in.w;
}
__device__ void store(float* y, const float (&v)[1]) {
  *y = v[0];
}
__device__ void store(float* y, const float (&v)[4]) {
  *(float4*)y = make_float4(v[0], v[1], v[2], v[3]);
}

// f16 as its bits.
__device__ float widen(unsigned short half) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(half));
  return v;
}
__device__ unsigned short narrow(float v) {
  unsigned short half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(v));
  return half;
}
template <int kCount>
struct alignas(2 * kCount) Halves {
  unsigned short of[kCount];
};
template <int kCount>
__device__ void load(const unsigned short* x, float (&v)[kCount]) {
  const Halves<kCount> in = *(const Halves<kCount>*)x;
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] = widen(in.of[i]);
}
template <int kCount>
__device__ void store(unsigned short* y, const float (&v)[kCount]) {
  Halves<kCount> out;
#pragma unroll
  for (int i = 0; i < kCount; ++i) out.of[i] = narrow(v[i]);
  *(Halves<kCount>*)y = out;
}

// v, this thread's share of the row, becomes its exponentials over their sum.
template <int kThreads, int kCount, class Element>
__device__ void naive(float (&v)[kCount], const Element*) {
  __shared__ float sums[32];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum += v[i] = __expf(v[i]);
  sum = over_block<kThreads>(sum, Sum(), sums);
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] = __fdividef(v[i], sum);
}

// Maximum, then sum: two dependent reductions over the block.
template <int kThreads, int kCount, class Element>
__device__ void safe(float (&v)[kCount], const Element* share) {
  __shared__ float maxima[32];
  float largest = v[0];
#pragma unroll
  for (int i = 1; i < kCount; ++i) largest = fmaxf(largest, v[i]);
  largest = over_block<kThreads>(largest, Larger(), maxima);
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] -= largest;
  naive<kThreads>(v, share);
}

// One reduction of a (maximum, sum) pair; the share is read again for the output.
template <int kThreads, int kCount, class Element>
__device__ void online(float (&v)[kCount], const Element* share) {
  __shared__ float2 partials[32];
  float2 pair = make_float2(v[0], 0);
#pragma unroll
  for (int i = 1; i < kCount; ++i) pair.x = fmaxf(pair.x, v[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) pair.y += __expf(v[i] - pair.x);
  pair = over_block<kThreads>(pair, Merge(), partials);
  const float scale = __fdividef(1.0f, pair.y);
  load(share, v);
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] = __expf(v[i] - pair.x) * scale;
}

// Blocks that fill an SM's 2048 threads: asks for at most 32 registers a thread, as a block of 1024
// threads with more would be alone on its SM and load nothing while it computes.
__device__ constexpr int blocks_of(int threads) {
  return threads < 64 ? 32 : 2048 / threads;
}

#define FIXED(name, Element, count, arithmetic)                                             \
  extern "C" __global__ void __launch_bounds__(kCols / (count), blocks_of(kCols / (count))) \
      name(const Element* __restrict__ x, Element* __restrict__ y) {                        \
    const long long at = blockIdx.x * (long long)kCols + threadIdx.x * (count);             \
    float v[count];                                                                         \
    load(x + at, v);                                                                        \
    arithmetic<kCols / (count)>(v, x + at);                                                 \
    store(y + at, v);                                                                       \
  }

#if ROW_LENGTH <= 1024
FIXED(naive_f32, float, 1, naive)
FIXED(safe_f32, float, 1, safe)
FIXED(online_f32, float, 1, online)
FIXED(safe_f16, unsigned short, 1, safe)
#endif
#if ROW_LENGTH <= 2048
FIXED(safe_f16x2, unsigned short, 2, safe)
#endif
#if ROW_LENGTH <= 4096
FIXED(naive_f32x4, float, 4, naive)
FIXED(safe_f32x4, float, 4, safe)
#endif
#if ROW_LENGTH >= 128 && ROW_LENGTH <= 4096
FIXED(online_f32x4, float, 4, online)
#endif
FIXED(safe_f16x8, unsigned short, 8, safe)
