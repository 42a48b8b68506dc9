// SPDX-License-Identifier: Apache-2.0
// A camera pipeline. Every colour frame (YUY2) is turned into RGB and every depth frame into disparity on the GPU; the
// frames come from and go back to ordinary host memory. usage: p01_frame_convert [clean]
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                         \
  do {                                                                                      \
    cudaError_t e_ = (call);                                                                \
    if (e_ != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));      \
      std::exit(3);                                                                         \
    }                                                                                       \
  } while (0)

struct Counters {
  long mallocs = 0, frees = 0;
  size_t malloc_bytes = 0, live = 0, peak = 0, to_device = 0, to_host = 0;
};
static Counters counters;

static void note_malloc(size_t n) {
  counters.mallocs++;
  counters.malloc_bytes += n;
  counters.live += n;
  if (counters.live > counters.peak) counters.peak = counters.live;
}
static void note_free(size_t n) {
  counters.frees++;
  counters.live -= n;
}

__device__ static uint8_t clamp8(float v) { return v < 0.f ? 0 : v > 255.f ? 255 : static_cast<uint8_t>(v); }

__global__ void yuy2_to_rgb(const uint8_t* src, uint8_t* dst, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  float u = src[4 * i + 1] - 128.f, v = src[4 * i + 3] - 128.f;
  for (int k = 0; k < 2; ++k) {
    float y = 1.164f * (src[4 * i + 2 * k] - 16.f);
    uint8_t* out = dst + 6 * i + 3 * k;
    out[0] = clamp8(y + 1.596f * v);
    out[1] = clamp8(y - 0.392f * u - 0.813f * v);
    out[2] = clamp8(y + 2.017f * u);
  }
}

__global__ void depth_to_disparity(const uint16_t* depth, float* disparity, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) disparity[i] = depth[i] ? factor / depth[i] : 0.f;
}

// A buffer on the GPU that is made again only when more is needed.
struct ReusedBuffer {
  void* data = nullptr;
  size_t size = 0;
  void* reserve(size_t n) {
    if (n > size) {
      release();
      CHECK(cudaMalloc(&data, n));
      size = n;
      note_malloc(n);
    }
    return data;
  }
  void release() {
    if (!data) return;
    CHECK(cudaFree(data));
    note_free(size);
    data = nullptr;
    size = 0;
  }
};

class ColourConverter {
 public:
  explicit ColourConverter(bool reuse) : reuse_(reuse) {}
  ~ColourConverter() {
    src_.release();
    dst_.release();
  }
  void convert(const uint8_t* yuy2, uint8_t* rgb, int pixels) {
    size_t in = size_t(pixels) * 2, out = size_t(pixels) * 3;
    uint8_t *d_in = nullptr, *d_out = nullptr;
    if (reuse_) {
      d_in = static_cast<uint8_t*>(src_.reserve(in));
      d_out = static_cast<uint8_t*>(dst_.reserve(out));
    } else {
      CHECK(cudaMalloc(&d_in, in));    //!FAULT
      CHECK(cudaMalloc(&d_out, out));  //!FAULT
      note_malloc(in);
      note_malloc(out);
    }
    CHECK(cudaMemcpy(d_in, yuy2, in, cudaMemcpyHostToDevice));
    yuy2_to_rgb<<<(pixels / 2 + 255) / 256, 256>>>(d_in, d_out, pixels / 2);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(rgb, d_out, out, cudaMemcpyDeviceToHost));
    counters.to_device += in;
    counters.to_host += out;
    if (!reuse_) {
      CHECK(cudaFree(d_in));
      CHECK(cudaFree(d_out));
      note_free(in);
      note_free(out);
    }
  }

 private:
  bool reuse_;
  ReusedBuffer src_, dst_;
};

class DepthConverter {
 public:
  explicit DepthConverter(bool reuse) : reuse_(reuse) {}
  ~DepthConverter() {
    src_.release();
    dst_.release();
  }
  void convert(const uint16_t* depth, float* disparity, int pixels) {
    size_t in = size_t(pixels) * sizeof(uint16_t), out = size_t(pixels) * sizeof(float);
    uint16_t* d_in = nullptr;
    float* d_out = nullptr;
    if (reuse_) {
      d_in = static_cast<uint16_t*>(src_.reserve(in));
      d_out = static_cast<float*>(dst_.reserve(out));
    } else {
      CHECK(cudaMalloc(&d_in, in));    //!FAULT
      CHECK(cudaMalloc(&d_out, out));  //!FAULT
      note_malloc(in);
      note_malloc(out);
    }
    CHECK(cudaMemcpy(d_in, depth, in, cudaMemcpyHostToDevice));
    depth_to_disparity<<<(pixels + 255) / 256, 256>>>(d_in, d_out, pixels, 64000.f);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(disparity, d_out, out, cudaMemcpyDeviceToHost));
    counters.to_device += in;
    counters.to_host += out;
    if (!reuse_) {
      CHECK(cudaFree(d_in));
      CHECK(cudaFree(d_out));
      note_free(in);
      note_free(out);
    }
  }

 private:
  bool reuse_;
  ReusedBuffer src_, dst_;
};

class Camera {
 public:
  Camera(int width, int height) : pixels_(width * height), colour_(size_t(pixels_) * 2), depth_(pixels_) {}
  void grab(int frame) {
    uint32_t state = 2463534242u + frame;
    for (size_t i = 0; i < colour_.size(); i += 64) {
      state ^= state << 13, state ^= state >> 17, state ^= state << 5;
      std::memset(colour_.data() + i, state & 0xff, 64);
    }
    for (size_t i = 0; i < depth_.size(); i += 16) {
      state ^= state << 13, state ^= state >> 17, state ^= state << 5;
      for (int k = 0; k < 16; ++k) depth_[i + k] = 500 + (state & 0xfff);
    }
  }
  int pixels() const { return pixels_; }
  const uint8_t* colour() const { return colour_.data(); }
  const uint16_t* depth() const { return depth_.data(); }

 private:
  int pixels_;
  std::vector<uint8_t> colour_;
  std::vector<uint16_t> depth_;
};

int main(int argc, char** argv) {
  bool clean = argc > 1 && std::string(argv[1]) == "clean";
  const int frames = 400;
  Camera camera(1280, 720);
  std::vector<uint8_t> rgb(size_t(camera.pixels()) * 3);
  std::vector<float> disparity(camera.pixels());
  unsigned long long sum = 0;
  {
    ColourConverter colour(clean);
    DepthConverter depth(clean);
    for (int frame = 0; frame < frames; ++frame) {
      camera.grab(frame);
      colour.convert(camera.colour(), rgb.data(), camera.pixels());
      depth.convert(camera.depth(), disparity.data(), camera.pixels());
      sum += rgb[frame * 17] + static_cast<unsigned long long>(disparity[frame * 13]);
    }
  }
  std::printf("TRUTH {\"case\": \"p01\", \"mode\": \"%s\", \"frames\": %d, \"mallocs\": %ld, \"frees\": %ld, "
              "\"malloc_bytes\": %zu, \"leaked_bytes\": %zu, \"peak_bytes\": %zu, \"to_device_bytes\": %zu, "
              "\"to_host_bytes\": %zu, \"checksum\": %llu}\n",
              clean ? "clean" : "faulty", frames, counters.mallocs, counters.frees, counters.malloc_bytes,
              counters.live, counters.peak, counters.to_device, counters.to_host, sum);
  std::fflush(stdout);
  return 0;
}
