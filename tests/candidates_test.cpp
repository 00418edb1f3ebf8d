// SPDX-License-Identifier: Apache-2.0
//
// Which configs a search tries, on small made-up spaces.
#include "tuner/candidates.h"

#include "kernel_templates/catalog.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace rowsmith {
namespace {

TEST(ChooseCandidates, KeepsRankTheDefaultAndAPlaceForEachFamily) {
  const Config a1{"a", {{"n", "1"}}}, a2{"a", {{"n", "2"}}}, a3{"a", {{"n", "3"}}},
      b1{"b", {{"n", "1"}}}, generic = generic_config();
  const std::vector<Config> ranked{a1, a2, a3, b1, generic};
  const Candidates three = choose_candidates(ranked, a2, {3});
  EXPECT_EQ(three.configs, (std::vector<Config>{a1, a2, b1}));
  EXPECT_EQ(three.default_index, 1u);
  EXPECT_EQ(choose_candidates(ranked, a1, {1}).configs, std::vector<Config>{a1});
  EXPECT_EQ(choose_candidates(ranked, a1, {100}).configs, ranked);
  EXPECT_EQ(choose_candidates({b1}, generic, {2}).configs, (std::vector<Config>{generic, b1}));
}

// Five kinds of four configs each, those of a kind side by side.
std::vector<Config> five_kinds() {
  std::vector<Config> ranked;
  for (const char* threads : {"1", "2", "3", "4", "5"}) {
    for (const char* load : {"nc", "cs"}) {
      for (const char* min_blocks : {"1", "2"}) {
        ranked.push_back({"a", {{"threads", threads}, {"min_blocks", min_blocks}, {"load", load}}});
      }
    }
  }
  return ranked;
}

TEST(ChooseCandidates, TakesTheBestOfEachKindBeforeTheRest) {
  const std::vector<Config> ranked = five_kinds();
  const std::vector<Config> expected{ranked[0], ranked[1],  ranked[4],
                                     ranked[8], ranked[12], ranked[16]};
  EXPECT_EQ(choose_candidates(ranked, ranked[0], {6}).configs, expected);  // 1: by rank alone
  EXPECT_EQ(choose_candidates(ranked, ranked[0], {11}).configs.size(), 11u);
}

TEST(ChooseCandidates, FillsHalfOfThePlacesWhereTheSecondsRunOut) {
  const std::vector<Config> ranked = five_kinds();
  const auto second = [](const Config&) { return 1.0; };
  EXPECT_EQ(choose_candidates(ranked, ranked[0], {11, 2, second}).configs.size(), 6u);
  EXPECT_EQ(choose_candidates(ranked, ranked[0], {11, 8, second}).configs.size(), 8u);
  const std::size_t any = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(choose_candidates(ranked, ranked[0], {any, 2, second}).configs, ranked);
}

TEST(ChooseCandidates, FillsAllPlacesWithCheapOnes) {
  const std::vector<Config> ranked = five_kinds();
  const auto tenth = [](const Config&) { return 0.1; };
  EXPECT_EQ(choose_candidates(ranked, ranked[0], {11, 2, tenth}).configs.size(), 11u);
}

TEST(ChooseNear, TakesWhatIsApartInOneAxisTheFastestsFirst) {
  const std::vector<Config> ranked = five_kinds();
  // threads=3,nc,1 and threads=1,nc,1: half the places to the first.
  const std::vector<Config> near =
      choose_near(ranked, {ranked[0], ranked[8]}, {ranked[8], ranked[0]}, {4});
  EXPECT_EQ(near, (std::vector<Config>{ranked[4], ranked[9], ranked[1], ranked[2]}));
}

TEST(ChooseNear, GivesPlacesThatStayFreeToTheNext) {
  const std::vector<Config> ranked = five_kinds();
  std::vector<Config> tried(ranked.begin() + 4, ranked.end());  // all but the first kind
  tried.push_back(ranked[0]);
  const std::vector<Config> near = choose_near(ranked, tried, {ranked[16], ranked[0]}, {8});
  EXPECT_EQ(near, (std::vector<Config>{ranked[1], ranked[2]}));  // 3 is apart in two
}

TEST(ChooseNear, CountsBothPoliciesAsOne) {
  const Config a{"a", {{"n", "1"}, {"load", "nc"}, {"store", "cs"}}},
      b{"a", {{"n", "1"}, {"load", "cs"}, {"store", "default"}}},
      c{"a", {{"n", "2"}, {"load", "cs"}, {"store", "cs"}}}, d{"b", a.params};
  EXPECT_EQ(choose_near({a, b, c, d}, {a}, {a}, {5}), std::vector<Config>{b});
}

TEST(ChooseNear, NeedsNoneToBeNear) {
  EXPECT_TRUE(choose_near(five_kinds(), {}, {}, {5}).empty());
  EXPECT_TRUE(choose_near({}, {}, {generic_config()}, {5}).empty());
}

TEST(ChooseCandidates, TakesThoseToKeepBesideTheCapWhereTheyAreRanked) {
  const Config a1{"a", {{"n", "1"}}}, a2{"a", {{"n", "2"}}}, a3{"a", {{"n", "3"}}},
      b1{"b", {{"n", "1"}}}, other{"c", {{"n", "1"}}};
  const std::vector<Config> ranked{a1, a2, a3, b1};
  const Candidates kept = choose_candidates(ranked, a1, {2}, {a3, other});
  EXPECT_EQ(kept.configs, (std::vector<Config>{a1, a3, b1}));
  EXPECT_EQ(kept.kept, std::vector<std::size_t>{1});
  const Candidates shifted = choose_candidates({a2, a3}, a1, {2}, {a3});  // the default comes first
  EXPECT_EQ(shifted.configs, (std::vector<Config>{a1, a2, a3}));
  EXPECT_EQ(shifted.kept, std::vector<std::size_t>{2});
}

}  // namespace
}  // namespace rowsmith
