// How a message becomes bytes and back. A message is a struct with one function
//     template <class A> void fields(A& a) { a(name), a(size); }
// that Writer and Reader both walk: one schema, two directions. Integers are little-endian and fixed width, text and
// lists carry a 32-bit count. Reader treats every byte as hostile: it never allocates more than the bytes it was given
// could fill, and after the first error every field stays at its default.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hutch::wire {

class Writer {
 public:
  template <class T>
  void operator()(const T& value) {
    put(value);
  }
  [[nodiscard]] std::string take() && { return std::move(bytes_); }

 private:
  template <class T>
    requires std::is_integral_v<T>
  void put(const T& value) {
    using Unsigned = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>;
    auto rest = static_cast<Unsigned>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<char>(rest & 0xff));
      if constexpr (sizeof(T) > 1) rest >>= 8;
    }
  }
  template <class T>
    requires std::is_enum_v<T>
  void put(const T& value) {
    put(static_cast<std::uint8_t>(value));
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const auto& item : list) put(item);
  }
  template <class T>
  void put(const std::optional<T>& maybe) {
    put(static_cast<std::uint8_t>(maybe.has_value()));
    if (maybe) put(*maybe);
  }
  template <class T>
  void put(const std::shared_ptr<const T>& maybe) {
    put(static_cast<std::uint8_t>(maybe != nullptr));
    if (maybe) put(*maybe);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <class T>
    requires std::is_class_v<T>
  void put(const T& message) {
    const_cast<T&>(message).fields(*this);
  }

  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  void operator()(T& value) {
    get(value);
  }
  // True when every field was there and no byte is left over.
  [[nodiscard]] bool complete() const { return !failed_ && rest_.empty(); }

 private:
  template <class T>
    requires std::is_integral_v<T>
  void get(T& value) {
    if (failed_ || rest_.size() < sizeof(T)) return fail();
    using Unsigned = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>;
    Unsigned result = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) {
      if constexpr (sizeof(T) > 1) result <<= 8;
      result = static_cast<Unsigned>(result | static_cast<unsigned char>(rest_[i]));
    }
    rest_.remove_prefix(sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      if (result > 1) return fail();
      value = result == 1;
    } else {
      value = static_cast<T>(result);
    }
  }
  // An enum on the wire names its last enumerator as `last`.
  template <class T>
    requires std::is_enum_v<T>
  void get(T& value) {
    std::uint8_t number = 0;
    get(number);
    if (failed_) return;
    if (number > static_cast<std::uint8_t>(T::last)) return fail();
    value = static_cast<T>(number);
  }
  void get(std::string& text) {
    std::uint32_t size = 0;
    get(size);
    if (failed_ || rest_.size() < size) return fail();
    text.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  template <class T>
  void get(std::vector<T>& list) {
    std::uint32_t count = 0;
    get(count);
    if (failed_ || count > rest_.size()) return fail();  // every item takes at least one byte
    list.clear();
    for (std::uint32_t i = 0; i < count && !failed_; ++i) get(list.emplace_back());
  }
  template <class T>
  void get(std::optional<T>& maybe) {
    bool present = false;
    get(present);
    if (failed_ || !present) return maybe.reset();
    get(maybe.emplace());
  }
  template <class T>
  void get(std::shared_ptr<const T>& maybe) {
    bool present = false;
    get(present);
    if (failed_ || !present) return maybe.reset();
    const auto made = std::make_shared<T>();
    get(*made);
    maybe = made;
  }
  template <class A, class B>
  void get(std::pair<A, B>& pair) {
    get(pair.first);
    get(pair.second);
  }
  template <class T>
    requires std::is_class_v<T>
  void get(T& message) {
    if (!failed_) message.fields(*this);
  }
  void fail() { failed_ = true; }

  std::string_view rest_;
  bool failed_ = false;
};

template <class T>
std::string encode(const T& message) {
  Writer writer;
  writer(message);
  return std::move(writer).take();
}

template <class T>
Result<T> decode(std::string_view bytes) {
  T message{};
  Reader reader{bytes};
  reader(message);
  if (!reader.complete()) return make_error(ErrorCode::protocol, "malformed message");
  return message;
}

}  // namespace hutch::wire
