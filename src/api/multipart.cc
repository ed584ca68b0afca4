#include "api/multipart.h"

#include <algorithm>
#include <utility>

#include "api/http_text.h"
#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::size_t kLongestBoundary = 70;

Error bad(std::string message) { return make_error(ErrorCode::invalid_argument, "multipart: " + std::move(message)); }

bool is_boundary_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("'()+_,-./:=? ").contains(c);
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const auto begin = text.find_first_not_of(kSpaces);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

bool same_word(std::string_view text, std::string_view lower_word) {
  return std::ranges::equal(text, lower_word,
                            [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; });
}

// Browsers write a quote as %22 and leave '%' alone. They also write %0D and %0A, which stay: nobody wants such names.
std::string restore_quotes(std::string text) {
  for (std::size_t i = 0; (i = text.find("%22", i)) != std::string::npos; ++i) text.replace(i, 3, "\"");
  return text;
}

Result<void> check_name(std::string_view what, std::string_view text) {
  if (!is_utf8(text)) return bad("the " + std::string(what) + " of a part is not UTF-8");
  if (text.contains('\t')) return bad("the " + std::string(what) + " of a part has control characters");
  return {};
}

Result<void> read_disposition(std::string_view value, PartBegin& part) {
  auto header = parse_header_value(value);
  if (!header) return bad("Content-Disposition: " + header.error().message);
  if (header->value != "form-data") return bad("Content-Disposition of a part must be form-data");
  const std::string* name = header->find("name");
  if (name == nullptr) return bad("a part has no name");
  part.name = restore_quotes(*name);
  HUTCH_TRY(check_name("name", part.name));
  if (const std::string* file_name = header->find("filename")) {
    part.file_name = restore_quotes(*file_name);
    HUTCH_TRY(check_name("file name", *part.file_name));
  }
  return {};
}

// What each header of a part may say; others are allowed and mean nothing.
struct PartHeaders {
  PartBegin part;
  bool has_disposition = false;
  bool has_type = false;

  Result<void> take(std::string_view name, std::string_view value) {
    if (same_word(name, "content-disposition")) {
      if (std::exchange(has_disposition, true)) return bad("a part has two Content-Disposition headers");
      return read_disposition(value, part);
    }
    if (same_word(name, "content-type")) {
      if (std::exchange(has_type, true)) return bad("a part has two Content-Type headers");
      part.content_type = value;
    }
    // Otherwise base64 would be stored as the file.
    if (same_word(name, "content-transfer-encoding") && !same_word(value, "binary") && !same_word(value, "8bit") &&
        !same_word(value, "7bit")) {
      return bad("a part has a Content-Transfer-Encoding; send its bytes as they are");
    }
    return {};
  }
};

// All lines of one part's headers, each with its line end.
Result<PartBegin> parse_part_headers(std::string_view block) {
  PartHeaders headers;
  while (!block.empty()) {
    const auto line = block.substr(0, block.find(kLineEnd));
    block.remove_prefix(line.size() + kLineEnd.size());
    const bool has_control = std::ranges::any_of(
        line, [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f'; });
    if (has_control) return bad("a part's header has control characters, or a line does not end in CR LF");
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return bad("a part's header is not 'name: value'");
    }
    HUTCH_TRY(headers.take(line.substr(0, colon), trim(line.substr(colon + 1))));
  }
  if (!headers.has_disposition) return bad("a part has no Content-Disposition header");
  return std::move(headers.part);
}

// How many bytes at the end may be the beginning of the delimiter. Only its first byte is CR, so there is one
// candidate.
std::size_t held_back(std::string_view bytes, std::string_view delimiter) {
  const auto last = bytes.rfind('\r');
  if (last == std::string_view::npos) return 0;
  return delimiter.starts_with(bytes.substr(last)) ? bytes.size() - last : 0;
}

}  // namespace

Result<MultipartParser> MultipartParser::from_content_type(std::string_view content_type) {
  auto header = parse_header_value(content_type);
  if (!header) return bad("Content-Type: " + header.error().message);
  if (header->value != "multipart/form-data") return bad("Content-Type must be multipart/form-data");
  const std::string* boundary = header->find("boundary");
  if (boundary == nullptr) return bad("Content-Type has no boundary");
  if (boundary->empty() || boundary->size() > kLongestBoundary) return bad("the boundary must have 1 to 70 characters");
  if (!std::ranges::all_of(*boundary, is_boundary_character) || boundary->ends_with(' ')) {
    return bad("the boundary has characters that RFC 2046 does not allow there");
  }
  return MultipartParser("\r\n--" + *boundary);
}

void MultipartParser::feed(std::string_view bytes) {
  if (failed_) return;
  buffer_.erase(0, used_);
  used_ = 0;
  buffer_.append(bytes);
}

Result<std::optional<MultipartEvent>> MultipartParser::next() {
  if (failed_) return *failed_;
  std::optional<MultipartEvent> event;
  for (;;) {
    auto again = step(event);
    if (!again) {
      failed_ = again.error();
      return *failed_;
    }
    if (!*again) return event;
  }
}

Result<void> MultipartParser::finish() {
  if (failed_) return *failed_;
  if (state_ == State::after_end || state_ == State::over) {
    HUTCH_TRY(next());  // no event can come; what is left must be the end of the line
    if (rest().empty()) return {};
    failed_ = bad("there are bytes after the closing boundary");
  } else {
    failed_ = bad("the body ends before its closing boundary");
  }
  return *failed_;
}

Result<bool> MultipartParser::step(std::optional<MultipartEvent>& event) {
  switch (state_) {
    case State::start:
      return read_start();
    case State::after_boundary:
      return read_after_boundary(event);
    case State::boundary_line_end:
      return read_line_end();
    case State::headers:
      return read_headers(event);
    case State::data:
      return read_data(event);
    case State::after_end:
      return read_after_end();
    case State::over:
      if (!rest().empty()) return bad("there are bytes after the closing boundary");
      return false;
  }
  return make_error(ErrorCode::internal, "multipart: no such state");
}

// The first boundary has no line end before it; one is allowed, because it is there when a preamble is empty.
Result<bool> MultipartParser::read_start() {
  const auto bytes = rest();
  for (const auto expected : {std::string_view(delimiter_), std::string_view(delimiter_).substr(kLineEnd.size())}) {
    if (bytes.starts_with(expected)) {
      used_ += expected.size();
      state_ = State::after_boundary;
      return true;
    }
    if (expected.starts_with(bytes)) return false;
  }
  return bad("the body does not begin with the boundary that Content-Type names");
}

Result<bool> MultipartParser::read_after_boundary(std::optional<MultipartEvent>& event) {
  const auto bytes = rest();
  if (bytes.empty() || bytes == "-") return false;
  if (bytes.starts_with("--")) {
    used_ += 2;
    state_ = State::after_end;
    event = MultipartEnd{};
    return false;
  }
  state_ = State::boundary_line_end;
  return true;
}

Result<bool> MultipartParser::read_line_end() {
  skip_padding();
  const auto bytes = rest();
  if (kLineEnd.starts_with(bytes) && bytes != kLineEnd) return false;
  if (!bytes.starts_with(kLineEnd)) return bad("a boundary is followed by something that is not a line end");
  if (++parts_ > kMostParts) {
    return make_error(ErrorCode::limit, "multipart: more than " + std::to_string(kMostParts) + " parts");
  }
  used_ += kLineEnd.size();
  state_ = State::headers;
  return true;
}

Result<bool> MultipartParser::read_headers(std::optional<MultipartEvent>& event) {
  const auto bytes = rest();
  if (bytes.starts_with(kLineEnd)) return bad("a part has no headers");
  constexpr std::string_view kHeadersEnd = "\r\n\r\n";
  const auto end = bytes.substr(0, kMostPartHeaders).find(kHeadersEnd);
  if (end == std::string_view::npos) {
    if (bytes.size() < kMostPartHeaders) return false;
    return make_error(ErrorCode::limit,
                      "multipart: a part's headers are longer than " + std::to_string(kMostPartHeaders) + " bytes");
  }
  HUTCH_TRY(auto part, parse_part_headers(bytes.substr(0, end + kLineEnd.size())));
  used_ += end + kHeadersEnd.size();
  state_ = State::data;
  event = std::move(part);
  return false;
}

bool MultipartParser::read_data(std::optional<MultipartEvent>& event) {
  const auto bytes = rest();
  const auto found = bytes.find(delimiter_);
  if (found == 0) {
    used_ += delimiter_.size();
    state_ = State::after_boundary;
    event = PartEnd{};
    return false;
  }
  const auto length = found != std::string_view::npos ? found : bytes.size() - held_back(bytes, delimiter_);
  used_ += length;
  if (length > 0) event = PartData{.bytes = bytes.substr(0, length)};
  return false;
}

// After the closing boundary: nothing, or the end of its line.
Result<bool> MultipartParser::read_after_end() {
  skip_padding();
  const auto bytes = rest();
  if (bytes != kLineEnd && kLineEnd.starts_with(bytes)) return false;
  if (!bytes.starts_with(kLineEnd)) return bad("there are bytes after the closing boundary");
  used_ += kLineEnd.size();
  state_ = State::over;
  return true;
}

// RFC 2046 lets transports add spaces after a boundary; they mean nothing.
void MultipartParser::skip_padding() {
  while (used_ < buffer_.size() && (buffer_[used_] == ' ' || buffer_[used_] == '\t')) ++used_;
}

}  // namespace hutch
