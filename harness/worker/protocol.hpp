// What the assay program and a worker say to each other: one JSON object per line, version 1. protocol.md is
// the page for whoever writes a worker in another language.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace assay {

inline constexpr std::string_view kProtocolName = "assay-worker";
inline constexpr int kProtocolVersion = 1;
inline constexpr int kControlDescriptor = 3;  // a stream socket: requests in, replies out
inline constexpr int kMemoryDescriptor = 4;   // the shared memory, to be mapped with MAP_SHARED

struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using TextPairs = std::vector<std::pair<std::string, std::string>>;

// As assay_tensor: shape in elements, stride in bytes. offset is that of the first element in the shared
// memory, -1 in a declare request.
struct TensorMessage {
  std::string name;
  std::string format;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;
  std::int64_t offset = -1;
};

struct CallMessage {
  std::string op;
  std::string variant;
  TextPairs attributes;
  std::vector<TensorMessage> inputs;
  std::vector<TensorMessage> outputs;
};

// Whole pages of the shared memory that this run may touch; all others are guards.
struct SlotMessage {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool writable = false;
  bool operator==(const SlotMessage&) const = default;
};

struct Trace {
  std::vector<std::string> kernels;  // in the order of launch
  TextPairs notes;
  std::int64_t wall_ns = 0;  // of the backend's run(), measured in the worker
};

namespace request {
struct Hello {
  std::string protocol{kProtocolName};
  int version = kProtocolVersion;
};
struct Open {
  std::string plugin;
  std::string options;
};
struct Declare {
  CallMessage call;
};
struct Run {
  CallMessage call;
  std::int64_t memory_bytes = 0;  // length of the shared memory now
  std::vector<SlotMessage> slots;
};
struct Bye {};
}  // namespace request
using Request = std::variant<request::Hello, request::Open, request::Declare, request::Run, request::Bye>;

namespace reply {
struct Hello {
  std::string protocol{kProtocolName};
  int version = kProtocolVersion;
  bool guards = false;  // this worker maps slots with the access asked for, and all else without any
};
struct Opened {
  std::string name;
  std::string description;
  std::vector<std::string> variants;
};
struct Refused {  // the backend cannot be opened: not a fault of this run
  std::string reason;
};
struct Declared {
  std::string contract;
  std::string path;
  std::string promises;
};
struct Unsupported {
  std::string reason;
};
struct Failed {
  std::string reason;
};
struct Done {
  Trace trace;
};
struct Crash {  // the last line of a worker that received a fatal signal
  int signal = 0;
  std::uint64_t address = 0;
  std::int64_t offset = -1;  // of the address in the shared memory, -1 when outside
  std::string access;        // "read", "write", "unknown"
};
}  // namespace reply
using Reply = std::variant<reply::Hello, reply::Opened, reply::Refused, reply::Declared, reply::Unsupported,
                           reply::Failed, reply::Done, reply::Crash>;

// One line with its newline. Bytes that are not UTF-8 become U+FFFD.
std::string to_line(const Request& message);
std::string to_line(const Reply& message);
// Throws ProtocolError: not JSON, an unknown type, a missing or ill-typed member.
Request parse_request(std::string_view line);
Reply parse_reply(std::string_view line);

}  // namespace assay
