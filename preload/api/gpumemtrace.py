# SPDX-License-Identifier: Apache-2.0
"""Functions by which a program names its own steps, ranges and tensors for gpumemtrace.

One file without dependencies: copy it beside the program, or put its folder on PYTHONPATH. In a
process that does not run under gpumemtrace every call does nothing, so the calls may stay.

    import gpumemtrace

    for batch in batches:
        gpumemtrace.step()
        with gpumemtrace.range("forward"):
            ...

    @gpumemtrace.range("evaluate")
    def evaluate(): ...

    gpumemtrace.annotate(model, optimizer)  # PyTorch: names of parameters, gradients, states, buffers

read() alone needs more: gpumemtrace_reader.py beside this file, and the program gpumemtrace.

    recording = gpumemtrace.read("train.gmt")  # data frames of a recording, in another process

Calls before the first CUDA call are not kept, except for the number of steps, for suppressions,
and for the last of start() and stop().
"""

import contextlib
import ctypes
import gc
import os
import sys
import weakref

__all__ = ["step", "mark", "push", "pop", "range", "start", "stop", "suppress",
           "is_recorded", "annotate", "read"]


def __dir__():
    return __all__


def _find_library():
    """The symbols of the process if the preloaded library is among them, else None."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "gpumemtrace_step"):
        return None
    for name in ("step", "pop", "start", "stop", "mark", "push", "suppress"):
        function = getattr(process, "gpumemtrace_" + name)
        function.restype = None
        function.argtypes = [ctypes.c_char_p] if name in ("mark", "push", "suppress") else []
    return process


def _find_tensor_function():
    """gpumemtrace_tensor, or None also for a recorder that is older than it."""
    function = getattr(ctypes.PyDLL(None), "gpumemtrace_tensor", None)
    if function is not None:
        function.restype = None
        function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p,
                             ctypes.c_char_p, ctypes.c_char_p]
    return function


_library = _find_library()
_tensor = _find_tensor_function()


def _bytes(name):
    return str(name).encode("utf-8", "replace")


def is_recorded():
    """True if this process runs under gpumemtrace, paused or not."""
    return _library is not None


def step():
    """A new step begins, for example one iteration of a training loop."""
    if _library is not None:
        _library.gpumemtrace_step()


def mark(name):
    """Names this moment."""
    if _library is not None:
        _library.gpumemtrace_mark(_bytes(name))


def push(name):
    """A range of the calling thread begins; it lasts until the matching pop()."""
    if _library is not None:
        _library.gpumemtrace_push(_bytes(name))


def pop():
    """The innermost range of the calling thread ends."""
    if _library is not None:
        _library.gpumemtrace_pop()


@contextlib.contextmanager
def range(name):  # noqa: A001: named as in NVTX
    """A range as a context manager or a decorator."""
    push(name)
    try:
        yield
    finally:
        pop()


def suppress(lines):
    """`gpumemtrace check` is to leave findings out: lines of a suppressions file."""
    if _library is not None:
        _library.gpumemtrace_suppress(_bytes(lines))


def start():
    """Goes on with the recording, as `gpumemtrace ctl PID start`."""
    if _library is not None:
        _library.gpumemtrace_start()


def stop():
    """Pauses the recording, as `gpumemtrace ctl PID stop`."""
    if _library is not None:
        _library.gpumemtrace_stop()


# In the numbers of gpumemtrace.h.
_PARAMETER, _GRADIENT, _OPTIMIZER_STATE, _BUFFER = 1, 2, 3, 4

_NAMED_STEPS = 3  # of an optimizer, and again after it got other parameters
_MAX_NESTING = 4  # of lists and dictionaries in an optimizer's state

# Modules that only stand around others have these for their one child; names leave them out.
_WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_PARALLEL = ("DataParallel", "DistributedDataParallel")


def _layer_name(module):
    """The class whose forward runs, as a call stack has it; "" for containers, which have none."""
    for kind in type(module).__mro__:
        if "forward" in vars(kind):
            return "" if kind.__name__ == "Module" else kind.__name__
    return ""


def _modules_below(root, label):
    """(module, its name in root, the classes from root to it) of each module, root first."""
    seen = set()
    left = [(root, "", label)]
    while left:
        module, name, layers = left.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module, name, layers
        children = []
        for key, child in (getattr(module, "_modules", None) or {}).items():
            if child is None:
                continue
            is_wrapped = key in _WRAPPED or (key == "module" and type(module).__name__ in _PARALLEL)
            below = name if is_wrapped else f"{name}.{key}" if name else key
            layer = _layer_name(child)
            children.append((child, below, f"{layers} > {layer}" if layer and layers else layer or layers))
        left += reversed(children)


def _alive(kind):
    """All objects of the class or of one that is derived from it, those that are old first."""
    return [found for generation in (2, 1, 0) for found in gc.get_objects(generation)
            if issubclass(type(found), kind)]


def _roots_of_process(torch):
    """The modules that are no module's child. What torch.compile and torch.fx generate comes last."""
    modules = _alive(torch.nn.Module)
    children = {id(child) for module in modules
                for child in (getattr(module, "_modules", None) or {}).values()}
    generated = getattr(sys.modules.get("torch.fx"), "GraphModule", ())
    return sorted((module for module in modules if id(module) not in children),
                  key=lambda module: isinstance(module, generated))


def _strided_parts(torch, tensor):
    """The plain tensors on a GPU that hold a tensor's bytes: of a wrapper such as DTensor its inner
    ones, of a sparse one its indices and values."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is not None and type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        for inner in flatten(tensor)[0]:
            yield from _strided_parts(torch, getattr(tensor, inner))
    elif tensor.is_cuda and tensor.layout is torch.sparse_coo:
        yield tensor._indices()
        yield tensor._values()
    elif tensor.is_cuda and tensor.layout is torch.strided and not _is_copied_on_access(torch, tensor):
        yield tensor


def _is_copied_on_access(torch, tensor):
    """A lazy copy, which the question for its address would turn into a real one."""
    is_lazy = getattr(torch._C, "_is_cow_tensor", None)
    return is_lazy is not None and is_lazy(tensor)


def _tensors_in(torch, value, key, depth=_MAX_NESTING):
    """(key, tensor) of every tensor in an entry of an optimizer's state."""
    if isinstance(value, torch.Tensor):
        yield key, value
    elif depth > 0 and isinstance(value, (dict, list, tuple)):
        for inner, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _tensors_in(torch, part, f"{key}.{inner}", depth - 1)


class _WeakMap:
    """Values by object, for objects that may have an equality of their own."""

    def __init__(self):
        self._entries = {}  # id -> object, value

    def get(self, key):
        entry = self._entries.get(id(key))
        return None if entry is None or entry[0]() is not key else entry[1]

    def set(self, key, value):
        number = id(key)
        self._entries[number] = weakref.ref(key, lambda _: self._entries.pop(number, None)), value

    def values(self):
        return [value for _, value in self._entries.values()]


class _OptimizerSteps:
    """The steps of one optimizer that are still to be named."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.left = _NAMED_STEPS
        self.owners = {}  # of the step that runs, as _tell_all gives them


class _TensorNames:
    """Tells the recorder which storage is which tensor of PyTorch.

    - It only reads: no tensor is made, nothing runs on the GPU, no module's call is changed but for
      the first one of the process. torch.compile sees hooks that do nothing, always the same ones.
    - The first steps of an optimizer are told, and as many when it gets other parameters.
    - An exception ends it, with one line on stderr.
    """

    def __init__(self, torch, find_roots):
        self._torch = torch
        self._find_roots = find_roots
        self._labels = _WeakMap()  # of roots: the class, numbered if it is not the first
        self._steps = _WeakMap()  # of optimizers
        self._first_forward = None
        self._is_off = False
        self.before_step = self._as_hook(self._before_step)
        self.after_step = self._as_hook(self._after_step)

    def tell_now(self, optimizers):
        self._safely(self._tell_all, optimizers)

    def tell_at_first_forward(self):
        register = self._torch.nn.modules.module.register_module_forward_pre_hook
        self._first_forward = register(self._as_hook(self._at_first_forward))

    def before_compiling(self):
        """torch.compile must not see the hook of the first forward: it would compile again without."""
        if self._first_forward is not None:
            self._forget_first_forward()
            if self._torch.cuda.is_initialized():
                self.tell_now([])

    def at_exit(self):
        """Names tensors that live to the end, also for programs without an optimizer or that failed."""
        if self._torch.cuda.is_initialized():
            optimizer = self._torch.optim.Optimizer
            self._safely(lambda: self._tell_all(_alive(optimizer)))

    def _as_hook(self, tell):
        is_compiling = getattr(self._torch.compiler, "is_compiling", bool)
        safely = self._safely

        def hook(owner, *arguments):
            if is_compiling():
                return
            safely(tell, owner)

        return hook

    def _safely(self, tell, *arguments):
        if self._is_off:
            return
        was_enabled = gc.isenabled()
        gc.disable()  # garbage of the program is collected when it would be without us
        try:
            with self._torch._C.DisableTorchFunction():
                tell(*arguments)
        except Exception as error:
            self._is_off = True
            text = f"gpumemtrace: names of tensors end here: {type(error).__name__}: {error}"
            os.write(2, (text.replace("\n", " ") + "\n").encode("utf-8", "replace"))
        finally:
            if was_enabled:
                gc.enable()

    def _at_first_forward(self, module):
        if self._torch.cuda.is_initialized():
            self._forget_first_forward()
            self._tell_all([])

    def _forget_first_forward(self):
        if self._first_forward is not None:
            self._first_forward.remove()
            self._first_forward = None

    def _before_step(self, optimizer):
        parameters = sum(len(group["params"]) for group in optimizer.param_groups)
        steps = self._steps.get(optimizer)
        if steps is None or steps.parameters != parameters:
            steps = _OptimizerSteps(parameters)
            self._steps.set(optimizer, steps)
        if steps.left > 0:
            steps.owners = self._tell_all([optimizer])

    def _after_step(self, optimizer):
        steps = self._steps.get(optimizer)
        if steps is not None and steps.left > 0:
            steps.left -= 1
            for group in optimizer.param_groups:
                for parameter in group["params"]:  # also the gradients of a closure that step() called
                    self._tell_gradient(parameter, *steps.owners.get(id(parameter), ("", "")))
            self._tell_states(optimizer, steps.owners)
            steps.owners = {}

    def _tell_all(self, optimizers):
        """Gives the name and the layers of what was told, by its id."""
        owners = {}
        for root in self._find_roots():
            told = set(owners)  # with another root: the first name counts
            for module, name, layers in _modules_below(root, self._label(root)):
                self._tell_module(module, name and name + ".", layers, told, owners)
        for optimizer in optimizers:
            for i, group in enumerate(optimizer.param_groups):
                for j, parameter in enumerate(group["params"]):
                    if id(parameter) not in owners:
                        owners[id(parameter)] = f"param_groups[{i}].params[{j}]", ""
                        self._tell_parameter(parameter, *owners[id(parameter)])
            self._tell_states(optimizer, owners)
        return owners

    def _label(self, root):
        label = self._labels.get(root)
        if label is None:
            label = name = type(root).__name__
            number = 1 + sum(other.partition(" #")[0] == name for other in self._labels.values())
            if number > 1:
                label = f"{name} #{number}"
            self._labels.set(root, label)
        return label

    def _tell_module(self, module, prefix, layers, told, owners):
        for key, parameter in (getattr(module, "_parameters", None) or {}).items():
            if parameter is not None and id(parameter) not in told:
                owners.setdefault(id(parameter), (prefix + key, layers))
                self._tell_parameter(parameter, prefix + key, layers)
        for key, buffer in (getattr(module, "_buffers", None) or {}).items():
            if buffer is not None and id(buffer) not in told:
                owners.setdefault(id(buffer), (prefix + key, layers))
                self._tell(buffer, _BUFFER, prefix + key, "", layers)
        # The flat parameter of FullyShardedDataParallel, and what is gathered of it.
        flat = getattr(vars(module).get("_handle"), "flat_param", None)
        for key in ("_local_shard", "_full_param_padded", "_mp_shard"):
            shard = getattr(flat, key, None)
            if shard is not None:
                self._tell(shard, _PARAMETER, f"{prefix}_flat_param.{key}", "", layers)

    def _tell_parameter(self, parameter, name, layers):
        self._tell(parameter, _PARAMETER, name, "", layers)
        self._tell_gradient(parameter, name, layers)

    def _tell_gradient(self, parameter, name, layers):
        if parameter.is_leaf and parameter.grad is not None:
            self._tell(parameter.grad, _GRADIENT, name, "", layers)

    def _tell_states(self, optimizer, owners):
        for owner, entries in list(optimizer.state.items()):
            name, layers = owners.get(id(owner), ("", ""))
            for path, tensor in _tensors_in(self._torch, entries, ""):
                self._tell(tensor, _OPTIMIZER_STATE, name, path.lstrip("."), layers)
        for i, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                if isinstance(value, self._torch.Tensor):
                    self._tell(value, _OPTIMIZER_STATE, f"param_groups[{i}]", key, "")

    def _tell(self, tensor, role, name, state, layers):
        texts = [text.encode("utf-8", "replace") for text in (name, state, layers)]
        try:
            for part in _strided_parts(self._torch, tensor):
                storage = part.untyped_storage()
                _tensor(storage.data_ptr(), storage.nbytes(), role, *texts)
        except (NotImplementedError, RuntimeError):
            pass  # a tensor that stands for none, as in tracing: it has no storage


def annotate(model, optimizer=None):
    """Names what the model and its optimizer hold on GPUs: parameters, gradients, states, buffers.

    One call behind the line that makes the optimizer is enough: what is there is named now, what
    the first steps make is named in these. `gpumemtrace run --torch-names` does it without a call.
    """
    if _tensor is None:
        return
    names = _TensorNames(sys.modules["torch"], lambda: [model])
    names.tell_now([] if optimizer is None else [optimizer])
    if optimizer is not None:
        optimizer.register_step_pre_hook(names.before_step)
        optimizer.register_step_post_hook(names.after_step)


def name_tensors_of_process():
    """The same for all models and optimizers of the process; for the sitecustomize of torch_names.

    Gives what must be told before torch.compile is first used, or None.
    """
    torch = sys.modules["torch"]
    if _tensor is None:
        return None
    import atexit
    import importlib
    hooks = importlib.import_module("torch.optim.optimizer")  # torch.optim hides it
    names = _TensorNames(torch, lambda: _roots_of_process(torch))
    hooks.register_optimizer_step_pre_hook(names.before_step)
    hooks.register_optimizer_step_post_hook(names.after_step)
    if "torch._dynamo" not in sys.modules:
        names.tell_at_first_forward()
    atexit.register(names.at_exit)
    return names


def read(path, *, redact=False, symbols=(), timeline_points=None, last=None):
    """Reads a recording as tables: gives a gpumemtrace_reader.Recording.

    path: a trace, a folder with the traces of one job, or a report of `gpumemtrace analyze`.
    redact: private names are replaced by names without meaning.
    symbols: a folder with programs and debug information, or several.
    timeline_points: at most so many intervals in a row of the timeline (1,024 where nothing is said).
    last: of single allocations that ended, the last so many a process (200,000 where nothing is said).

    The result has the tables peak_holders, timeline, findings, allocations and frames, as pandas data
    frames, or as lists of dicts where pandas is not installed; the whole report as a dict in .report;
    and in a Jupyter cell it is the page of `gpumemtrace report`. Sizes are bytes, times nanoseconds since
    the start of the job. It runs the program gpumemtrace, which GPUMEMTRACE_PROGRAM can name, and writes
    nothing beside the input.

    Raises FileNotFoundError where there is no such file or no program, RuntimeError with the program's
    message where it fails: no trace, a broken one, or an option that a report cannot follow any more.
    """
    from gpumemtrace_reader import Recording
    return Recording(path, redact=redact, symbols=symbols, timeline_points=timeline_points, last=last)
