// The small grammars of HTTP: escapes, queries, ranges, Accept, Host and header values with parameters. Pure functions
// over bytes that a stranger sent; nothing here knows of connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hutch {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::size_t kMostQueryPairs = 50;

// Strict: a '%' without two hexadecimal digits, %00, and bytes that must be escaped (controls, space, beyond ASCII) are
// errors. '+' stays. The result is bytes: it need not be UTF-8.
Result<std::string> percent_decode(std::string_view text);
// Everything but unreserved characters and '/'.
std::string percent_encode_path(std::string_view path);
// What follows the '?', without it; '+' is a space. A name without '=' has an empty value; no name twice.
Result<NamedValues> parse_query(std::string_view query);

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // inclusive and below the size
  bool operator==(const ByteRange&) const = default;
};
enum class RangeError { unsatisfiable };  // answer 416 with `Content-Range: bytes */size`
// The value of a Range header. Nothing: send everything, because the header has several ranges, another unit or
// mistakes.
std::expected<std::optional<ByteRange>, RangeError> parse_range(std::string_view header, std::uint64_t size);

enum class Accepts { json, event_stream, ndjson };
// The one a client prefers: by q, then the one named outright, then the one named first. `otherwise` when the header is
// empty or broken, takes none of them, or leaves it to us with a wildcard.
Accepts parse_accept(std::string_view header, Accepts otherwise = Accepts::json);

// localhost, *.localhost, 127.0.0.0/8 in dotted decimal, [::1]; with a port or without. No other spelling.
bool is_loopback_host(std::string_view host_header);

// The value of a Content-Disposition header that makes a browser save and never show: attachment, with the last part of
// the path as ASCII and, when that lost something, as UTF-8 too.
std::string html_free_filename(std::string_view path);

// `form-data; name="a"`: a value and its parameters. The value and the names are in lower case, no name comes twice.
// In a quoted value \" and \\ are escapes; any other backslash stands for itself, as browsers send it.
struct HeaderValue {
  std::string value;
  NamedValues parameters;

  [[nodiscard]] const std::string* find(std::string_view name) const;
};
Result<HeaderValue> parse_header_value(std::string_view text);
// One or more of the characters that HTTP allows in the name of a header.
bool is_token(std::string_view text);
// What a client may call its request: 1 to 64 letters, digits, dots, underscores and dashes.
bool is_request_id(std::string_view text);

}  // namespace hutch
