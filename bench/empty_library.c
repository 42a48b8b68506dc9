// SPDX-License-Identifier: Apache-2.0
// A library without code: the loader's work for it is the least cost of any preloaded library.
typedef int gpumemtrace_empty;
