#include "api/multipart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hutch {
namespace {

struct Part {
  PartBegin head;
  std::string data;
};
struct Form {
  std::vector<Part> parts;
  std::string error;  // empty: well-formed
};

// Takes every event there is.
void drain(MultipartParser& parser, Form& form) {
  while (form.error.empty()) {
    auto event = parser.next();
    if (!event) {
      form.error = event.error().message;
    } else if (!*event) {
      return;
    } else if (auto* begin = std::get_if<PartBegin>(&**event)) {
      form.parts.push_back({.head = std::move(*begin), .data = {}});
    } else if (const auto* data = std::get_if<PartData>(&**event)) {
      EXPECT_FALSE(data->bytes.empty());
      form.parts.back().data += data->bytes;
    }
  }
}

Form parse_pieces(const std::vector<std::string_view>& pieces,
                  std::string_view content_type = "multipart/form-data; boundary=XX") {
  Form form;
  auto parser = MultipartParser::from_content_type(content_type);
  if (!parser) return {.parts = {}, .error = parser.error().message};
  for (const auto piece : pieces) {
    parser->feed(piece);
    drain(*parser, form);
  }
  if (const auto finished = parser->finish(); !finished && form.error.empty()) form.error = finished.error().message;
  return form;
}

Form parse(std::string_view body) { return parse_pieces({body}); }

// One part with these header lines (each with its line end) and this content.
std::string body_with(std::string_view headers, std::string_view content = "x") {
  return "--XX\r\n" + std::string(headers) + "\r\n" + std::string(content) + "\r\n--XX--\r\n";
}
std::string named(std::string_view parameters) {
  return body_with("Content-Disposition: form-data; " + std::string(parameters) + "\r\n");
}

const std::string kBody =
    "--XX\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n"
    "--XX\r\ncontent-disposition: FORM-DATA; name=f; filename=\"a.bin\"\r\nContent-Type: text/csv; x=y\r\n\r\n"
    "\r\n--X\r\r\n-\r\n--\r\n\n--XX\r\n\r\n--XX\r\nContent-Disposition: form-data; "
    "name=\"empty\"\r\n\r\n\r\n--XX--\r\n";

void expect_body(const Form& form) {
  ASSERT_EQ(form.error, "");
  ASSERT_EQ(form.parts.size(), 3U);
  EXPECT_EQ(form.parts[0].head.name, "note");
  EXPECT_EQ(form.parts[0].head.file_name, std::nullopt);
  EXPECT_EQ(form.parts[0].head.content_type, "");
  EXPECT_EQ(form.parts[0].data, "hello");
  EXPECT_EQ(form.parts[1].head.name, "f");
  EXPECT_EQ(form.parts[1].head.file_name, "a.bin");
  EXPECT_EQ(form.parts[1].head.content_type, "text/csv; x=y");
  EXPECT_EQ(form.parts[1].data, "\r\n--X\r\r\n-\r\n--\r\n\n--XX\r\n");
  EXPECT_EQ(form.parts[2].head.name, "empty");
  EXPECT_EQ(form.parts[2].data, "");
}

TEST(Multipart, ReadsFieldsFilesAndEmptyParts) { expect_body(parse(kBody)); }

TEST(Multipart, TheSameBodyCutAtAnyTwoPlacesGivesTheSameParts) {
  const std::string_view body = kBody;
  for (std::size_t first = 0; first <= body.size(); ++first) {
    for (std::size_t second = first; second <= body.size(); ++second) {
      expect_body(parse_pieces({body.substr(0, first), body.substr(first, second - first), body.substr(second)}));
      if (HasFatalFailure()) FAIL() << "cut at " << first << " and " << second;
    }
  }
}

TEST(Multipart, TheSameBodyInPiecesOfAnySizeGivesTheSameParts) {
  for (std::size_t size = 1; size <= kBody.size(); ++size) {
    std::vector<std::string_view> pieces;
    for (std::size_t i = 0; i < kBody.size(); i += size) pieces.push_back(std::string_view(kBody).substr(i, size));
    expect_body(parse_pieces(pieces));
    if (HasFatalFailure()) FAIL() << "in pieces of " << size;
  }
}

TEST(Multipart, EveryBodyThatEndsTooEarlyIsAnError) {
  for (std::size_t size = 0; size < kBody.size() - 2; ++size) {  // the last line end may be missing
    EXPECT_NE(parse(std::string_view(kBody).substr(0, size)).error, "") << size;
  }
  EXPECT_EQ(parse(std::string_view(kBody).substr(0, kBody.size() - 2)).error, "");
  EXPECT_NE(parse(std::string_view(kBody).substr(0, kBody.size() - 1)).error, "");
  EXPECT_EQ(parse("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nhal").error,
            "multipart: the body ends before its closing boundary");
}

TEST(Multipart, AMistakeIsTheSameMistakeWhereverTheBodyIsCut) {
  for (const auto& body : {named("filename=x"), kBody + "more", "preamble\r\n" + kBody, "--XX\n" + kBody,
                           body_with("Content-Disposition: form-data; name=a\r\n folded\r\n")}) {
    const auto whole = parse(body);
    ASSERT_NE(whole.error, "");
    for (std::size_t cut = 0; cut <= body.size(); ++cut) {
      const auto form = parse_pieces({std::string_view(body).substr(0, cut), std::string_view(body).substr(cut)});
      EXPECT_EQ(form.error, whole.error);
      EXPECT_EQ(form.parts.size(), whole.parts.size());
    }
  }
}

TEST(Multipart, GivesDataOnAsSoonAsItCannotBeABoundary) {
  auto parser = MultipartParser::from_content_type("multipart/form-data; boundary=XX");
  ASSERT_TRUE(parser);
  parser->feed("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n");
  Form form;
  drain(*parser, form);
  for (const char c : std::string("abc\r\n--XYZ")) {
    parser->feed({&c, 1});
    drain(*parser, form);
  }
  ASSERT_EQ(form.parts.size(), 1U);
  EXPECT_EQ(form.parts[0].data, "abc\r\n--XYZ");
}

TEST(Multipart, HoldsBackLessThanABoundaryOfWhatItWasFed) {
  for (const std::string piece : {"\r\r\r", "\r\n--X", "\r\n--X\r\n--X\r", "\r\n\r\n-", "-", "plain"}) {
    auto parser = MultipartParser::from_content_type("multipart/form-data; boundary=XX");
    ASSERT_TRUE(parser);
    parser->feed("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n");
    Form form;
    drain(*parser, form);
    for (std::size_t fed = piece.size(); fed < 1000; fed += piece.size()) {
      parser->feed(piece);
      drain(*parser, form);
      ASSERT_EQ(form.error, "");
      EXPECT_GT(form.parts.at(0).data.size() + std::string_view("\r\n--XX").size(), fed);
    }
  }
}

TEST(Multipart, UnderstandsQuotesAsProgramsAndBrowsersWriteThem) {
  EXPECT_EQ(parse(named(R"(name="a\"b")")).parts.at(0).head.name, "a\"b");
  EXPECT_EQ(parse(named(R"(name="a%22b")")).parts.at(0).head.name, "a\"b");
  EXPECT_EQ(parse(named(R"(name="a\\b\c")")).parts.at(0).head.name, R"(a\b\c)");
  EXPECT_EQ(parse(named(R"(name="a;b=c, d")")).parts.at(0).head.name, "a;b=c, d");
  EXPECT_EQ(parse(named(R"(name="100%25%0A%0d")")).parts.at(0).head.name, "100%25%0A%0d");
  EXPECT_EQ(parse(named("name=a; filename=\"日本.txt\"")).parts.at(0).head.file_name, "日本.txt");
  EXPECT_EQ(parse(named("name=a; filename=\"\"")).parts.at(0).head.file_name, "");
}

TEST(Multipart, DoesNotLookAtTheExtendedFileName) {
  const auto form = parse(named("name=a; filename=plain; filename*=UTF-8''other"));
  ASSERT_EQ(form.error, "");
  EXPECT_EQ(form.parts.at(0).head.file_name, "plain");
  EXPECT_EQ(parse(named("name=a; filename*=UTF-8''other")).parts.at(0).head.file_name, std::nullopt);
}

TEST(Multipart, SaysWhatIsWrongWithAPart) {
  const auto error = [](const std::string& body) { return parse(body).error; };
  EXPECT_EQ(error(named("filename=x")), "multipart: a part has no name");
  EXPECT_EQ(error(named("name=a; name=b")), "multipart: Content-Disposition: the parameter name comes twice");
  EXPECT_EQ(error(named("name=\"a")), "multipart: Content-Disposition: a quoted value does not end");
  EXPECT_EQ(error(named("name=\"\xff\"")), "multipart: the name of a part is not UTF-8");
  EXPECT_EQ(error(named("name=a; filename=\"\t\"")), "multipart: the file name of a part has control characters");
  EXPECT_EQ(error(body_with("Content-Type: a/b\r\n")), "multipart: a part has no Content-Disposition header");
  EXPECT_EQ(error(body_with("")), "multipart: a part has no headers");
  EXPECT_EQ(error(body_with("Content-Disposition: attachment; name=a\r\n")),
            "multipart: Content-Disposition of a part must be form-data");
  const std::string good = "Content-Disposition: form-data; name=a\r\n";
  EXPECT_EQ(error(body_with(good + good)), "multipart: a part has two Content-Disposition headers");
  EXPECT_EQ(error(body_with(good + "Content-Type: a/b\r\ncontent-type: a/b\r\n")),
            "multipart: a part has two Content-Type headers");
  EXPECT_EQ(error(body_with(good + "Content-Transfer-Encoding: base64\r\n")),
            "multipart: a part has a Content-Transfer-Encoding; send its bytes as they are");
  EXPECT_EQ(error(body_with(good + "Content-Transfer-Encoding: Binary\r\n")), "");
  EXPECT_EQ(error(body_with(good + " folded: line\r\n")), "multipart: a part's header is not 'name: value'");
  EXPECT_EQ(error(body_with(good + "X: a\nY: b\r\n")),
            "multipart: a part's header has control characters, or a line does not end in CR LF");
  EXPECT_EQ(error(body_with(good + std::string("X: \0\r\n", 6))),
            "multipart: a part's header has control characters, or a line does not end in CR LF");
}

TEST(Multipart, SaysWhatIsWrongBetweenParts) {
  EXPECT_EQ(parse("preamble\r\n" + kBody).error,
            "multipart: the body does not begin with the boundary that Content-Type names");
  EXPECT_EQ(parse("--XY\r\n").error, "multipart: the body does not begin with the boundary that Content-Type names");
  EXPECT_EQ(parse(kBody + "more").error, "multipart: there are bytes after the closing boundary");
  EXPECT_EQ(parse("--XX--more").error, "multipart: there are bytes after the closing boundary");
  EXPECT_EQ(parse(body_with("Content-Disposition: form-data; name=a\r\n", "x\r\n--XXY\r\n")).error,
            "multipart: a boundary is followed by something that is not a line end");
}

TEST(Multipart, TakesWhatTheStandardAllowsAroundBoundaries) {
  expect_body(parse("\r\n" + kBody));
  EXPECT_EQ(parse("--XX--").error, "");
  EXPECT_EQ(parse("--XX-- \t\r\n").error, "");
  EXPECT_EQ(parse("--XX \t\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XX--").parts.at(0).data, "x");
}

TEST(Multipart, AnErrorStays) {
  auto parser = MultipartParser::from_content_type("multipart/form-data; boundary=XX");
  ASSERT_TRUE(parser);
  parser->feed("nonsense");
  EXPECT_FALSE(parser->next());
  parser->feed(kBody);
  EXPECT_FALSE(parser->next());
  EXPECT_FALSE(parser->finish());
}

TEST(Multipart, PartsAreCounted) {
  const std::string part = "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n";
  std::string body;
  for (std::size_t i = 0; i < kMostParts; ++i) body += part;
  EXPECT_EQ(parse(body + "--XX--").parts.size(), kMostParts);
  EXPECT_EQ(parse(body + "--XX--").error, "");
  EXPECT_EQ(parse(body + part + "--XX--").error, "multipart: more than 1000 parts");
}

TEST(Multipart, HeadersOfAPartAreMeasured) {
  const std::string start = "Content-Disposition: form-data; name=a\r\nX: ";
  const std::string longest = start + std::string(kMostPartHeaders - start.size() - 4, 'x') + "\r\n";
  EXPECT_EQ(parse(body_with(longest)).error, "");
  EXPECT_EQ(parse(body_with("X" + longest)).error, "multipart: a part's headers are longer than 8192 bytes");
  // Without an end in sight, as well.
  EXPECT_EQ(parse("--XX\r\n" + std::string(kMostPartHeaders, 'x')).error,
            "multipart: a part's headers are longer than 8192 bytes");
}

TEST(Multipart, TheBoundaryMustBeOneThatTheStandardAllows) {
  const auto error = [](std::string_view type) {
    const auto parser = MultipartParser::from_content_type(type);
    return parser ? "" : parser.error().message;
  };
  const std::string prefix = "multipart/form-data; boundary=";
  EXPECT_EQ(error("Multipart/Form-Data;charset=utf-8;BOUNDARY=x"), "");
  EXPECT_EQ(error(prefix + std::string(70, 'x')), "");
  EXPECT_EQ(error(prefix + R"("a b'()+_,-./:=?c")"), "");
  EXPECT_EQ(error(prefix + std::string(71, 'x')), "multipart: the boundary must have 1 to 70 characters");
  EXPECT_EQ(error(prefix + "\"\""), "multipart: the boundary must have 1 to 70 characters");
  EXPECT_EQ(error(prefix + "\"a \""), "multipart: the boundary has characters that RFC 2046 does not allow there");
  EXPECT_EQ(error(prefix + "a*b"), "multipart: the boundary has characters that RFC 2046 does not allow there");
  EXPECT_EQ(error(prefix), "multipart: Content-Type: the parameter boundary has no value");
  EXPECT_EQ(error(prefix + "a; boundary=b"), "multipart: Content-Type: the parameter boundary comes twice");
  EXPECT_EQ(error("multipart/form-data"), "multipart: Content-Type has no boundary");
  EXPECT_EQ(error("multipart/mixed; boundary=x"), "multipart: Content-Type must be multipart/form-data");
  EXPECT_NE(error(""), "");
}

TEST(Multipart, ABoundaryOfDashesIsReadRight) {
  const auto form = parse_pieces({"------\r\nContent-Disposition: form-data; name=a\r\n\r\n--\r\n-----\r\n--------"},
                                 "multipart/form-data; boundary=----");
  EXPECT_EQ(form.error, "");
  ASSERT_EQ(form.parts.size(), 1U);
  EXPECT_EQ(form.parts[0].data, "--\r\n-----");
}

}  // namespace
}  // namespace hutch
