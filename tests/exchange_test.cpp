// SPDX-License-Identifier: Apache-2.0
//
// The export document: canonical, strict JSON, refused whole when it is not itself and record by
// record when a record is not.
#include "cache/binary_store.h"
#include "cache/record_json.h"
#include "tests/support/cache_fixture.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace rowsmith {
namespace {

using nlohmann::json;

std::vector<WinnerRecord> some_records() {
  return {record_of(problem_of(4, 257)), record_of(problem_of(4096, 1000), 81234, kDeviceB),
          record_of(problem_of(1, 50257, DType::kBF16, DType::kF32), 1)};
}

// The document with its records changed and its checksum set right again.
std::string with_records(const std::function<void(json&)>& change) {
  json document = json::parse(export_winners(some_records()));
  change(document["winners"]);
  std::vector<std::string> lines;
  for (const json& winner : document["winners"]) lines.push_back(canonical_text(winner));
  document["checksum"] = digest_of({lines.begin(), lines.end()});
  return document.dump();
}

std::string refusal(const std::string& text) {
  const auto parsed = parse_export(text, {});
  EXPECT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
  return parsed.status().message();
}

std::vector<std::string> refused_records(const std::string& text) {
  const auto parsed = parse_export(text, {});
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return parsed.ok() ? parsed->refused : std::vector<std::string>();
}

TEST(Exchange, GivesBackWhatItExported) {
  const std::string text = export_winners(some_records());
  const auto parsed = parse_export(text, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->records.size(), 3u);
  EXPECT_TRUE(parsed->refused.empty());
  EXPECT_EQ(export_winners(parsed->records), text);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Exchange, IsByteIdenticalForEqualContentInAnyOrder) {
  std::vector<WinnerRecord> records = some_records();
  const std::string text = export_winners(records);
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    std::shuffle(records.begin(), records.end(), random);
    EXPECT_EQ(export_winners(records), text);
  }
}

TEST(Exchange, HasOneHeaderWhateverWasTuned) {
  const auto header = [](const std::vector<WinnerRecord>& records) {
    json document = json::parse(export_winners(records));
    document.erase("winners");
    document["checksum"] = "";
    return document.dump();
  };
  const std::string f16 = header({record_of(problem_of(4, 257, DType::kF16, DType::kF16))});
  EXPECT_EQ(f16, header({record_of(problem_of(4, 257, DType::kF32, DType::kF32), 5, kDeviceB)}));
  EXPECT_EQ(f16, header({}));
}

TEST(Exchange, WritesNullForNumbersThatAreNotFinite) {
  Evidence evidence;
  evidence.error_ratio = std::numeric_limits<double>::quiet_NaN();
  evidence.max_error_ulp = -std::numeric_limits<double>::infinity();
  const json value = json::parse(evidence_to_json(evidence));
  EXPECT_TRUE(value.at("error_ratio").is_null());
  EXPECT_TRUE(value.at("max_error_ulp").is_null());
  const auto read = evidence_from_json(value.dump());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->error_ratio, 0);
  WinnerRecord record = record_of(problem_of(4, 257));
  record.evidence.error_ratio = evidence.error_ratio;
  EXPECT_TRUE(json::accept(export_winners({record})));
}

TEST(Exchange, KeepsTimesBelowAMicrosecondWhole) {
  const auto parsed = parse_export(export_winners({record_of(problem_of(1, 1), 1)}), {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->records.at(0).evidence.median_ns, 1);
}

TEST(Exchange, RefusesARecordWithoutATime) {
  for (const json& time : {json(0), json(-3), json(nullptr)}) {
    const auto refused = refused_records(
        with_records([&](json& winners) { winners[1]["evidence"]["median_ns"] = time; }));
    ASSERT_EQ(refused.size(), 1u) << time;
    EXPECT_NE(refused[0].find("record 2"), std::string::npos);
    EXPECT_NE(refused[0].find("no time"), std::string::npos);
  }
}

TEST(Exchange, RefusesARecordOfWrongKindsAlone) {
  const std::pair<const char*, json> wrong[] = {{"rows", 4.5},
                                                {"rows", 18446744073709551615u},
                                                {"in", "f17"},
                                                {"layout", "src=3"},
                                                {"config", ":"},
                                                {"op", "layernorm"},
                                                {"cols", nullptr},
                                                {"evidence", "text"},
                                                {"evidence", {{"driver_version", 1e10}}},
                                                {"evidence", {{"driver_version", 3000000000}}}};
  for (const auto& [field, value] : wrong) {
    const auto refused = refused_records(
        with_records([&, f = field, v = value](json& winners) { winners[0][f] = v; }));
    EXPECT_EQ(refused.size(), 1u) << field << " = " << value;
  }
}

// As a build wrote it that knew no neighbours.
constexpr const char* kOlderExport =
    R"({"checksum":"7fcaba0e02591a59a599dcf15d1b8f63","format":"rowsmith-winners","version":1,"winners":[
{"cols":257,"config":"block_row:threads=256,pack=8,load=nc","device_class":"cuda-sm90-132sm-l2:62914560-bus6144-mem3201000","evidence":{"candidates":0,"compiler":"nvrtc 13.0","contended":false,"default_config":"warp_rows:lanes=32","default_ns":3000,"device_name":"NVIDIA Invented 9000","device_uuid":"GPU-1","driver_version":13000,"effort":"standard","error_ratio":0.21,"floor_ns":0,"max_error_ulp":0.0,"median_ns":1500,"policy":"","rejected":0,"runner_up":"","runner_up_ns":0,"samples":41,"spread_ns":3,"tool_version":"","tuned_at":1790000000,"verdict":"winner"},"family_digest":"0123456789abcdef0123456789abcdef","in":"f16","layout":"src=2,dst=2,co=32","op":"softmax","out":"f16","rows":4}
]}
)";

TEST(Exchange, ReadsAndWritesWhatAnEarlierBuildExported) {
  const auto parsed = parse_export(kOlderExport, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  ASSERT_EQ(parsed->records.size(), 1u);
  EXPECT_EQ(parsed->records[0].evidence.below.rows, 0);
  EXPECT_EQ(parsed->records[0].evidence.above.ratio, 0);
  EXPECT_EQ(export_winners(parsed->records), kOlderExport);
}

TEST(Exchange, CarriesWhatReuseCosts) {
  WinnerRecord record = record_of(problem_of(64, 257));
  record.evidence.below = {4, "warp_rows:lanes=32", 1.25};
  record.evidence.above = {4096, "block_row:threads=256", 0};  // known, not measured
  const auto parsed = parse_export(export_winners({record}), {});
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  const Evidence& read = parsed->records.at(0).evidence;
  EXPECT_EQ(read.below.rows, 4);
  EXPECT_EQ(read.below.config, "warp_rows:lanes=32");
  EXPECT_EQ(read.below.ratio, 1.25);
  EXPECT_EQ(read.above.rows, 4096);
  EXPECT_EQ(read.above.config, "block_row:threads=256");
  EXPECT_EQ(read.above.ratio, 0);
}

TEST(Exchange, LetsTheCheckRefuseRecords) {
  const auto parsed = parse_export(export_winners(some_records()), [](const WinnerRecord& record) {
    return std::string(record.device_class == kDeviceB ? "no family 'block_row'" : "");
  });
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->records.size(), 2u);
  ASSERT_EQ(parsed->refused.size(), 1u);
  EXPECT_NE(parsed->refused[0].find("no family 'block_row'"), std::string::npos);
  EXPECT_NE(parsed->refused[0].find("4096 x 1000"), std::string::npos);
}

TEST(Exchange, RefusesTextThatIsNoDocument) {
  for (const char* text : {"", "{", "[]", "{}", "null", "{\"format\":\"rowsmith-winners\"}",
                           "{\"format\":\"rowsmith-winners\",\"version\":1,\"winners\":{}}"}) {
    EXPECT_NE(refusal(text).find("not a rowsmith export"), std::string::npos) << text;
  }
}

TEST(Exchange, SaysOfBrokenJsonWhatAndWhere) {
  EXPECT_EQ(refusal("{\n\"a\":").find("not a rowsmith export: parse error at line 2, column 5"), 0u)
      << refusal("{\n\"a\":");
}

TEST(Exchange, RefusesNestingThatNoStackHolds) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {"{\"format\":\"rowsmith-winners\",\"version\":1,\"checksum\":\"\",\"winners\":[" + deep +
            "]}",
        "{\"format\":\"rowsmith-winners\",\"version\":1,\"winners\":[],\"checksum\":" + deep +
            "}"}) {
    EXPECT_NE(refusal(text).find("nested deeper than 100 levels"), std::string::npos);
  }
}

TEST(Exchange, RefusesTextThatATerminalWouldObey) {
  for (const char* text : {"\x1b[31mred", "two\nlines", "\x7f",
                           "\xc2\x9b"
                           "31m"}) {
    std::vector<WinnerRecord> records = some_records();
    records[0].evidence.verdict = text;
    records[1].device_class = text;
    const auto parsed = parse_export(export_winners(records), {});
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(parsed->refused.size(), 2u) << text;
    EXPECT_EQ(parsed->records.size(), records.size() - 2);
  }
}

TEST(Exchange, RefusesNumbersThatJsonDoesNotKnowAndSaysWhere) {
  std::string text = export_winners(some_records());
  const std::size_t at = text.find("0.21");
  EXPECT_NE(refusal(text.substr(0, at) + "-nan" + text.substr(at + 4)).find("line 2, column"),
            std::string::npos);
}

TEST(Exchange, RefusesANewerVersionAndNamesIt) {
  json document = json::parse(export_winners({}));
  document["version"] = 2;
  EXPECT_NE(refusal(document.dump()).find("version 2"), std::string::npos);
  document["version"] = std::numeric_limits<std::uint64_t>::max();
  EXPECT_NE(refusal(document.dump()).find("version 18446744073709551615"), std::string::npos);
}

TEST(Exchange, RefusesAChangedRecordByItsChecksum) {
  std::string text = export_winners(some_records());
  text.replace(text.find("81234"), 5, "71234");
  EXPECT_NE(refusal(text).find("checksum"), std::string::npos);
}

TEST(Exchange, ReadsADocumentThatWasIndentedOnTheWay) {
  const std::string text = export_winners(some_records());
  const auto parsed = parse_export(json::parse(text).dump(4), {});
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(export_winners(parsed->records), text);
}

TEST(Exchange, CarriesWinnersToAnotherDeviceAsForeignRows) {
  const auto a = make_memory_store(), b = make_memory_store();
  ASSERT_TRUE(a->put(record_of(problem_of(4, 257), 900, kDeviceA)).ok());
  ASSERT_TRUE(b->put(record_of(problem_of(4, 257), 1100, kDeviceB)).ok());
  const auto parsed = parse_export(content_of(*a), {});
  ASSERT_TRUE(parsed.ok());
  for (const WinnerRecord& record : parsed->records) EXPECT_TRUE(*b->merge(record));
  EXPECT_EQ(median_in(*b, problem_of(4, 257), kDeviceB), 1100);
  EXPECT_EQ(median_in(*b, problem_of(4, 257), kDeviceA), 900);
}

}  // namespace
}  // namespace rowsmith
