#include "api/http_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <tuple>

#include "base/utf8.h"

namespace hutch {
namespace {

// Not <cctype>: the locale has no say in what HTTP is.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; }
bool is_unreserved(char c) { return is_word(c) || std::string_view("-._~").contains(c); }
bool is_token_character(char c) { return is_word(c) || std::string_view("!#$%&'*+-.^_`|~").contains(c); }
bool is_all_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<unsigned> hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::string percent_encode(std::string_view text, bool (*stays)(char)) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (stays(c)) {
      result += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    result += '%';
    result += kDigits[byte >> 4];
    result += kDigits[byte & 15];
  }
  return result;
}

Error bad(std::string message) { return make_error(ErrorCode::invalid_argument, std::move(message)); }

// A number too large for 64 bits is as good as the largest: every file is smaller.
std::uint64_t saturated_number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return failed == std::errc{} ? value : std::numeric_limits<std::uint64_t>::max();
}

// "0.25" as 250; nothing when it is not what RFC 9110 calls a weight.
std::optional<int> parse_weight(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  int thousandths = (text[0] - '0') * 1000;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  int place = 100;
  for (const char c : text.substr(std::min<std::size_t>(2, text.size()))) {
    if (!is_digit(c)) return std::nullopt;
    thousandths += (c - '0') * place;
    place /= 10;
  }
  return thousandths <= 1000 ? std::optional(thousandths) : std::nullopt;
}

// The pieces between the commas that are not inside quotes.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> pieces;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '\\' && quoted) {
      ++i;
    } else if (i < text.size() && text[i] == '"') {
      quoted = !quoted;
    } else if (i >= text.size() || (text[i] == ',' && !quoted)) {
      const auto piece = trim(text.substr(begin, i - begin));
      if (!piece.empty()) pieces.push_back(piece);
      begin = i + 1;
    }
  }
  return pieces;
}

bool is_port(std::string_view text) {
  return text.size() <= 5 && is_all_digits(text) && saturated_number(text) <= 65535;
}

bool is_loopback_address(std::string_view text) {
  int octets = 0;
  for (;;) {
    const auto dot = text.find('.');
    const auto octet = text.substr(0, dot);
    // Without leading zeros: some readers take 0177.0.0.1 for octal.
    const bool good = is_all_digits(octet) && octet.size() <= 3 && (octet.size() == 1 || octet[0] != '0') &&
                      saturated_number(octet) <= 255;
    if (!good || (octets == 0 && octet != "127")) return false;
    ++octets;
    if (dot == std::string_view::npos) return octets == 4;
    text.remove_prefix(dot + 1);
  }
}

bool is_host_name(std::string_view text) {
  if (text.size() > 253) return false;
  for (;;) {
    const auto dot = text.find('.');
    const auto label = text.substr(0, dot);
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') return false;
    if (!std::ranges::all_of(label, [](char c) { return is_word(c) || c == '-'; })) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

// Moves past one quoted value; the opening quote is at the front.
Result<std::string> take_quoted(std::string_view& rest) {
  std::string value;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    char c = rest[i];
    if (c == '"') {
      rest.remove_prefix(i + 1);
      return value;
    }
    if (c == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\')) c = rest[++i];
    if (is_control(c) && c != '\t') return bad("a quoted value has control characters");
    value += c;
  }
  return bad("a quoted value does not end");
}

std::string take_token(std::string_view& rest) {
  std::size_t length = 0;
  while (length < rest.size() && is_token_character(rest[length])) ++length;
  std::string token(rest.substr(0, length));
  rest.remove_prefix(length);
  return token;
}

Result<void> take_parameter(std::string_view& rest, HeaderValue& header) {
  std::string name = lower(take_token(rest));
  if (name.empty()) return bad("a parameter without a name");
  if (!rest.starts_with('=')) return bad("the parameter " + name + " has no value");
  rest.remove_prefix(1);
  std::string value;
  if (rest.starts_with('"')) {
    HUTCH_TRY(value, take_quoted(rest));
  } else {
    value = take_token(rest);
    if (value.empty()) return bad("the parameter " + name + " has no value");
  }
  if (header.find(name) != nullptr) return bad("the parameter " + name + " comes twice");
  header.parameters.emplace_back(std::move(name), std::move(value));
  return {};
}

}  // namespace

Result<std::string> percent_decode(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c <= ' ' || c > '~')
      return bad("a character that must be percent-encoded");  // a signed char beyond ASCII is < ' '
    if (c != '%') {
      result += c;
      continue;
    }
    const auto high = i + 1 < text.size() ? hex_value(text[i + 1]) : std::nullopt;
    const auto low = i + 2 < text.size() ? hex_value(text[i + 2]) : std::nullopt;
    if (!high || !low) return bad("'%' without two hexadecimal digits");
    const char byte = static_cast<char>(*high << 4 | *low);
    if (byte == '\0') return bad("%00 is not allowed");
    result += byte;
    i += 2;
  }
  return result;
}

std::string percent_encode_path(std::string_view path) {
  return percent_encode(path, [](char c) { return c == '/' || is_unreserved(c); });
}

Result<NamedValues> parse_query(std::string_view query) {
  NamedValues pairs;
  while (!query.empty()) {
    const auto piece = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(piece.size() + 1, query.size()));
    if (piece.empty()) continue;
    if (pairs.size() == kMostQueryPairs) {
      return bad("the query has more than " + std::to_string(kMostQueryPairs) + " parameters");
    }
    const auto equals = piece.find('=');
    const auto decode = [](std::string_view text) {
      std::string spaced(text);
      for (std::size_t i = 0; (i = spaced.find('+', i)) != std::string::npos;) spaced.replace(i, 1, "%20");
      return percent_decode(spaced);
    };
    HUTCH_TRY(std::string name, decode(piece.substr(0, equals)));
    if (name.empty()) return bad("the query has a parameter without a name");
    auto value = decode(equals == std::string_view::npos ? std::string_view{} : piece.substr(equals + 1));
    if (!value) return std::move(value).error().during("query parameter " + printable(name));
    for (const auto& pair : pairs) {
      if (pair.first == name) return bad("the query names " + printable(name) + " twice");
    }
    pairs.emplace_back(std::move(name), std::move(*value));
  }
  return pairs;
}

std::expected<std::optional<ByteRange>, RangeError> parse_range(std::string_view header, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (lower(header.substr(0, kUnit.size())) != kUnit) return std::nullopt;
  const auto range = trim(header.substr(kUnit.size()));
  const auto dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first_text = range.substr(0, dash);
  const auto last_text = range.substr(dash + 1);
  if (first_text.empty()) {  // the last so many bytes
    if (!is_all_digits(last_text)) return std::nullopt;
    const auto length = saturated_number(last_text);
    if (length == 0) return std::unexpected(RangeError::unsatisfiable);
    if (size == 0) return std::nullopt;  // all of nothing, which no Content-Range can say
    return ByteRange{.first = length < size ? size - length : 0, .last = size - 1};
  }
  if (!is_all_digits(first_text) || (!last_text.empty() && !is_all_digits(last_text))) return std::nullopt;
  const auto first = saturated_number(first_text);
  const auto last = last_text.empty() ? std::numeric_limits<std::uint64_t>::max() : saturated_number(last_text);
  if (last < first) return std::nullopt;
  if (first >= size) return std::unexpected(RangeError::unsatisfiable);
  return ByteRange{.first = first, .last = std::min(last, size - 1)};
}

Accepts parse_accept(std::string_view header, Accepts otherwise) {
  // How exactly a client named a type counts more than what it said of a wildcard, even if that is more welcome.
  struct Wish {
    int weight = 0;
    int exactness = 0;  // 1: */*, 2: type/*, 3: type/subtype
    int place = 0;      // in the header
  };
  constexpr std::array<std::string_view, 3> kTypes = {"application/json", "text/event-stream", "application/x-ndjson"};
  std::array<Wish, kTypes.size()> wishes;
  int place = 0;
  for (const auto piece : split_list(header)) {
    ++place;
    const auto range = parse_header_value(piece);
    if (!range) return otherwise;
    const std::string* q = range->find("q");
    const auto weight = q == nullptr ? std::optional(1000) : parse_weight(*q);
    if (!weight) return otherwise;
    for (std::size_t i = 0; i < kTypes.size(); ++i) {
      const auto family = std::string(kTypes[i].substr(0, kTypes[i].find('/'))) + "/*";
      const int exactness = range->value == kTypes[i] ? 3 : range->value == family ? 2 : range->value == "*/*" ? 1 : 0;
      if (exactness > wishes[i].exactness) wishes[i] = {.weight = *weight, .exactness = exactness, .place = place};
    }
  }
  const auto rank = [](const Wish& wish) { return std::tuple(wish.weight, wish.exactness, -wish.place); };
  std::size_t best = static_cast<std::size_t>(otherwise);
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    if (rank(wishes[i]) > rank(wishes[best])) best = i;
  }
  return wishes[best].weight > 0 ? static_cast<Accepts>(best) : otherwise;
}

bool is_loopback_host(std::string_view host_header) {
  const std::string text = lower(host_header);
  std::string_view host = text;
  const auto colon = host.starts_with('[') ? host.find(':', std::min(host.find(']'), host.size())) : host.find(':');
  if (colon != std::string_view::npos) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  if (host == "[::1]" || host == "localhost") return true;
  return is_loopback_address(host) || (host.ends_with(".localhost") && is_host_name(host));
}

std::string html_free_filename(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string name(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
  for (char& c : name) {
    if (is_control(c) || c == '\\') c = '_';
  }
  name = printable(name);  // also takes out what would turn the text around: "exe.txt" for "txt.exe"
  if (name.empty() || name == "." || name == "..") name = "download";
  std::string ascii;
  for (const char c : name) {
    const bool starts_character = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (c >= ' ' && c <= '~' && c != '"' && c != '%') {
      ascii += c;
    } else if (starts_character) {
      ascii += '_';
    }
  }
  std::string value = "attachment; filename=\"" + ascii + "\"";
  if (ascii != name) value += "; filename*=UTF-8''" + percent_encode(name, is_unreserved);
  return value;
}

const std::string* HeaderValue::find(std::string_view name) const {
  for (const auto& [known, text] : parameters) {
    if (known == name) return &text;
  }
  return nullptr;
}

Result<HeaderValue> parse_header_value(std::string_view text) {
  const auto semicolon = text.find(';');
  HeaderValue header{.value = lower(trim(text.substr(0, semicolon))), .parameters = {}};
  const auto slash = header.value.find('/');
  const bool good = is_token(std::string_view(header.value).substr(0, slash)) &&
                    (slash == std::string::npos || is_token(std::string_view(header.value).substr(slash + 1)));
  if (!good) return bad("a header value that is not a word or a media type");
  auto rest = semicolon == std::string_view::npos ? std::string_view{} : text.substr(semicolon);
  while (!rest.empty()) {
    if (!rest.starts_with(';')) return bad("a header value with something between its parameters");
    rest = trim(rest.substr(1));
    if (rest.empty() || rest.starts_with(';')) continue;  // RFC 9110 allows empty ones
    HUTCH_TRY(take_parameter(rest, header));
    rest = trim(rest);
  }
  return header;
}

bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_character); }

bool is_request_id(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  const auto is_plain = [](char c) { return is_word(c) || std::string_view("._-").contains(c); };
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, is_plain);
}

}  // namespace hutch
