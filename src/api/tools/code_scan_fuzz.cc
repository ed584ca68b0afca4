// Source of any kind: every warning is a printable sentence with its line, and no module comes twice.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "api/tools/code_scan.h"
#include "api/tools/python_tokens.h"
#include "base/utf8.h"

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hutch;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const CodeScan scan = scan_code(source);
  must(!scan.warnings.empty() || scan.risk == Risk::low);
  for (const std::string& warning : scan.warnings) {
    must(is_utf8(warning) && warning.starts_with("Line ") && warning.ends_with('.'));
    must(std::ranges::none_of(warning, [](char c) { return c >= 0 && c < ' '; }));
  }
  const auto modules = imported_modules(source);
  must(std::set<std::string>(modules.begin(), modules.end()).size() == modules.size());
  must(std::ranges::none_of(modules, [](const std::string& module) { return module.empty() || module.contains('.'); }));

  // Every token is a piece of the source, and no byte is in two of them.
  PythonTokens tokens(source);
  const char* reached = source.data();
  while (tokens.peek().kind != PythonToken::Kind::end) {
    const PythonToken token = tokens.take();
    must(token.text.data() >= reached && token.text.data() + token.text.size() <= source.data() + source.size());
    must(token.kind == PythonToken::Kind::string || !token.text.empty());
    reached = token.text.data() + token.text.size();
  }
  return 0;
}
