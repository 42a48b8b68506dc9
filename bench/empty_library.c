// SPDX-License-Identifier: Apache-2.0
// A library without a line of code: what the loader does for it is the floor of any preload.
typedef int gpumemtrace_empty;
