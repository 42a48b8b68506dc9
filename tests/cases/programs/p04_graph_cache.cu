// SPDX-License-Identifier: Apache-2.0
// An inference backend behind a server. The server rebuilds the description of the computation for every token; the
// backend captures it as a CUDA graph and keeps the graphs that it made, by the first node of the description.
// usage: p04_graph_cache [clean]
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define CHECK(call)                                                                         \
  do {                                                                                      \
    cudaError_t e_ = (call);                                                                \
    if (e_ != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));      \
      std::exit(3);                                                                         \
    }                                                                                       \
  } while (0)

static const size_t MiB = size_t(1) << 20;

__global__ void mix(float* state, const float* weights, int n, int layer, int position) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) state[i] = 0.5f * state[i] + weights[(i + layer * 4099 + position) % n];
}

__global__ void store_kv(const float* state, float* cache, int n, int position, int slots) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) cache[size_t(position % slots) * n + i] = state[i];
}

struct Node {
  enum Kind { MIX, STORE } kind;
  int layer, position;
};

struct Description {
  std::vector<Node> nodes;
};

struct Model {
  static const int width = 4096, layers = 96, slots = 4096;
  float *weights = nullptr, *state = nullptr, *cache = nullptr;
  size_t bytes = 0;
  Model() {
    take(&weights, 512 * MiB);
    take(&state, width * sizeof(float));
    take(&cache, size_t(slots) * width * sizeof(float));
    CHECK(cudaMemset(weights, 0, 512 * MiB));
    CHECK(cudaMemset(state, 0, width * sizeof(float)));
  }
  ~Model() {
    cudaFree(weights);
    cudaFree(state);
    cudaFree(cache);
  }

 private:
  void take(float** where, size_t n) {
    CHECK(cudaMalloc(where, n));
    bytes += n;
  }
};

class Backend {
 public:
  explicit Backend(Model& model) : model_(model) { CHECK(cudaStreamCreate(&stream_)); }
  ~Backend() {
    for (auto& entry : graphs_) cudaGraphExecDestroy(entry.second);
    cudaStreamDestroy(stream_);
  }

  void compute(const Description& description) {
    const void* key = description.nodes.data();
    cudaGraph_t graph = capture(description);
    auto found = graphs_.find(key);
    if (found == graphs_.end()) {
      cudaGraphExec_t made;
      CHECK(cudaGraphInstantiate(&made, graph, 0));     //!ALLOC
      found = graphs_.emplace(key, made).first;         //!FAULT
      instantiated_++;
    } else {
      cudaGraphExecUpdateResultInfo info;
      CHECK(cudaGraphExecUpdate(found->second, graph, &info));
      updated_++;
    }
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(found->second, stream_));
    CHECK(cudaStreamSynchronize(stream_));
  }

  size_t kept() const { return graphs_.size(); }
  long instantiated() const { return instantiated_; }
  long updated() const { return updated_; }

 private:
  cudaGraph_t capture(const Description& description) {
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
    const int n = Model::width;
    for (const Node& node : description.nodes) {
      if (node.kind == Node::MIX)
        mix<<<n / 256, 256, 0, stream_>>>(model_.state, model_.weights, n, node.layer, node.position);
      else
        store_kv<<<n / 256, 256, 0, stream_>>>(model_.state, model_.cache, n, node.position, Model::slots);
    }
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream_, &graph));
    return graph;
  }

  Model& model_;
  cudaStream_t stream_ = nullptr;
  std::unordered_map<const void*, cudaGraphExec_t> graphs_;
  long instantiated_ = 0, updated_ = 0;
};

class Server {
 public:
  Server(Backend& backend, bool reuse) : backend_(backend), reuse_(reuse) {}
  void answer(int tokens) {
    for (int i = 0; i < tokens; ++i) {
      Description& description = next_description();
      build(description, position_++);
      backend_.compute(description);
    }
  }

 private:
  // With `reuse_`, one description serves all tokens; else each gets a new one (all are kept).
  Description& next_description() {
    if (descriptions_.empty() || !reuse_) descriptions_.push_back(std::make_unique<Description>());
    return *descriptions_.back();
  }
  static void build(Description& description, int position) {
    description.nodes.reserve(2 * Model::layers);
    description.nodes.clear();
    for (int layer = 0; layer < Model::layers; ++layer) {
      description.nodes.push_back({Node::MIX, layer, position});
      description.nodes.push_back({Node::STORE, layer, position});
    }
  }
  Backend& backend_;
  bool reuse_;
  int position_ = 0;
  std::vector<std::unique_ptr<Description>> descriptions_;
};

static size_t free_bytes() {
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

int main(int argc, char** argv) {
  bool clean = argc > 1 && std::string(argv[1]) == "clean";
  Model model;
  Backend backend(model);
  Server server(backend, clean);
  server.answer(4);  // the first tokens load the kernels
  size_t before = free_bytes(), own = model.bytes;
  std::vector<long long> missing;
  for (int request = 0; request < 15; ++request) {
    server.answer(100);
    missing.push_back(static_cast<long long>(before) - static_cast<long long>(free_bytes()));
  }
  std::printf("TRUTH {\"case\": \"p04\", \"mode\": \"%s\", \"tokens\": 1504, \"nodes_of_a_graph\": %d, "
              "\"graphs_kept\": %zu, \"instantiated\": %ld, \"updated\": %ld, \"own_bytes\": %zu, "
              "\"missing_after_5_requests_approx\": %lld, \"missing_after_10_requests_approx\": %lld, "
              "\"missing_after_15_requests_approx\": %lld}\n",
              clean ? "clean" : "faulty", 2 * Model::layers, backend.kept(), backend.instantiated(),
              backend.updated(), own, missing[4], missing[9], missing[14]);
  std::fflush(stdout);
  return 0;
}
