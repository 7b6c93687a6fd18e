#!/usr/bin/env python3
"""A third-party program under the witness layer: wgpu-native (pip install wgpu), which knows nothing of
assay.

Run with VK_INSTANCE_LAYERS, VK_LAYER_PATH and ASSAY_WITNESS_LOG set. It dispatches once directly and once
indirectly, and checks that the log names its entry point with both grids. 77: wgpu is not installed, or finds
no device."""
import array
import json
import os
import sys

SKIP = 77
os.environ.setdefault("WGPU_BACKEND_TYPE", "Vulkan")
WGSL = """
@group(0) @binding(0) var<storage, read> given: array<i32>;
@group(0) @binding(1) var<storage, read_write> result: array<i32>;
@compute @workgroup_size(1) fn doubled(@builtin(global_invocation_id) i: vec3<u32>) { result[i.x] = given[i.x] * 2; }
"""
COUNT = 20
GRID = [5, 2, 3]


def compute():
    import wgpu
    device = wgpu.gpu.request_adapter_sync(power_preference="high-performance").request_device_sync()
    print("wgpu", wgpu.__version__, device.adapter.info.get("device"))
    usage = wgpu.BufferUsage
    given = device.create_buffer_with_data(data=array.array("i", range(COUNT)), usage=usage.STORAGE)
    result = device.create_buffer(size=COUNT * 4, usage=usage.STORAGE | usage.COPY_SRC)
    grid = device.create_buffer_with_data(data=array.array("I", GRID), usage=usage.INDIRECT)
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": device.create_shader_module(code=WGSL), "entry_point": "doubled"})
    entries = [{"binding": i, "resource": {"buffer": b, "offset": 0, "size": COUNT * 4}}
               for i, b in enumerate([given, result])]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(COUNT, 1, 1)
    work.dispatch_workgroups_indirect(grid, 0)
    work.end()
    device.queue.submit([encoder.finish()])
    assert device.queue.read_buffer(result).cast("i").tolist() == [2 * i for i in range(COUNT)]


def main():
    if sys.argv[1:] == ["--compute"]:
        try:
            compute()
        except (ImportError, RuntimeError) as error:
            print(error)
            return SKIP
        return 0
    log = os.environ["ASSAY_WITNESS_LOG"]
    if os.path.exists(log):
        os.remove(log)
    import subprocess
    # the log is whole at its end
    ended = subprocess.run([sys.executable, __file__, "--compute"], check=False).returncode
    if ended != 0:
        return ended
    with open(log, encoding="utf-8") as lines:
        seen = [json.loads(line) for line in lines]
    print(*seen, sep="\n")
    own = [row for row in seen if row["name"].startswith("doubled<> spirv:")]
    assert [row["grid"] for row in own] == [[COUNT, 1, 1],
                                            GRID], "the dispatches of doubled() were not seen as they were"
    assert own[1]["name"].endswith(" indirect")
    return 0


sys.exit(main())
