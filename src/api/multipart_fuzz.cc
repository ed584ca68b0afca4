// A form as a client sends it. The first byte says in what pieces it arrives: any cut must give the same parts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>

#include "api/multipart.h"

namespace {

using namespace hutch;

// Everything that came out, as text.
std::string parse(std::string_view body, std::size_t piece) {
  auto parser = MultipartParser::from_content_type("multipart/form-data; boundary=X");
  if (!parser) std::abort();
  std::string seen;
  while (!body.empty()) {
    parser->feed(body.substr(0, piece));
    body.remove_prefix(std::min(piece, body.size()));
    for (;;) {
      const auto event = parser->next();
      if (!event) return seen + "error " + event.error().message;
      if (!*event) break;
      if (const auto* begin = std::get_if<PartBegin>(&**event)) {
        seen += "begin " + begin->name + begin->file_name.value_or("-") + begin->content_type + "\n";
      } else if (const auto* data = std::get_if<PartData>(&**event)) {
        seen += data->bytes;
      } else if (std::holds_alternative<PartEnd>(**event)) {
        seen += "\nend\n";
      } else {
        seen += "over\n";
      }
    }
  }
  const auto finished = parser->finish();
  return finished ? seen : seen + "error " + finished.error().message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::ignore = MultipartParser::from_content_type(bytes);
  const auto body = bytes.substr(1);
  if (parse(body, body.size()) != parse(body, 1 + data[0] % 32)) std::abort();
  return 0;
}
