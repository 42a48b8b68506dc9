// SPDX-License-Identifier: Apache-2.0
#include "tools/base/sizes.hpp"

#include "tests/catch.hpp"

namespace gpumemtrace::tools::sizes_test {

TEST_CASE("a size is bytes, or a number with a binary or decimal unit", "[unit]") {
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("0") == 0);
  CHECK(parse_size("2GiB") == std::uint64_t{2} << 30);
  CHECK(parse_size("2GB") == 2'000'000'000);
  CHECK(parse_size("1.5 KiB") == 1536);
  CHECK(parse_size("512 mib") == std::uint64_t{512} << 20);
  CHECK(parse_size("18446744073709551615") == 18446744073709551615U);
}

TEST_CASE("text that is no whole number of bytes is no size", "[unit]") {
  for (const char* text :
       {"", "GiB", "-1", "2 apples", "0.3 bytes", "1.2.3", "99999999TiB", "2G"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_size(text).has_value());
  }
}

TEST_CASE("a time is nanoseconds, or a number with a unit", "[unit]") {
  CHECK(parse_time("120") == 120);
  CHECK(parse_time("120ns") == 120);
  CHECK(parse_time("12.4s") == 12'400'000'000);
  CHECK(parse_time("0.67") == 670'000'000);  // a number with a point is in seconds
  CHECK(parse_time("12.400000001 s") == 12'400'000'001);
  CHECK(parse_time("1.5us") == 1500);
  CHECK(parse_time("350ms") == 350'000'000);
  CHECK(parse_time("2min") == 120'000'000'000);
  CHECK(parse_time("0.5h") == 1'800'000'000'000);
}

TEST_CASE("text that is no whole number of nanoseconds is no time", "[unit]") {
  for (const char* text : {"", "s", "-1s", "1.5ns", "1.2.3s", "1 day", "1,5s", "999999999999h",
                           "0.0000000001s", ".5s", ".5"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_time(text).has_value());
  }
}

TEST_CASE("a share is from nothing to all, as a part or in percent", "[unit]") {
  CHECK(parse_share("0") == 0.0);
  CHECK(parse_share("0%") == 0.0);
  CHECK(parse_share("0.25") == 0.25);
  CHECK(parse_share(" 25 % ") == 0.25);
  CHECK(parse_share("100%") == 1.0);
  for (const char* text : {"", "%", "1.01", "101%", "-1%", "half", "5%%", "nan", "20% or so"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_share(text));
  }
}

TEST_CASE("a size is shown in the unit that keeps it below 1024", "[unit]") {
  CHECK(size_text(0) == "0 bytes");
  CHECK(size_text(1023) == "1023 bytes");
  CHECK(size_text(1024) == "1.0 KiB");
  CHECK(size_text((std::uint64_t{1} << 20) - 1) == "1.0 MiB");
  CHECK(size_text(73'098'330'112) == "68.1 GiB");
  CHECK(size_text(18446744073709551615U) == "16.0 EiB");
}

TEST_CASE("a count has a comma before every third digit", "[unit]") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(73'098'330'112) == "73,098,330,112");
}

TEST_CASE("a duration is shown in the unit that fits it", "[unit]") {
  CHECK(duration_text(12) == "12 ns");
  CHECK(duration_text(1'500) == "1.5 us");
  CHECK(duration_text(41'200'000) == "41.2 ms");
  CHECK(duration_text(96'400'000'000) == "96.40 s");
  CHECK(duration_text(600'000'000'000) == "10.0 min");
  CHECK(duration_text(36'000'000'000'000) == "10.0 h");
}

}  // namespace gpumemtrace::tools::sizes_test
