"""More subjects of the fuzzer over pairs: tensors, what is around a call, methods of PyTorch that are replaced, caches,
containers, modules, and parts of the standard library."""

from __future__ import annotations

from fuzz_subjects import SUBJECTS, Subject

SUBJECTS["tensors"] = Subject(
    setup="""
base = torch.arange(6.0)
held = base.clone()
pair = held
leaf = torch.ones(3, requires_grad=True)
class Tagged(torch.Tensor):
    tag = 1
tagged = torch.ones(3).as_subclass(Tagged)
""",
    statements=(
        "note(held._is_view())",
        "note(x._is_view())",
        "note(held._base is None)",
        "note(torch._C._is_alias_of(held, pair))",
        "note(torch._C._is_alias_of(x, held))",
        "note(held._version)",
        "note(held.is_leaf, held.requires_grad, leaf.requires_grad)",
        "note(held.grad_fn is None)",
        "note(leaf.grad is None)",
        "note(held.is_contiguous(), held.stride(), held.storage_offset())",
        "note(held.shape, held.dtype, held.dim(), held.numel())",
        "note(held.is_shared())",
        "note(held.data_ptr() == pair.data_ptr())",
        "note(held.is_set_to(pair))",
        "note(held.retains_grad)",
        "note(held.is_inference())",
        "note(getattr(held, 'mark', None))",
        "note(held is pair)",
        "note(held.names)",
        "note(held.is_conj(), held.is_neg())",
        "note(held.untyped_storage().nbytes())",
        "note(held._backward_hooks is None)",
        "note(tagged.tag, type(tagged + 1).__name__)",
        "x = x + held.sum()",
        "x = x * leaf",
        "note(leaf.grad)",
        "note(held.output_nr)",
        "note(torch.is_same_size(held, pair))",
        "note(held.max(0)[1])",
        "note(held.max(0).values)",
        "values, places = held.topk(2)\nnote(values, places)",
        "note(isinstance(held, Tagged))",
    ),
    changes=(
        "held = rng.choice([base, base[:], base.view(6), base.clone(), base[:3], base.double(), base[::2]])",
        "pair = rng.choice([held, base, base[:], held[:], held.clone()])",
        "leaf.grad = rng.choice([None, torch.ones(3)])",
        "leaf.requires_grad_(not leaf.requires_grad)",
        "leaf = torch.ones(3, requires_grad=bool(rng.randrange(2)))",
        "held.mark = value()",
        "held = leaf * 2",
        "held = torch.ones(3).share_memory_()",
        "held.add_(1) if not held.requires_grad else None",
        "held = torch.ones(2, 3).t()",
        "held = base.clone().requires_grad_()",
        "base = torch.arange(6.0) + rng.randrange(3)",
        "Tagged.tag = value()",
        "Tagged.__add__ = lambda self, o: torch.zeros(3)",
        "tagged = rng.choice([torch.ones(3), torch.ones(3).as_subclass(Tagged)])",
        "held = tagged",
        "view_argument = not view_argument",
    ),
)

SUBJECTS["interpreter"] = Subject(
    setup="""
import contextvars, sys, threading, warnings, logging, os
var = contextvars.ContextVar("var", default=1)
local = threading.local()
log = logging.getLogger("saker.fuzz." + WORLD)
lock, free = threading.Lock(), threading.Lock()
""",
    statements=(
        "note(sys.getrecursionlimit())",
        "note(threading.current_thread().name)",
        "note(threading.get_ident())",
        "note(threading.current_thread() is threading.main_thread())",
        "note(torch.get_default_dtype())",
        "x = x + torch.ones(3).sum().float()",
        "note(torch.is_grad_enabled())",
        "note((x * leafy).requires_grad)",
        "note(torch.get_num_threads())",
        "note(torch.are_deterministic_algorithms_enabled())",
        "note(torch.is_autocast_enabled('cpu'))",
        "note((x @ x).dtype)",
        "note(var.get())",
        "note(getattr(local, 'v', None))",
        "note(sys.exc_info()[0])",
        "note(sys.argv[0])",
        "note(os.environ.get('SAKER_FUZZ'))",
        "note('fuzz_dummy' in sys.modules)",
        "note(log.isEnabledFor(10))",
        "log.debug('here')",
        "note(log.level)",
        "note(sys.getswitchinterval())",
        "note(sys.flags.optimize)",
        "note(sys.maxsize)",
        "note(torch._C._get_tracing_state() is None)",
        "note(len(extras))",
        "note(lock.locked())",
        "with free: note(1)",
        "note(torch.get_float32_matmul_precision())",
        "note(torch.backends.cudnn.deterministic)",
        "note(torch.is_inference_mode_enabled())",
        "note(len('abc'))",
    ),
    changes=(
        "var.set(value())",
        "local.v = value()",
        "local.__dict__.clear()",
        "log.setLevel(rng.choice([10, 20, 30, 0]))",
        "log.disabled = bool(rng.randrange(2))",
        "log.propagate = bool(rng.randrange(2))",
        "log = logging.getLogger('saker.fuzz.' + WORLD)",
        "call_in_thread = not call_in_thread",
        "call_in_handler = not call_in_handler",
        "call_without_grad = not call_without_grad",
        "call_with_autocast = not call_with_autocast",
        "extras.append(1)",
        "lock.locked() or lock.acquire()",
        "lock.locked() and lock.release()",
        "len = rng.choice([lambda s: 9, __builtins__['len']])",
        "globals().pop('len', None)",
        "leafy = torch.ones(3, requires_grad=bool(rng.randrange(2)))",
    ),
    shared=(
        "sys.setrecursionlimit(1000 + rng.randrange(3))",
        "torch.set_default_dtype(rng.choice([torch.float32, torch.float64]))",
        "torch.use_deterministic_algorithms(bool(rng.randrange(2)))",
        "os.environ['SAKER_FUZZ'] = str(rng.randrange(3))",
        "os.environ.pop('SAKER_FUZZ', None)",
        "sys.modules['fuzz_dummy'] = sys",
        "sys.modules.pop('fuzz_dummy', None)",
        "torch.set_float32_matmul_precision(rng.choice(['highest', 'high']))",
        "threading.current_thread().name = rng.choice(['a', 'b'])",
        "logging.disable(rng.choice([0, 30]))",
        "sys.setswitchinterval(rng.choice([0.005, 0.01]))",
        "logging.getLogger('saker.fuzz').setLevel(rng.choice([10, 30]))",
    ),
    undo="""
sys.setrecursionlimit(1000); torch.set_default_dtype(torch.float32); torch.use_deterministic_algorithms(False)
os.environ.pop('SAKER_FUZZ', None); sys.modules.pop('fuzz_dummy', None); sys.setswitchinterval(0.005)
torch.set_float32_matmul_precision('highest'); threading.current_thread().name = 'MainThread'; logging.disable(0)
logging.getLogger('saker.fuzz').setLevel(30)
""",
)
SUBJECTS["interpreter"] = Subject(
    SUBJECTS["interpreter"].setup + "leafy = torch.ones(3, requires_grad=True)\nextras = []\n",
    *(getattr(SUBJECTS["interpreter"], name) for name in ("statements", "changes", "shared", "undo")),
)

SUBJECTS["replaced"] = Subject(
    setup="""
import math
from torch import nn
import torch.nn.functional as F
class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3)); self.k = 2
        self.register_buffer("shift", torch.ones(3))
        self.inner = nn.Linear(3, 3, bias=False); nn.init.ones_(self.inner.weight)
    def forward(self, x): return (self.inner(x) if self.k > 3 else x) * self.weight.detach() + self.shift * self.k
module = Module()
""",
    statements=(
        "x = x * 2",
        "x = 2 * x",
        "x = x + x",
        "x = -x",
        "x = x.add(1)",
        "x = abs(x)",
        "note((x > 0).dtype)",
        "note(x[0])",
        "note(len(x))",
        "x = F.relu(x)",
        "x = torch.add(x, 1)",
        "x = module(x)",
        "note(module.training)",
        "note(sum(p.numel() for p in module.parameters()))",
        "note([n for n, _ in module.named_parameters()])",
        "note(math.floor(2.5))",
        "x = x.clamp(min=0)",
        "x = x.mul(3)",
        "y = x.clone(); y *= 2; note(y)",
        "x = module.inner(x)",
        "note(isinstance(module, nn.Module))",
        "note(hasattr(x, 'fresh'))",
        "note(list(module.state_dict()))",
        "x = nn.functional.linear(x, module.inner.weight)",
    ),
    changes=(
        "module.k = rng.randrange(6)",
        "module.train(not module.training)",
        "module.weight = nn.Parameter(torch.full((3,), float(rng.randrange(3))))",
        "module.shift = torch.full((3,), float(rng.randrange(3)))",
        "module.forward = lambda x: x + 1",
        "module.__dict__.pop('forward', None)",
        "Module.forward = lambda self, x: x - 1",
        "module.inner = nn.Identity()",
        "module.inner = nn.Linear(3, 3, bias=False).requires_grad_(False); nn.init.ones_(module.inner.weight)",
        "module.register_forward_pre_hook(lambda m, a: (a[0] + 1,))",
        "module.extra = nn.Parameter(torch.ones(2))",
        "module._forward_pre_hooks.clear()",
        "module.__class__ = type('Module', (Module,), {'forward': lambda self, x: x * 5})",
        "module = Module()",
    ),
    shared=(
        "torch.Tensor.__mul__ = lambda a, b: torch.add(a, 100)",
        "torch.Tensor.__rmul__ = lambda a, b: torch.add(a, 200)",
        "torch.Tensor.__add__ = lambda a, b: torch.mul(a, 50)",
        "torch.Tensor.__neg__ = lambda a: torch.mul(a, 7)",
        "torch.Tensor.add = lambda a, b: torch.mul(a, 3)",
        "torch.Tensor.__getitem__ = lambda a, i: 'item'",
        "torch.Tensor.__len__ = lambda a: 17",
        "torch.Tensor.__abs__ = lambda a: torch.mul(a, 4)",
        "torch.Tensor.__imul__ = lambda a, b: torch.mul(a, 4)",
        "torch.Tensor.__gt__ = lambda a, b: a",
        "torch.Tensor.fresh = 1",
        "torch.nn.Linear.forward = lambda self, x: x * 9",
        "torch.nn.Module.__getattr__ = GETATTR",
        "torch.nn.functional.relu = torch.tanh",
        "torch.add = torch.sub",
        "torch.nn.Module.parameters = lambda self: iter(())",
        "math.floor = math.ceil",
        "torch.nn.Parameter.clamp = lambda a, min: a",
        "restore()",
        "restore()",
        "restore()",
    ),
    undo="restore()",
)

SUBJECTS["caches"] = Subject(
    setup="""
import functools, weakref
count = [0]
@functools.lru_cache(maxsize=2)
def table(n, k=1):
    count[0] += 1
    return torch.full((3,), float(n + count[0] * factor))
@functools.cache
def number(n):
    count[0] += 1
    return n + count[0]
@functools.lru_cache(maxsize=1)
def single(n):
    count[0] += 1
    return [n, count[0]]
factor = 10
class Lazy:
    @functools.cached_property
    def value(self): return factor
    @functools.lru_cache
    def method(self, n): return n + factor
lazy = Lazy()
class Thing: pass
thing = Thing()
ref = weakref.ref(thing)
""",
    statements=(
        "x = x + table(1)",
        "note(table(2))",
        "note(table(1, k=2))",
        "note(number(3))",
        "note(number((1, 2)))",
        "note(single(1))",
        "note(single(1) is single(1))",
        "note(single(1), single(2))",
        "note(count[0])",
        "note(table.cache_info())",
        "note(number.cache_info())",
        "note(lazy.value)",
        "note(lazy.method(1))",
        "note(ref() is None)",
        "note(table.__wrapped__(1))",
    ),
    changes=(
        "table.cache_clear()",
        "number.cache_clear()",
        "single.cache_clear()",
        "table(rng.randrange(5))",
        "table(rng.randrange(5)); table(rng.randrange(5))",
        "single(rng.randrange(3))",
        "number(rng.randrange(3))",
        "factor = rng.randrange(20)",
        "count[0] += rng.randrange(2)",
        "lazy = rng.choice([lazy, Lazy()])",
        "lazy.__dict__.clear()",
        "lazy.value = value()",
        "Lazy.method.cache_clear()",
        "thing = Thing()",
        "ref = weakref.ref(thing)",
        "single(1).append(4)",
    ),
)

SUBJECTS["containers"] = Subject(
    setup="""
import collections, dataclasses, enum, types
numbers = [1, 2, 3]
names = {"a": 1, "b": 2}
nested = {"l": [1, (2, {"k": 3})]}
some = {1, 2}
queue = collections.deque([1, 2])
ordered = collections.OrderedDict(a=1, b=2)
default = collections.defaultdict(int)
proxy = types.MappingProxyType(names)
keys = names.keys()
Point = collections.namedtuple("Point", "a b")
point = Point(1, 2)
@dataclasses.dataclass
class Data:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)
data = Data()
class Color(enum.Enum):
    RED = 1
    BLUE = 2
color = Color.RED
space = types.SimpleNamespace(a=1)
cut = slice(0, 2)
text = bytearray(b"ab")
counter = collections.Counter("aab")
chain = collections.ChainMap({"a": 1}, names)
class Slotted:
    __slots__ = ("a", "b")
slotted = Slotted(); slotted.a = 1
mod = types.ModuleType("mod"); mod.v = 1
UNION = int | str
""",
    statements=(
        "note(numbers, len(numbers), 2 in numbers)",
        "note(numbers[-1], numbers[:2])",
        "note(list(names.items()), names.get('c'))",
        "note(nested['l'][1][1]['k'])",
        "note(repr(nested), str(numbers))",
        "note(sorted(some), len(some))",
        "note(list(queue), queue[0])",
        "note(list(ordered))",
        "note(default['q'] if 'q' in default else 0)",
        "note(default.default_factory)",
        "note(proxy['a'], len(proxy))",
        "note(list(keys))",
        "note(point, point.a, point._fields)",
        "note(data.a, data.b, data)",
        "note(data == Data())",
        "note(color, color.value, color.name)",
        "note(color is Color.RED)",
        "note(space.a, space)",
        "note((x + 0)[cut])",
        "note(cut.start)",
        "note(bytes(text))",
        "note(counter['a'], counter['z'])",
        "note(chain['a'])",
        "note(slotted.a)",
        "note(hasattr(slotted, 'b'))",
        "note(mod.v, getattr(mod, 'w', 0))",
        "note(mod.__dict__['v'])",
        "note(vars(mod).get('w'))",
        "note(mod.__name__, mod.__doc__)",
        "note(repr(mod))",
        "note(isinstance(numbers[0], UNION))",
        "note(isinstance(1, UNION))",
        "note(dataclasses.asdict(data))",
        "note(max(numbers, default=0), sum(numbers))",
        "note(numbers == [1, 2, 3], names == {'a': 1, 'b': 2})",
        "note('%s %s' % (numbers, names), '{}'.format(point))",
        "numbers.append(4)",
        "names['z'] = x",
        "note([*numbers], {**names}, (*queue,))",
        "note(tuple(zip(numbers, queue)))",
        "note(any(numbers), all(numbers))",
    ),
    changes=(
        "numbers.append(rng.randrange(3))",
        "numbers and numbers.pop()",
        "numbers.reverse()",
        "numbers = [rng.randrange(3)]",
        "names[rng.choice('abc')] = value()",
        "names.pop(rng.choice('abc'), None)",
        "names['a'] = names.pop('a', 0)",
        "nested['l'][1][1]['k'] = value()",
        "some ^= {rng.randrange(4)}",
        "queue.rotate(1)",
        "queue.append(value())",
        "ordered.move_to_end('a')",
        "default['q'] = value()",
        "default.default_factory = rng.choice([int, list, None])",
        "keys = rng.choice([names.keys(), ordered.keys()])",
        "point = Point(value(), 2)",
        "point = rng.choice([Point(1, 2), (1, 2)])",
        "data.a = value()",
        "data.b.append(1)",
        "Data.__eq__ = lambda self, o: False",
        "Data.__repr__ = lambda self: 'data'",
        "color = rng.choice(list(Color))",
        "Color.RED._value_ = rng.randrange(9)",
        "space.a = value()",
        "cut = slice(rng.randrange(2), 3)",
        "text.append(99)",
        "counter['a'] += 1",
        "chain.maps[0]['a'] = value()",
        "slotted.a = value()",
        "slotted.b = value()",
        "mod.v = value()",
        "mod.w = value()",
        "mod.__name__ = rng.choice('pq')",
        "mod.__getattr__ = lambda name: 8",
        "UNION = rng.choice([int | str, str | float, int | None])",
    ),
)

SUBJECTS["library"] = Subject(
    setup="""
import abc, json, numbers as nums, re
class Shape(abc.ABC):
    pass
class Square: pass
square = Square()
pattern = re.compile("a(b*)")
word = "xabbz"
config = {"a": [1, 2.5, None]}
import operator
picked = operator.itemgetter(0)
named = operator.attrgetter("real")
items = [3, 1]
""",
    statements=(
        "note(isinstance(square, Shape))",
        "note(issubclass(Square, Shape))",
        "note(isinstance(items[0], nums.Integral))",
        "note(pattern.search(word).group(1))",
        "note(re.sub('b', 'c', word))",
        "note(re.match('x', word) is None)",
        "note(json.dumps(config))",
        "note(json.loads('[1, 2]'))",
        "note(picked(items), named(items[0]))",
        "note(word.upper(), word.split('b'))",
        "note(Shape.__abstractmethods__)",
        "note(pattern.pattern)",
    ),
    changes=(
        "Shape.register(rng.choice([Square, type('S', (), {})]))",
        "Square.__bases__ = rng.choice([(object,), (Shape,)]) if Square.__bases__ != (object,) else Square.__bases__",
        "square = rng.choice([Square(), type('Sub', (Shape,), {})()])",
        "pattern = re.compile(rng.choice(['a(b*)', 'a(b)', '(z)']))",
        "word = rng.choice(['xabbz', 'abz', 'yab'])",
        "config['a'] = value()",
        "config = {'b': value()}",
        "picked = operator.itemgetter(rng.randrange(2))",
        "items = [rng.randrange(4), 2]",
        "Shape.__abstractmethods__ = frozenset(rng.choice(['', 'f']))",
    ),
)
