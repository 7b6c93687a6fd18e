"""Any subject on a device as a captured CUDA graph: variant `graph`, or `NAME.graph`. What a server does with
a kernel: the call is captured once, and replayed after the inputs' bytes have changed at the same addresses.
A kernel that read a length on the host, kept a scale, or launched something outside of the graph gives the
captured call's results."""

SUFFIX = "graph"


def variant_of(variant):
    return f"{variant}.{SUFFIX}" if variant else SUFFIX


def of_variant(name):
    """(variant, whether as a graph)."""
    if name == SUFFIX:
        return "", True
    return (name[:-len(SUFFIX) - 1], True) if name.endswith("." + SUFFIX) else (name, False)


def decoy(tensor, memory):
    """A plane's rows in reverse order (of a single row: its elements): other inputs of the same kind, whose
    indices stay in
    range. [(offset in the shared memory, bytes)]."""
    offsets = tensor.row_offsets()
    rows = [bytes(memory[at:at + tensor.row_bytes]) for at in offsets]
    if len(rows) == 1 and tensor.item_bytes:
        row, item = rows[0], tensor.item_bytes
        rows = [b"".join(row[i:i + item] for i in range(len(row) - item, -1, -item))]
    return list(zip(offsets, reversed(rows)))


def capture(function, call, arguments, base):
    """(what `function` returned while it was captured, a function that replays it). base: the shared memory's
    address. The
    tensors that were returned hold the replay's numbers, once it ran; planes are as the case has them when
    this returns."""
    import torch

    from assay_subjects import need

    guarded = call.guarded
    need(guarded is not None, "a graph is replayed on guarded memory: not with guards=off")
    for t in call.inputs.values():
        if t.name in guarded.planes:
            for offset, data in decoy(t, call.memory):
                guarded.driver.write_bytes(guarded.planes[t.name].address(offset), data)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):  # what is compiled or tuned is so in front of the capture
            function(call, **arguments)
    torch.cuda.synchronize()
    call.kernels.clear()
    call.notes.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(call, **arguments)
    guarded.restore(base)
    return result, graph.replay
