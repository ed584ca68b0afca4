// Header values, queries and paths as a client sends them, and what must hold for each.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <tuple>

#include "api/http_text.h"

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hutch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto decoded = percent_decode(text)) {
    const auto again = percent_decode(percent_encode_path(*decoded));
    must(again && *again == *decoded);
  }
  if (const auto query = parse_query(text)) must(query->size() <= kMostQueryPairs);
  for (const std::uint64_t length : {0, 1, 1000}) {
    const auto range = parse_range(text, length);
    if (range && *range) must((*range)->first <= (*range)->last && (*range)->last < length);
  }
  std::ignore = parse_accept(text);
  std::ignore = is_loopback_host(text);
  std::ignore = parse_header_value(text);
  const auto disposition = html_free_filename(text);
  must(std::ranges::all_of(disposition, [](char c) { return c >= ' ' && c <= '~'; }));
  const auto parsed = parse_header_value(disposition);
  must(parsed && parsed->value == "attachment" && parsed->find("filename") != nullptr);
  must(!parsed->find("filename")->empty() && !parsed->find("filename")->contains('/'));
  return 0;
}
