// SPDX-License-Identifier: Apache-2.0
// Catch2 in either of its two layouts.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // version 2 has it everywhere
#else
#include <catch2/catch.hpp>
#endif
