"""Calls of PyTorch as they happen in a watched step: operators by a dispatch mode, modules and functions by
what calls them."""
import functools
import sys
import threading

from assay.known_calls import FUNCTIONS, MOVES, OPERATORS, Moved, Skip, module_of
from assay.watching.calls import FLOATS, Call


class Local(threading.local):
    tape = None  # of the step that this thread is in
    busy = False  # within the watching itself
    depth = 0  # 1 within a step, watched or not


LOCAL = Local()


def is_tensor(x):
    return isinstance(x, sys.modules["torch"].Tensor)


def tensors_in(value):
    """The tensors of nested lists, tuples and dictionaries."""
    if is_tensor(value):
        yield value
    elif isinstance(value, dict):
        for inside in value.values():
            yield from tensors_in(inside)
    elif isinstance(value, (list, tuple)):
        for inside in value:
            yield from tensors_in(inside)


@functools.cache
def float_types():
    return {getattr(sys.modules["torch"], name) for name in FLOATS}


def is_float(x):
    return x.dtype in float_types() and x.layout is sys.modules["torch"].strided and not x.is_meta


def bare(x):
    return x.detach() if x.requires_grad else x


def storage_of(x):
    return x.untyped_storage()._cdata


def version_of(x):
    return None if x.is_inference() else x._version


class Tape:
    """Of one watched step. places: id of a module -> its name. weights: storages that are kept, not
    copied."""

    def __init__(self, watch, step, places, weights):
        self.watch, self.step, self.places, self.weights = watch, step, places, weights
        self.calls, self.bytes, self.stack, self.region = [], 0, [], 0
        self.copies, self.alive = {}, []

    # What is kept of tensors, as they are now.

    def kept(self, x, versions):
        torch = sys.modules["torch"]
        if not is_tensor(x):
            return x
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            raise Skip(f"a tensor of class {type(x).__name__}")
        x = bare(x)
        if storage_of(x) in self.weights:
            versions.append((x, version_of(x)))
            return x
        return self.copied(x)

    def copied(self, x):
        """A copy, one for all calls between two writes of it. Tensors that were copied live as long as the
        step, so that no other
        one takes their address."""
        version = version_of(x)
        key = (storage_of(x), version, x.storage_offset(), x.shape, x.stride(), x.dtype)
        found = self.copies.get(key) if version is not None else None
        if found is None:
            found = bare(x).clone()
            self.bytes += found.numel() * found.element_size()
            if version is not None:
                self.copies[key] = found
                self.alive.append(x)
        return found

    def begun(self, read, arguments, keywords):
        """(rows, reason, inputs, versions, weights): of the cases as far as they are known before the
        call."""
        versions, rows, why = [], [], ""
        try:
            given = read(*arguments, **keywords)
            for inputs, attributes, *part in given if isinstance(given, list) else [given]:
                rows.append(({n: self.kept(x, versions) for n, x in inputs.items()}, attributes,
                             part[0] if part else None))
        except Moved:
            raise
        except Skip as reason:
            rows, why = [], str(reason)
        except Exception as reason:  # noqa: BLE001
            rows, why = [], f"could not be read: {type(reason).__name__}: {reason}"
        floats = [x for x in tensors_in((arguments, keywords)) if is_float(x)]
        inputs = [self.copied(x) for x in floats if storage_of(x) not in self.weights]
        return rows, why, inputs, versions

    def ended(self, begun, name, op, out, more, result):
        rows, why, inputs, versions = begun
        outputs = [self.copied(x) for x in tensors_in(result) if is_float(x)]
        if not outputs:
            return
        cases = []
        for given, attributes, part in rows:
            y = (part or out or (lambda whole: whole))(result)
            cases.append((op, attributes, given, self.copied(y), more))
        changed = None
        if versions:
            def changed(kept=tuple(versions)):
                return any(version is not None and version_of(x) != version for x, version in kept)
        place = self.stack[-1] if self.stack else ""
        self.calls.append(Call(self.step, place, name, cases, why, inputs, outputs, (), changed))

    # Operators.

    def operator(self, func, arguments, keywords):
        name, row = row_of(func)
        if self.region or row is None or not any(is_float(x) for x in tensors_in((arguments, keywords))):
            return func(*arguments, **keywords)
        op, read, out = row
        begun = None
        with self.watch.guarded(name):
            try:
                begun = self.begun(read, arguments, keywords)
            except Moved:
                pass
        result = func(*arguments, **keywords)
        if begun is not None:
            with self.watch.guarded(name):
                self.ended(begun, name, op, out, "", result)
        return result

    # Modules and functions that are an op as a whole.

    def whole(self, name, op, read, more, call, arguments, keywords):
        begun = None
        if not self.region:
            with self.watch.guarded(name):
                begun = self.begun(read, arguments, keywords)
                if begun[1]:  # read operator by operator
                    self.watch.left[f"{name}: {begun[1]}"] += 1
                    begun = None
        if begun is None:
            return call()
        self.region += 1
        try:
            result = call()
        finally:
            self.region -= 1
        with self.watch.guarded(name):
            self.ended(begun, name, op, None, more, result)
        return result

    def module(self, module, call, arguments, keywords):
        name = type(module).__name__
        self.stack.append(self.places.get(id(module), name))
        try:
            if is_compiled(module):
                return self.unseen(f"{name}: compiled; what it computes within is not seen", call)
            found = module_of(name)
            if found is None:
                return call()
            op, read, more = found
            return self.whole(name, op, functools.partial(read, module), more, call, arguments, keywords)
        finally:
            self.stack.pop()

    def unseen(self, why, call):
        """A call outside of the mode: within it what is compiled would run otherwise than it serves."""
        from torch.utils._python_dispatch import _disable_current_modes
        self.watch.unseen[why] += 1
        before, LOCAL.tape = LOCAL.tape, None
        try:
            with _disable_current_modes():
                return call()
        finally:
            LOCAL.tape = before


def unmapped(*_, **__):
    raise Skip("not mapped")


@functools.cache
def row_of(func):
    """(name, row of OPERATORS) of an operator; the row is None where it computes nothing. Those that write
    into an argument have
    the name of the others with a line behind it."""
    name = func.overloadpacket._qualified_op_name
    base = name if name in OPERATORS else name.rstrip("_")
    return name, OPERATORS.get(base) or (None if base in MOVES else ("", unmapped, None))


def is_compiled(module):
    return getattr(module, "_compiled_call_impl",
                   None) is not None or type(module).__name__ == "OptimizedModule"


@functools.cache
def mode_class():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            tape = LOCAL.tape
            if tape is None or LOCAL.busy:
                return func(*args, **(kwargs or {}))
            return tape.operator(func, args, kwargs or {})

    return Mode


class Hooks:
    """While the model is watched: calls of modules, of the functions of their files, of torch.compile. enter:
    called in the
    place of a call of the model, or where that is None of any module that is called within no other."""

    def __init__(self, enter, model=None):
        self.enter, self.model, self.undo = enter, model, []

    def patch(self, owner, name, value):
        original = getattr(owner, name)
        setattr(owner, name, value)
        self.undo.append(lambda: setattr(owner, name, original))

    def install(self):
        """Calls of all modules go by here: of a thread in a watched step to its tape, of others to
        enter()."""
        import torch
        original, local, enter, model = torch.nn.Module.__call__, LOCAL, self.enter, self.model
        traced = torch.compiler.is_compiling

        def called(module, *arguments, **keywords):
            if traced():
                return original(module, *arguments, **keywords)
            tape = local.tape
            if tape is not None and not local.busy:
                return tape.module(module, lambda: original(module, *arguments, **keywords), arguments,
                                   keywords)
            if local.depth or (model is not None and module is not model):
                return original(module, *arguments, **keywords)
            local.depth = 1
            try:
                return enter(module, lambda: original(module, *arguments, **keywords), arguments, keywords)
            finally:
                local.depth = 0
        self.patch(torch.nn.Module, "__call__", called)
        compile_ = torch.compile

        def compiled(model=None, **keywords):
            if model is None:  # a decorator with arguments
                return lambda function: compiled(function, **keywords)
            made = compile_(model, **keywords)
            return made if isinstance(made, torch.nn.Module) else _outside(made)
        self.patch(torch, "compile", compiled)

    def functions_of(self, model):
        """The functions of the table in the files that the model's classes are of."""
        for file in {type(module).__module__ for module in model.modules()}:
            for name, (op, read) in FUNCTIONS.items():
                function = getattr(sys.modules.get(file), name, None)
                if callable(function) and not hasattr(function, "assay_watch"):
                    self.patch(sys.modules[file], name, _function(function, name, op, read))

    def uninstall(self):
        while self.undo:
            self.undo.pop()()


def _outside(made):
    """What torch.compile made of a function: not seen in a watched step."""
    @functools.wraps(made)
    def call(*arguments, **keywords):
        tape = LOCAL.tape
        if tape is None or LOCAL.busy:
            return made(*arguments, **keywords)
        name = getattr(made, "__name__", "a function")
        return tape.unseen(f"{name}: compiled; what it computes within is not seen",
                           lambda: made(*arguments, **keywords))
    return call


def _function(function, name, op, read):
    @functools.wraps(function)
    def call(*arguments, **keywords):
        tape = LOCAL.tape
        if tape is None or LOCAL.busy:
            return function(*arguments, **keywords)
        return tape.whole(name, op, read, "", lambda: function(*arguments, **keywords), arguments, keywords)
    call.assay_watch = True
    return call
