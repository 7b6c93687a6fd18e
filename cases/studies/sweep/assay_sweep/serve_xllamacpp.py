"""A llama.cpp server by the wheel xllamacpp, which has the library and no program. Run under the interpreter
that has it."""
import argparse
import signal
import sys

import xllamacpp

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--fa", choices=("on", "off", "auto"), default="auto")
for name, fallback in (("port", 8080), ("context", 4096), ("threads", 1), ("batch", 512)):
    parser.add_argument(f"--{name}", type=int, default=fallback)
for name in ("k", "v"):
    parser.add_argument(f"--{name}", default="f16")
given = parser.parse_args()
parameters = xllamacpp.CommonParams()
parameters.model.path = given.model
parameters.n_ctx = given.context
if hasattr(parameters, "hostnames"):
    parameters.hostnames = ["127.0.0.1"]
else:  # before 2026
    parameters.hostname = "127.0.0.1"
parameters.port = given.port
parameters.n_parallel = 1
parameters.warmup = False
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = given.threads
parameters.n_batch = parameters.n_ubatch = given.batch
try:
    parameters.cache_type_k, parameters.cache_type_v = (getattr(xllamacpp.ggml_type,
                                                                f"GGML_TYPE_{x.upper()}")
                                                                for x in (given.k, given.v))
except AttributeError as error:
    sys.exit(f"no such type of cache: {error}")
parameters.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, "LLAMA_FLASH_ATTN_TYPE_" +
                                     {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[given.fa])
server = xllamacpp.Server(parameters)
print("listening", flush=True)
signal.pause()
