# SPDX-License-Identifier: Apache-2.0
"""As much of PyTorch as names of tensors need: tensors in blocks of a caching allocator, modules,
optimizers, and the global hooks of both. Nothing is computed.
"""

import contextlib
import sys
import types

import zoo_cuda

strided, sparse_coo = object(), object()


class _Storage:
    def __init__(self, size_bytes):
        self._address = allocator().allocate(size_bytes)
        self._bytes = size_bytes

    def data_ptr(self):
        return self._address

    def nbytes(self):
        return self._bytes

    def __del__(self):
        if allocator is not None:
            allocator().free(self._address)


_allocator = []


def allocator():
    if not _allocator:
        _allocator.append(zoo_cuda.Allocator(zoo_cuda.Cuda()))
    return _allocator[0]


class Tensor:
    is_cuda = True
    is_leaf = True
    layout = strided

    def __init__(self, size_bytes, storage=None):
        self._storage = storage or _Storage(size_bytes)
        self.grad = None

    def untyped_storage(self):
        return self._storage

    def view(self):
        return type(self)(0, self._storage)


class _Parameter(Tensor):
    pass


class Sparse(Tensor):
    """Its bytes are in two tensors, and some questions to it are refused."""

    layout = sparse_coo

    def __init__(self, size_bytes):
        self._parts = Tensor(size_bytes), Tensor(size_bytes)

    def untyped_storage(self):
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    def _indices(self):
        return self._parts[0]

    def _values(self):
        return self._parts[1]


class Broken(Tensor):
    """Like a tensor of a trace: it has no storage."""

    def untyped_storage(self):
        raise NotImplementedError("no storage")


class _Handle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        self._hooks.remove(self._hook)


_forward_pre_hooks = []
_step_pre_hooks = []
_step_post_hooks = []


class Module:
    def __init__(self):
        self._modules, self._parameters, self._buffers = {}, {}, {}

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._modules[name] = value
        elif isinstance(value, _Parameter):
            self._parameters[name] = value
        object.__setattr__(self, name, value)

    def register_buffer(self, name, tensor):
        self._buffers[name] = tensor

    def parameters(self):
        for module in [self, *self._modules.values()]:
            yield from module._parameters.values() if module is self else module.parameters()

    def forward(self, *arguments):
        raise NotImplementedError

    def __call__(self, *arguments):
        for hook in list(_forward_pre_hooks):
            hook(self, arguments)
        return self.forward(*arguments)


class _Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters), "lr": 0.1}]
        self.state = {}
        self._pre_hooks, self._post_hooks = [], []

    def register_step_pre_hook(self, hook):
        return _Handle(self._pre_hooks, hook)

    def register_step_post_hook(self, hook):
        return _Handle(self._post_hooks, hook)

    def step(self, closure=None):
        for hook in [*_step_pre_hooks, *self._pre_hooks]:
            assert hook(self, (), {}) is None
        if closure is not None:
            closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter not in self.state:
                    self.state[parameter] = {"step": 1, "exp_avg": Tensor(parameter.untyped_storage().nbytes())}
        for hook in [*self._post_hooks, *_step_post_hooks]:
            hook(self, (), {})

    def zero_grad(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def backward(model):
    for parameter in model.parameters():
        parameter.grad = Tensor(parameter.untyped_storage().nbytes())


nn = types.SimpleNamespace(
    Module=Module, Parameter=_Parameter, modules=types.SimpleNamespace(module=types.SimpleNamespace(
        register_module_forward_pre_hook=lambda hook: _Handle(_forward_pre_hooks, hook))))
_hooks = types.ModuleType("torch.optim.optimizer")  # in sys.modules, and no attribute of torch.optim
_hooks.register_optimizer_step_pre_hook = lambda hook: _Handle(_step_pre_hooks, hook)
_hooks.register_optimizer_step_post_hook = lambda hook: _Handle(_step_post_hooks, hook)
sys.modules["torch.optim.optimizer"] = _hooks
optim = sys.modules["torch.optim"] = types.ModuleType("torch.optim")
optim.Optimizer = _Optimizer
compiling = [False]
compiler = types.SimpleNamespace(is_compiling=lambda: compiling[0])
cuda = types.SimpleNamespace(is_initialized=lambda: bool(_allocator))


def _is_cow_tensor(tensor):
    tensor.untyped_storage()
    return False


_C = types.SimpleNamespace(DisableTorchFunction=contextlib.nullcontext, _is_cow_tensor=_is_cow_tensor)
