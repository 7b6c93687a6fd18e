#!/usr/bin/env python3
"""PyTorch's scaled_dot_product_attention in f16 at the shapes of bench_attention, one JSON object per line.

    bench_sdpa.py [--heads 32] [--kv-heads 8] [--d 128] [--repeats 15] [--backends flash cudnn] [LEN ...]

Device time between events around a graph of 10 calls, over inputs that rotate through more memory than the L2 cache holds;
the median.
"""
import argparse
import json
import statistics
import sys

CALLS = 10
ROTATE = 512 << 20


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--heads", type=int, default=32)
    options.add_argument("--kv-heads", type=int, default=8)
    options.add_argument("--d", type=int, default=128)
    options.add_argument("--repeats", type=int, default=15)
    options.add_argument("--backends", nargs="+", default=["flash"],
                         choices=["flash", "cudnn", "efficient", "math"])
    options.add_argument("lengths", nargs="*", type=int)
    given = options.parse_args()
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as missing:
        sys.exit(f"bench_sdpa: {missing}")
    if not torch.cuda.is_available():
        print("bench_sdpa: no GPU here", file=sys.stderr)
        return 77
    kinds = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
             "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    for length in given.lengths or [1 << n for n in range(13, 21)]:
        bytes_of_kv = 2 * length * given.kv_heads * given.d * 2
        sets = max(2, -(-ROTATE // bytes_of_kv))
        # The cache of an engine: [batch, len, kv_heads, d], seen as [batch, kv_heads, len, d].
        kv = [[torch.randn(1, length, given.kv_heads, given.d, device="cuda",
                           dtype=torch.float16).transpose(1, 2)
               for _ in "kv"] for _ in range(sets)]
        q = torch.randn(1, given.heads, 1, given.d, device="cuda", dtype=torch.float16)
        for name in given.backends:
            row = {"kernel": f"torch_sdpa_{name}", "kv": "f16", "len": length, "heads": given.heads,
                   "kv_heads": given.kv_heads, "d": given.d, "kv_bytes": bytes_of_kv,
                   "torch": torch.__version__,
                   "device": torch.cuda.get_device_name()}

            def calls():
                for i in range(CALLS):
                    k, v = kv[i % sets]
                    torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

            try:
                with sdpa_kernel(kinds[name]):
                    side = torch.cuda.Stream()
                    with torch.cuda.stream(side):
                        calls()
                    side.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        calls()
                for _ in range(3):
                    graph.replay()
                times = []
                for _ in range(given.repeats):
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    begin.record()
                    graph.replay()
                    end.record()
                    end.synchronize()
                    times.append(begin.elapsed_time(end) * 1e3 / CALLS)
                row |= {"median_us": statistics.median(times), "lowest_us": min(times),
                        "highest_us": max(times)}
            except RuntimeError as refusal:
                row["refused"] = str(refusal).splitlines()[0]
            print(json.dumps(row), flush=True)
        del kv
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
