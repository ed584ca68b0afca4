// A multipart/form-data body (RFC 7578, RFC 2046) as it arrives, in pieces of any size. Pull, not push: whoever reads
// the request feeds what came and takes events until there are none, so a slow file can make the client wait.
//
//   parser.feed(bytes);
//   for (;;) {
//     HUTCH_CO_TRY(auto event, parser.next());
//     if (!event) break;  // read more of the body
//     ...
//   }
//   ... and when the body is over: parser.finish()
//
// Strict: no preamble, no epilogue, no bare line feeds, no folded headers, no encoded parts. The memory it needs is the
// largest piece fed and one part's headers. After an error, every call gives that error again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.h"

namespace hutch {

inline constexpr std::size_t kMostPartHeaders = 8192;  // bytes, of one part
inline constexpr std::size_t kMostParts = 1000;

// Both names are the client's own words, valid UTF-8 without control characters and nothing more: "../../etc/passwd" is
// one. `filename*` is not looked at (RFC 7578 forbids it).
struct PartBegin {
  std::string name;
  std::optional<std::string> file_name;
  std::string content_type;  // as sent; empty when the part did not say
};
struct PartData {
  std::string_view bytes;  // never empty; valid until the next call of anything
};
struct PartEnd {};
struct MultipartEnd {};  // the closing boundary was read
using MultipartEvent = std::variant<PartBegin, PartData, PartEnd, MultipartEnd>;

class MultipartParser {
 public:
  // The value of the request's Content-Type header.
  static Result<MultipartParser> from_content_type(std::string_view content_type);

  // Only after next() has said that there is no event: what is not yet taken is kept, and piles up.
  void feed(std::string_view bytes);
  // No event: feed more, or finish.
  Result<std::optional<MultipartEvent>> next();
  // The body is over: an error when the closing boundary did not come.
  Result<void> finish();

 private:
  enum class State { start, after_boundary, boundary_line_end, headers, data, after_end, over };

  explicit MultipartParser(std::string delimiter) : delimiter_(std::move(delimiter)) {}

  // Each reads what it can of its state. True: call step() again; false: there is an event, or too few bytes.
  Result<bool> step(std::optional<MultipartEvent>& event);
  Result<bool> read_start();
  Result<bool> read_after_boundary(std::optional<MultipartEvent>& event);
  Result<bool> read_line_end();
  Result<bool> read_headers(std::optional<MultipartEvent>& event);
  bool read_data(std::optional<MultipartEvent>& event);
  Result<bool> read_after_end();

  [[nodiscard]] std::string_view rest() const { return std::string_view(buffer_).substr(used_); }
  void skip_padding();

  std::string delimiter_;  // CR LF -- boundary
  std::string buffer_;
  std::size_t used_ = 0;  // of buffer_
  State state_ = State::start;
  std::size_t parts_ = 0;
  std::optional<Error> failed_;
};

}  // namespace hutch
