// What C code is known to do that compiled functions may call: the table behind frontend/operations.h. A new function
// is a word in the row of its owner and its behaviour.
#pragma once

#include <string_view>

#include "frontend/operations.h"

// In a namespace of its own: some behaviours are named as classes of the folder are.
namespace saker::frontend::known {

struct Row {
  Behaviour behaviour;
  const char* owner;  // a module, or a type in one
  const char* names;  // of its attributes; "*": all of them, "": the owner itself, called
};

using enum Behaviour;

inline const Row rows[] = {
    // --- builtins ---
    {Pure, "builtins", "abs all any bin chr divmod hex max min oct ord pow round sorted sum iter"},
    {Text, "builtins", "ascii format repr str"},
    {Belongs, "builtins", "isinstance issubclass"},
    {Callable, "builtins", "callable"},
    {Shallow, "builtins", "locals globals __build_class__"},
    {Length, "builtins", "len"},
    {Identity, "builtins", "id hash"},
    {ReadsAttribute, "builtins", "getattr hasattr"},
    {WritesAttribute, "builtins", "setattr"},
    {DeletesAttribute, "builtins", "delattr"},
    {Advances, "builtins", "next"},
    {Host, "builtins", "print"},
    {Host, "saker._C", "print_text"},
    {Warns, "_warnings", "warn"},
    {Host, "_warnings", "_filters_mutated"},
    {Pure, "builtins",
     "bool bytearray bytes complex dict enumerate filter float frozenset int list map range reversed set slice "
     "tuple zip memoryview"},
    {Shallow, "builtins", "object property classmethod staticmethod super type"},
    // --- methods of builtin types ---
    {Text, "builtins.str", "format format_map __mod__"},
    {Pure, "builtins.str", "*"},
    {Pure, "builtins.bytes", "*"},
    {Pure, "builtins.int", "*"},
    {Pure, "builtins.bool", "*"},
    {Pure, "builtins.float", "*"},
    {Pure, "builtins.complex", "*"},
    {Pure, "builtins.range", "*"},
    {Pure, "builtins.slice", "*"},
    {Pure, "builtins.tuple", "*"},
    {Pure, "builtins.frozenset", "*"},
    {Pure, "builtins.list",
     "copy count index __add__ __mul__ __rmul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __contains__ "
     "__reversed__ __iter__ __new__ __repr__"},
    {Length, "builtins.list", "__len__"},
    {Lookup, "builtins.list", "__getitem__"},
    {Mutates, "builtins.list",
     "append clear extend insert pop remove reverse sort __setitem__ __delitem__ __iadd__ __imul__ __init__"},
    {Lookup, "builtins.dict", "get __getitem__ __contains__"},
    {Content, "builtins.dict", "items keys values copy __iter__ __reversed__ __or__ __ror__ __eq__ __ne__ __repr__"},
    {Length, "builtins.dict", "__len__"},
    {Mutates, "builtins.dict", "clear pop popitem setdefault update __setitem__ __delitem__ __ior__ __init__"},
    {Pure, "builtins.dict", "fromkeys __new__"},
    {Pure, "builtins.set",
     "copy difference intersection isdisjoint issubset issuperset symmetric_difference union __and__ __or__ "
     "__sub__ __xor__ __rand__ __ror__ __rsub__ __rxor__ __contains__ __iter__ __eq__ __ne__ __le__ __lt__ __ge__ "
     "__gt__ __new__"},
    {Length, "builtins.set", "__len__"},
    {Mutates, "builtins.set",
     "add clear difference_update discard intersection_update pop remove symmetric_difference_update update "
     "__iand__ __ior__ __isub__ __ixor__ __init__"},
    {Shallow, "builtins.object", "__new__ __init__ __init_subclass__ __subclasshook__ __class__"},
    {ReadsAttribute, "builtins.object", "__getattribute__"},
    {WritesAttribute, "builtins.object", "__setattr__"},
    {DeletesAttribute, "builtins.object", "__delattr__"},
    {Identity, "builtins.object", "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __repr__ __str__ __format__"},
    {Shallow, "builtins.BaseException", "__new__"},
    {OfError, "builtins.BaseException", "__init__ with_traceback add_note"},
    {Text, "builtins.BaseException", "__str__ __repr__"},
    {Shallow, "builtins.type", "__call__ __new__ __init__ __prepare__"},
    {OfClass, "builtins.type", "__instancecheck__ __subclasscheck__"},
    {Asks, "builtins.type", "mro __subclasses__"},
    {Shallow, "builtins.property", "getter setter deleter __get__ __init__"},
    {Shallow, "types.FunctionType", "__get__ __call__"},
    {Shallow, "types.MethodType", "__get__ __call__"},
    {Advances, "types.GeneratorType", "send throw close __next__"},
    {Shallow, "types.GeneratorType", "__iter__"},
    // --- the standard library ---
    {Pure, "math", "*"},
    {Pure, "_operator",
     "abs add and_ concat contains countOf eq floordiv ge getitem gt index indexOf inv invert is_ is_not le "
     "length_hint lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor itemgetter "
     "methodcaller attrgetter"},
    {Mutates, "_operator",
     "iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor setitem delitem"},
    {Pure, "itertools", "*"},
    {Pure, "itertools.chain", "from_iterable"},
    {Pure, "_bisect", "bisect_left bisect_right"},
    {Mutates, "_bisect", "insort_left insort_right"},
    {Mutates, "_heapq", "heapify heappop heappush heappushpop heapreplace _heapify_max _heappop_max _heapreplace_max"},
    {Pure, "posix", "fspath"},
    {Pure, "_struct", "calcsize pack unpack"},
    {Pure, "binascii", "a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 hexlify unhexlify"},
    {Pure, "zlib", "adler32 crc32"},
    {Shallow, "weakref", "ref"},
    {Pure, "collections.OrderedDict", "fromkeys __new__"},
    {Pure, "functools", "reduce cmp_to_key partial"},
    {Pure, "collections", "deque OrderedDict defaultdict"},
    {Mutates, "collections.deque",
     "append appendleft clear extend extendleft insert pop popleft remove reverse rotate __setitem__ "
     "__delitem__ __iadd__ __init__"},
    {Pure, "collections.deque", "copy count index __getitem__ __contains__ __iter__ __reversed__ __copy__"},
    {Length, "collections.deque", "__len__"},
    {Content, "collections.OrderedDict", "items keys values copy __iter__ __reversed__ __eq__"},
    {Mutates, "collections.OrderedDict",
     "clear move_to_end pop popitem setdefault update __setitem__ __delitem__ __ior__ __init__"},
    {Mutates, "collections.defaultdict", "__init__ __missing__"},
    {Content, "collections.defaultdict", "copy"},
    {Mutates, "_collections", "_count_elements"},
    {OfClass, "_abc", "_abc_instancecheck _abc_subclasscheck"},
    {Shallow, "_abc", "_abc_init"},
    {Asks, "_abc", "get_cache_token"},
    {Shallow, "sys", "intern is_finalizing getdefaultencoding"},
    {Shallow, "saker._C", "is_engaged trace_mode compile"},
    {Asks, "sys", "exc_info exception getrecursionlimit getswitchinterval"},
    {Shallow, "types", "SimpleNamespace MethodType"},
    {Pure, "types", "MappingProxyType"},
    {Lookup, "types.MappingProxyType", "get __getitem__ __contains__"},
    {Content, "types.MappingProxyType", "items keys values copy __iter__ __reversed__"},
    {Length, "types.MappingProxyType", "__len__"},
    {Pure, "types.SimpleNamespace", "__init__ __eq__ __repr__"},
    {ContextGet, "contextvars.ContextVar", "get"},
    {ContextSet, "contextvars.ContextVar", "set reset"},
    {Asks, "_thread", "get_ident"},
    {Shallow, "_thread", "allocate_lock RLock"},
    {Locks, "_thread.LockType", "acquire release __enter__ __exit__"},
    {Locks, "_thread.RLock", "acquire release __enter__ __exit__"},
    {Pure, "re.Pattern", "match search fullmatch split findall sub subn"},
    {Pure, "re.Match", "group groups groupdict start end span expand __getitem__"},
    {Pure, "_json", "encode_basestring encode_basestring_ascii scanstring make_encoder make_scanner"},
    // --- PyTorch ---
    {Shallow, "torch._C",
     "_get_tracing_state _is_autocast_available is_grad_enabled is_inference_mode_enabled _is_torch_function_enabled "
     "_has_torch_function "
     "_has_torch_function_unary _has_torch_function_variadic is_autocast_cpu_enabled "
     "get_autocast_gpu_dtype get_autocast_cpu_dtype is_autocast_cache_enabled _is_any_autocast_enabled "
     "get_default_dtype "
     "_len_torch_function_stack _len_torch_dispatch_stack _is_torch_function_mode_enabled "
     "_is_torch_function_all_disabled "
     "_log_api_usage_once _is_tracing _get_mkldnn_enabled is_anomaly_enabled "
     "_get_nested_int _are_functorch_transforms_active "
     "_get_deterministic_algorithms "
     "_get_deterministic_algorithms_warn_only _get_accelerator _accelerator_getAccelerator _get_grad_enabled "
     "_cuda_getDeviceCount "
     "_get_flash_sdp_enabled _get_math_sdp_enabled "
     "_get_mem_efficient_sdp_enabled _get_cudnn_sdp_enabled "
     "_dispatch_tls_is_dispatch_key_excluded "
     "_jit_is_script_object"},
    {Asks, "torch._C",
     "_get_cudnn_enabled _get_mkldnn_deterministic _is_multithreading_enabled _get_overrideable_sdp_enabled "
     "_get_cublas_allow_tf32 _get_cudnn_allow_tf32 _get_cudnn_benchmark _cuda_get_cudnn_benchmark_limit "
     "_get_cudnn_deterministic _get_cudnn_depthwise_kernel _cuda_isCurrentStreamCapturing _get_default_device "
     "get_num_threads get_num_interop_threads "
     "_get_float32_matmul_precision _get_fp32_precision_getter _get_deterministic_fill_uninitialized_memory "
     "_get_nnpack_enabled _get_warnAlways is_anomaly_check_nan_enabled _is_alias_of _get_sdp_priority_order "
     "_get_privateuse1_backend_name is_autocast_enabled get_autocast_dtype"},
    {Pure, "torch._C", "_group_tensors_by_device_and_dtype _infer_size"},
    {Asks, "torch._C.TensorBase", "_is_view"},
    {Asks, "torch._C._autograd", "_profiler_enabled"},
    {Sets, "torch._C",
     "_set_deterministic_algorithms _set_deterministic_fill_uninitialized_memory _set_default_dtype "
     "_set_float32_matmul_precision _set_fp32_precision_setter _set_cudnn_enabled _set_cudnn_benchmark "
     "_set_cudnn_deterministic _set_cudnn_depthwise_kernel _set_cudnn_allow_tf32 _set_cublas_allow_tf32 "
     "_cuda_set_cudnn_benchmark_limit "

     "_set_mkldnn_enabled _set_mkldnn_deterministic set_num_threads _set_nnpack_enabled "
     "_set_warnAlways"},
    {Sets, "torch._C._autograd", "_pop_saved_tensors_default_hooks"},
    {ReadsAttribute, "types.ModuleType", "__getattribute__"},
    {Shallow, "torch._C._functorch",
     "unwrap_if_dead maybe_get_level peek_interpreter_stack is_functorch_wrapped_tensor is_batchedtensor "
     "is_gradtrackingtensor "
     "get_unwrapped maybe_get_bdim"},
    {Shallow, "saker._C", "begin_region end_region"},
    {Shallow, "saker._C", "is_torch_fake"},  // in the place of torch._C._is_fake_tensor
    {Ambient, "torch._C._functorch", "_vmap_increment_nesting _vmap_decrement_nesting"},
    {Tensor, "torch._C._functorch", "_add_batch_dim _remove_batch_dim"},
    {Ambient, "torch._C",
     "_set_grad_enabled set_autocast_enabled set_autocast_dtype set_autocast_cache_enabled autocast_increment_nesting "
     "autocast_decrement_nesting clear_autocast_cache set_autocast_cpu_enabled set_autocast_gpu_dtype "
     "set_autocast_cpu_dtype"},
    {Ambient, "torch._C",
     "_set_sdp_use_flash _set_sdp_use_math _set_sdp_use_mem_efficient _set_sdp_use_cudnn _set_sdp_use_overrideable "
     "_set_sdp_use_fa4 "
     "_set_sdp_priority_order"},
    {Ambient, "torch._C", "_push_on_torch_function_stack _pop_torch_function_stack _get_function_stack_at"},
    {Ambient, "torch._C._autograd",
     "_saved_tensors_hooks_disable _saved_tensors_hooks_enable _saved_tensors_hooks_get_disabled_error_message"},
    {Gradients, "torch._C._ImperativeEngine", "run_backward"},
    {Ambient, "torch._C", "_is_fwd_grad_enabled _set_fwd_grad_enabled _enter_dual_level _exit_dual_level"},
    {Shallow, "_contextvars", "copy_context"},
    {Ambient, "torch._C._dynamo.compiled_autograd", "set_autograd_compiler"},
    {Ambient, "torch._C", "_stash_obj_in_tls _remove_obj_from_tls _is_anomaly_enabled"},
    {Ambient, "torch._C._functorch",
     "_grad_increment_nesting _grad_decrement_nesting _jvp_increment_nesting _jvp_decrement_nesting "
     "set_fwd_grad_enabled get_fwd_grad_enabled set_inplace_requires_grad_allowed "
     "get_inplace_requires_grad_allowed"},
    {Tensor, "torch._C._functorch", "_wrap_for_grad _unwrap_for_grad"},
    {Shallow, "torch._C._ImperativeEngine", "is_checkpoint_valid"},
    {Shallow, "torch._C", "DisableTorchFunctionSubclass DisableTorchFunction _InferenceMode"},
    {Ambient, "torch._C._InferenceMode", "__enter__ __exit__ __init__"},
    {Shallow, "torch._C.DisableTorchFunctionSubclass", "__enter__ __exit__ __init__ __new__"},
    {Shallow, "torch._C.DisableTorchFunction", "__enter__ __exit__ __init__ __new__"},
    {Pure, "torch", "device dtype Size finfo iinfo memory_format layout"},
    {Pure, "torch.return_types", "*"},
    {Tensor, "torch",
     "Tensor BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
     "ShortTensor"},
    {Pure, "torch.Size", "*"},
    {Pure, "torch.device", "*"},
    {Pure, "torch.dtype", "*"},
    {Pure, "torch.finfo", "*"},
    {Pure, "torch.iinfo", "*"},
    {Tensor, "torch._C._VariableFunctions", "*"},
    {Tensor, "torch._C._nn", "*"},
    {Tensor, "torch._C._linalg", "*"},
    {Tensor, "torch._C._fft", "*"},
    {Tensor, "torch._C._special", "*"},
    {Tensor, "torch._C._sparse", "*"},
    {Tensor, "torch._C._nested", "*"},
    {Tensor, "torch._C.TensorBase", "*"},
};

// Of tensors: what passes no operator, or does more than one.
inline constexpr std::string_view kNotOperators =
    " backward register_hook _register_hook retain_grad requires_grad_ share_memory_ is_shared resize_ resize_as_ "
    "resize_as_sparse_ data_ptr const_data_ptr is_set_to numpy tolist __array__ storage untyped_storage _storage "
    "_typed_storage "
    "_make_wrapper_subclass _make_dtensor __deepcopy__ __reduce_ex__ map_ map2_ apply_ "
    "storage_type type_ has_names rename_ refine_names _clear_non_serializable_cached_data module_load "
    "_fix_weakref _view_func _view_func_unsafe _rev_view_func_unsafe _use_count cuda xpu pin_memory is_pinned "
    "from_numpy frombuffer _from_dlpack from_dlpack _to_dlpack _sync _enable_functional _disable_functional "
    "_to_functional_tensor _from_functional_tensor _freeze_functional_tensor _is_functional_tensor "
    "set_num_threads get_num_threads manual_seed initial_seed seed __torch_function__ __torch_dispatch__ __new__ "
    "__init__ "
    "_dimI _dimV _has_grad_dtype_override register_post_accumulate_grad_hook _register_post_accumulate_grad_hook "
    "__setstate__ ";

// Attributes of tensors that C code computes: known from what is guarded, or from operators.
inline constexpr const char* kTensorAttributes[] = {"shape",
                                                    "dtype",
                                                    "device",
                                                    "requires_grad",
                                                    "is_leaf",
                                                    "ndim",
                                                    "layout",
                                                    "is_cuda",
                                                    "is_cpu",
                                                    "is_xla",
                                                    "is_xpu",
                                                    "is_mps",
                                                    "is_sparse",
                                                    "is_sparse_csr",
                                                    "is_quantized",
                                                    "is_meta",
                                                    "is_mkldnn",
                                                    "is_nested",
                                                    "is_vulkan",
                                                    "is_ipu",
                                                    "is_mtia",
                                                    "is_maia",
                                                    "is_hpu",
                                                    "T",
                                                    "mT",
                                                    "H",
                                                    "mH",
                                                    "real",
                                                    "imag",
                                                    "itemsize",
                                                    "nbytes",
                                                    "names",
                                                    "grad",
                                                    "data",
                                                    "__cuda_array_interface__",
                                                    "_has_symbolic_sizes_strides"};

struct Attribute {
  const char* owner;
  const char* names;
};

// Attributes of other C types that follow from the object's identity.
inline const Attribute attributes[] = {
    {"types.FunctionType",
     "__code__ __name__ __qualname__ __defaults__ __kwdefaults__ __dict__ __globals__ __closure__ __module__ __doc__ "
     "__annotations__ __builtins__ __type_params__"},
    {"types.MethodType", "__self__ __func__ __doc__"},
    {"types.BuiltinFunctionType", "__self__ __name__ __qualname__ __module__ __doc__ __text_signature__"},
    {"types.MethodDescriptorType", "__name__ __qualname__ __doc__ __objclass__ __text_signature__"},
    {"types.WrapperDescriptorType", "__name__ __qualname__ __doc__ __objclass__ __text_signature__"},
    {"types.MethodWrapperType", "__name__ __qualname__ __doc__ __self__ __objclass__"},
    {"types.GetSetDescriptorType", "__name__ __qualname__ __doc__ __objclass__"},
    {"types.CellType", "cell_contents"},
    {"types.CodeType",
     "co_name co_filename co_argcount co_flags co_varnames co_kwonlyargcount co_posonlyargcount co_consts "
     "co_names co_qualname co_firstlineno co_nlocals co_freevars co_cellvars"},
    {"types.ModuleType", "__dict__ __annotations__"},
    {"builtins.type",
     "__name__ __qualname__ __module__ __mro__ __bases__ __base__ __dict__ __doc__ __abstractmethods__ __flags__ "
     "__annotations__ __dictoffset__ __text_signature__"},
    {"builtins.super", "__thisclass__ __self__ __self_class__"},
    {"builtins.property", "fget fset fdel __doc__"},
    {"builtins.staticmethod", "__func__ __wrapped__ __dict__"},
    {"builtins.classmethod", "__func__ __wrapped__ __dict__"},
    {"builtins.object", "__class__"},
    {"builtins.int", "real imag numerator denominator"},
    {"builtins.float", "real imag"},
    {"builtins.complex", "real imag"},
    {"builtins.range", "start stop step"},
    {"builtins.slice", "start stop step"},
    {"builtins.BaseException", "args __traceback__ __context__ __cause__ __suppress_context__ __dict__"},
    {"builtins.StopIteration", "value"},
    {"builtins.KeyError", "args"},
    {"builtins.AttributeError", "name obj"},
    {"builtins.ImportError", "msg name path"},
    {"functools.partial", "func args keywords __dict__"},
    {"collections.deque", "maxlen"},
    {"collections.defaultdict", "default_factory"},
    {"types.GeneratorType", "gi_running gi_frame gi_code gi_yieldfrom __name__ __qualname__"},
    {"types.SimpleNamespace", "__dict__"},
    {"re.Pattern", "pattern flags groups groupindex"},
    {"re.Match", "string re pos endpos lastindex lastgroup"},
    {"torch.device", "type index"},
    {"torch.dtype", "is_floating_point is_complex is_signed itemsize"},
    {"torch.finfo", "bits eps max min tiny smallest_normal resolution dtype"},
    {"torch.iinfo", "bits max min dtype"},
};

inline constexpr const char* kValueTypes =
    "int float bool complex str bytes tuple list dict set frozenset range slice NoneType ellipsis NotImplementedType "
    "dict_keys dict_values dict_items mappingproxy OrderedDict odict_keys odict_values odict_items defaultdict deque "
    "Size dtype device memory_format layout type GenericAlias UnionType SimpleNamespace";

}  // namespace saker::frontend::known
