// What the assay program and a worker say to each other: one JSON object per line, version 2. protocol.md is
// the page for whoever writes a worker in another language.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace assay {

inline constexpr std::string_view kProtocolName = "assay-worker";
inline constexpr int kProtocolVersion = 2;
inline constexpr int kControlDescriptor = 3;  // a stream socket: requests in, replies out
inline constexpr int kMemoryDescriptor = 4;   // the shared memory, to be mapped with MAP_SHARED
inline constexpr int kStackAsItIs = -1;
inline constexpr std::string_view kTreeVariable =
    "PROCESS_TREE";  // the same in all that a worker starts: it stays, and says nothing of assay
// What a worker is called where others see its name, and the variables that a worker removes before it loads
// a backend.
inline constexpr std::string_view kNameVariable = "ASSAY_WORKER_NAME", kPlainName = "engine",
                                  kOwnVariables = "ASSAY_";
// Key of a note: what a call changed in its process for good. The process serves no other case.
inline constexpr std::string_view kLeftBehindNote = "left_behind";
inline constexpr std::string_view kWitnessVariable = "ASSAY_WITNESS";  // path of the witness, "" for none

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

// What a witness (harness/worker/assay_witness.h) saw of one run. `grid` and `block` are all 0 where it does
// not know them.
struct SeenKernel {
  std::string name;  // demangled
  std::array<std::int64_t, 3> grid{}, block{};
  std::int64_t ns = 0;  // on the device
  std::int64_t stream = 0;
};
struct Witness {
  std::string by;  // "cupti 130001"
  std::vector<SeenKernel> kernels;
  std::int64_t allocated_bytes = 0;  // of device memory, all allocations
  std::int64_t peak_bytes = 0;       // most of them at one time
  std::string error;                 // why it did not see everything; "" when it did
  bool host = false;                 // of a CPU: the tensors are no part of peak_bytes
  std::vector<std::string> unwatched =
      {};  // names that the backend announced and that it could not have seen
};

struct Trace {
  std::vector<std::string> kernels;  // in the order of launch, as the backend says
  TextPairs notes;
  std::int64_t wall_ns = 0;        // of the backend's run(), measured in the worker
  std::optional<Witness> witness;  // nothing: nobody watched
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
  int stack = kStackAsItIs;  // the byte that the stack below the backend's run() is filled with
};
struct Ping {};  // asked behind each reply: whatever comes before the pong is one reply too many
struct Bye {};
}  // namespace request
using Request =
    std::variant<request::Hello, request::Open, request::Declare, request::Run, request::Ping, request::Bye>;

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
  std::vector<std::string> ops = {};  // that it has kernels of, where it says so
};
struct Refused {  // the backend cannot be opened: not a fault of this run
  std::string reason;
  bool mistake =
      false;  // of whoever named it: no plug-in, a text that is no program, options that it does not know
};
struct Declared {
  std::string contract;
  std::string path;
  std::string promises;
  std::size_t alignment = 1;  // that the call demands of each tensor's first byte
};
struct Unsupported {
  std::string reason;
};
struct Failed {
  std::string reason;
  std::string finding =
      {};  // what the worker itself found out: "overrun", "leak", "input_changed", "crash"; "" for none
};
struct Done {
  Trace trace;
};
struct HostLimit {  // this machine cannot map or hold the memory: nothing was asked of the backend
  std::string reason;
};
struct Pong {};
struct Crash {  // the last line of a worker that received a fatal signal
  int signal = 0;
  std::uint64_t address = 0;
  std::int64_t offset = -1;  // of the address in the shared memory, -1 when outside
  std::string access;        // "read", "write", "unknown"
};
}  // namespace reply
using Reply = std::variant<reply::Hello, reply::Opened, reply::Refused, reply::Declared, reply::Unsupported,
                           reply::Failed, reply::Done, reply::HostLimit, reply::Pong, reply::Crash>;

// The id of a request is echoed by its reply, so that no reply can be taken for that to another request.
struct NumberedRequest {
  std::int64_t id = 0;
  Request message;
};
struct NumberedReply {
  std::int64_t id = 0;
  Reply message;
};

// One line with its newline. Bytes that are not UTF-8 become U+FFFD; control characters in the texts of a
// reply arrive as \xNN, so that no text of a worker can be more than one line or reach a terminal.
std::string to_line(std::int64_t id, const Request& message);
std::string to_line(std::int64_t id, const Reply& message);
// Throws ProtocolError: not JSON, no id, an unknown type, a missing or ill-typed member.
NumberedRequest parse_request(std::string_view line);
NumberedReply parse_reply(std::string_view line);
// The text of a reply's member `witness`.
std::string witness_text(const Witness& witness);
Witness parse_witness(std::string_view text);

}  // namespace assay
