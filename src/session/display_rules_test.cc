#include "session/display_rules.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

using Items = std::vector<std::pair<std::string, std::string>>;

Items tidied(Items items) {
  wire::Display display{.items = std::move(items)};
  tidy_display(display);
  return display.items;
}

TEST(DisplayRules, KeepsWhatIsListedAndDropsTheRest) {
  EXPECT_EQ(tidied({{"text/plain", "a"}, {"text/x-own", "b"}, {"application/x-sh", "c"}}),
            (Items{{"text/plain", "a"}}));
  EXPECT_EQ(tidied({{"TEXT/PLAIN", "a"}, {"text/plain; charset=x", "b"}, {"", "c"}}), Items{});
}

TEST(DisplayRules, EachTypeOnce) {
  EXPECT_EQ(tidied({{"text/plain", "first"}, {"text/plain", "second"}}), (Items{{"text/plain", "first"}}));
}

TEST(DisplayRules, TextBecomesValidUtf8) {
  EXPECT_EQ(tidied({{"text/html", "a\xff z"}}), (Items{{"text/html", "a\xEF\xBF\xBD z"}}));
}

TEST(DisplayRules, JsonThatIsNotTextIsDropped) { EXPECT_EQ(tidied({{"application/json", "\"\xff\""}}), Items{}); }

TEST(DisplayRules, PicturesMustBeginAsSuch) {
  const std::string png = "\x89PNG\r\n\x1a\n rest";
  EXPECT_EQ(tidied({{"image/png", png}}), (Items{{"image/png", png}}));
  EXPECT_EQ(tidied({{"image/png", "<svg/>"}, {"image/jpeg", png}, {"image/gif", ""}, {"application/pdf", "PDF"}}),
            Items{});
  EXPECT_EQ(tidied({{"image/gif", "GIF89a.."}}).size(), 1U);
}

TEST(DisplayRules, ADisplayOfNothingIsNone) {
  wire::Display display{.items = {{"text/x-own", "b"}}};
  EXPECT_FALSE(tidy_display(display));
  wire::Display clear{.kind = wire::DisplayKind::clear};
  EXPECT_TRUE(tidy_display(clear));
}

TEST(DisplayRules, ChangesAreBounded) {
  wire::Changes changes{.directory = std::string(10'000, 'd'), .packages = std::vector<std::string>(5'000, "p 1")};
  changes.variables.assign(5'000, {.name = std::string(5'000, 'n')});
  const auto tidy = tidy_changes(std::move(changes));
  EXPECT_TRUE(tidy.more);
  EXPECT_EQ(tidy.variables.size(), 100U);
  EXPECT_EQ(tidy.variables[0].name.size(), 512U);
  EXPECT_EQ(tidy.packages.size(), 100U);
  EXPECT_EQ(tidy.directory.size(), 4'096U);
}

wire::Display shown(wire::DisplayKind kind, std::string id, std::size_t bytes, char filler = 'x') {
  return {.kind = kind, .id = std::move(id), .items = {{"text/plain", std::string(bytes, filler)}}};
}

TEST(DisplayBudget, EndsAtSoManyAndAtSoMuch) {
  DisplayBudget many;
  for (std::size_t i = 0; i < DisplayCaps{}.count; ++i) {
    EXPECT_TRUE(many.take(shown(wire::DisplayKind::display, "", 1)));
  }
  EXPECT_FALSE(many.truncated());
  EXPECT_FALSE(many.take(shown(wire::DisplayKind::display, "", 1)));
  EXPECT_TRUE(many.truncated());
  EXPECT_EQ(many.left_out(), 1U);
  DisplayBudget much;
  EXPECT_TRUE(much.take(shown(wire::DisplayKind::display, "", 11U << 20)));
  EXPECT_FALSE(much.take(shown(wire::DisplayKind::display, "", 2U << 20)));
  EXPECT_FALSE(much.take(shown(wire::DisplayKind::display, "", 1)));
  EXPECT_EQ(much.left_out(), 2U);
}

TEST(DisplayBudget, AnUpdateCostsAsOftenAsItIsSeen) {
  DisplayBudget budget;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(budget.take(shown(wire::DisplayKind::display, "a", 1)));
  EXPECT_TRUE(budget.take(shown(wire::DisplayKind::update, "b", 1U << 20)));
  EXPECT_TRUE(budget.take(shown(wire::DisplayKind::update, "a", 50U << 10)));
  EXPECT_FALSE(budget.take(shown(wire::DisplayKind::update, "a", 1U << 20)));
  EXPECT_TRUE(budget.truncated());
}

TEST(DisplayBudget, WhatWasClearedIsNotUpdated) {
  for (const bool wait : {false, true}) {
    DisplayBudget budget;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(budget.take(shown(wire::DisplayKind::display, "a", 1)));
    EXPECT_TRUE(budget.take({.kind = wire::DisplayKind::clear, .wait = wait}));
    EXPECT_TRUE(budget.take(shown(wire::DisplayKind::display, "a", 1)));
    EXPECT_TRUE(budget.take(shown(wire::DisplayKind::update, "a", 1U << 20)));
  }
}

TEST(DisplayBudget, ControlCharactersCostWhatTheyAreInJson) {
  DisplayBudget budget;
  EXPECT_TRUE(budget.take(shown(wire::DisplayKind::display, "", 1U << 20, '\x01')));
  EXPECT_FALSE(budget.take(shown(wire::DisplayKind::display, "", 1U << 20, '\x01')));
  DisplayBudget plain;
  EXPECT_TRUE(plain.take(shown(wire::DisplayKind::display, "", 5U << 20, '\n')));
}

TEST(DisplayRules, IdAndMetadataAreBounded) {
  wire::Display display{.id = std::string(255, 'a') + "\xE2\x82\xAC",
                        .items = {{"text/plain", "a"}},
                        .metadata = std::string(70'000, ' ')};
  EXPECT_TRUE(tidy_display(display));
  EXPECT_EQ(display.id, std::string(255, 'a'));
  EXPECT_TRUE(display.metadata.empty());
}

}  // namespace
}  // namespace hutch
