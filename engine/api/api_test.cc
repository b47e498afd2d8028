// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "engine/api/json.h"
#include "engine/api/options.h"
#include "engine/base/failure.h"

namespace sinter::api {
namespace {

TEST(Json, PlacesCommasAndEscapes) {
  Json json;
  json.open('{').field("a", "x\"y\\z\n\x01").field("n", 3u).key("list").open('[').value("p").number(1.5).raw("null");
  json.open('{').close('}').close(']').key("empty").open('[').close(']').field("last", true).close('}');
  EXPECT_EQ(json.text(), R"({"a":"x\"y\\z\u000a\u0001","n":3,"list":["p",1.5,null,{}],"empty":[],"last":true})");
}

TEST(Json, NumbersThatJsonCannotHoldAreNull) {
  Json json;
  json.open('[').number(std::nan("")).number(INFINITY).number(-0.25).number(123456789012.0).number(1e300).close(']');
  EXPECT_EQ(json.text(), "[null,null,-0.25,123456789012,1e+300]");
}

TEST(Json, ErrorsKeepChainAndHint) {
  EXPECT_EQ(error_json({Code::Io, "m", {"inner", "outer"}, "h"}),
            R"({"message":"m","chain":["inner","outer"],"hint":"h"})");
}

TEST(Json, ErrorsCarryTheFirstFailureAndWhatTheyEcho) {
  Error error{Code::Gpu, "m", {}, ""};
  Failure& failure = failure_of(error);
  failure.node = "conv";
  EXPECT_EQ(error_json(error), R"({"message":"m","chain":[],"hint":""})") << "nobody has been told yet";
  failure.id = 1;
  failure.code = Code::Gpu;
  failure.inputs = {"x float32[1]"};
  error.echo_of = 1;
  EXPECT_EQ(error_json(error), R"({"message":"m","chain":[],"hint":"","firstFailure":{"id":1,"code":"Gpu",)"
                               R"("node":"conv","inputs":["x float32[1]"]},"echoOf":1})");
}

TEST(Options, EngineDefaultsAndValues) {
  const auto none = parse_engine_options("");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->backend, BackendChoice::automatic);
  EXPECT_FALSE(none->events);
  const auto some = parse_engine_options("backend=webgpu\nthreads=3\ntimeout_ms=250\nlow_power=true\nevents=true");
  ASSERT_TRUE(some);
  EXPECT_EQ(some->backend, BackendChoice::webgpu);
  EXPECT_EQ(some->engine.threads, 3u);
  EXPECT_EQ(some->engine.timeout_ms, 250);
  EXPECT_TRUE(some->engine.low_power && some->events);
  EXPECT_TRUE(std::isinf(parse_engine_options("timeout_ms=0")->engine.timeout_ms));
}

TEST(Options, SessionValuesSplitNamesAtTheLastSign) {
  const auto options =
      parse_session_options("fusion=false\noff=a\noff=b\ndim=N=4\ndim=a=b=2\ninject=/conv=1=nan\nplain=true\n");
  ASSERT_TRUE(options) << to_string(options.error());
  EXPECT_FALSE(options->fusion);
  EXPECT_TRUE(options->force_plain);
  EXPECT_EQ(options->off, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(options->dims.size(), 2u);
  EXPECT_EQ(options->dims[1], (std::pair<std::string, int64_t>{"a=b", 2}));
  ASSERT_TRUE(options->inject);
  const auto faulty = parse_session_options("inject_device=oom@/a@b");
  ASSERT_TRUE(faulty && faulty->inject_device);
  EXPECT_EQ(faulty->inject_device->kind, DeviceFault::Kind::oom);
  EXPECT_EQ(faulty->inject_device->step, "/a@b");
  EXPECT_EQ(options->inject->node, "/conv=1");
  EXPECT_EQ(options->inject->kind, "nan");
}

TEST(Options, WhatIsWrongIsNamed) {
  for (const char* text :
       {"backend=gpu", "threads=-1", "threads=two", "timeout_ms=1s", "events=yes", "colour=red", "backend"}) {
    const auto result = parse_engine_options(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, Code::InvalidInput);
  }
  for (const char* text : {"fusion=on", "dim=N", "dim=N=-2", "dim=N=x", "inject=n=explode", "inject=n", "of=x",
                           "inject_device=lost", "inject_device=lost@", "inject_device=gone@3"}) {
    const auto result = parse_session_options(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, Code::InvalidInput);
  }
}

}  // namespace
}  // namespace sinter::api
