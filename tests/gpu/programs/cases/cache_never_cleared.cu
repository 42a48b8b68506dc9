// SPDX-License-Identifier: Apache-2.0
// A cache of tables on the device that is cleared at the end by the clean twin alone.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>

namespace {

#define KEPT __attribute__((noinline, noclone))

class TableCache {
 public:
  KEPT void* table(int key) {
    const auto found = tables_.find(key);
    if (found != tables_.end()) return found->second;
    void*& table = tables_[key];
    cudaMalloc(&table, kTableBytes);  // fault: leak error
    cudaMemset(table, key, kTableBytes);
    return table;
  }
  KEPT void clear() {
    for (const auto& [key, table] : tables_) cudaFree(table);
    tables_.clear();
  }
  std::size_t size() const { return tables_.size(); }

 private:
  static constexpr std::size_t kTableBytes = 4 << 20;
  std::map<int, void*> tables_;
};

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  TableCache cache;
  for (int i = 0; i < 300; ++i) (void)cache.table(i * i % 24);
  std::printf("%zu tables\n", cache.size());
  if (std::strcmp(arguments[1], "clean") == 0) cache.clear();
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
