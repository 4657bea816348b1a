"""What the fuzzer over pairs makes its programs of: subjects, each with objects, ways to read them, and ways to change
them.

All is source text over one namespace. `setup` makes the objects. A statement reads them and gives what it saw to
`note`, or computes with the tensor `x`. A change has a random generator `rng`, a random value from `value()` and a
random tensor from `tensor()`. What a change in `shared` does is seen by the whole process: it is made once for both
worlds, and `undo` is run at the end.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    setup: str
    statements: tuple[str, ...]
    changes: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    undo: str = ""


SUBJECTS: dict[str, Subject] = {}

SUBJECTS["classes"] = Subject(
    setup="""
class Base:
    "doc of Base"
    level = 1
    size: int = 3
    def scaled(self, k): return self.level * k
    def __len__(self): return 2
class Mixed:
    level = 5
    def scaled(self, k): return self.level - k
class Node(Base):
    def __init__(self): self.own = 1
    @property
    def twice(self): return self.level * 2
    @classmethod
    def made(cls): return cls.level
    @staticmethod
    def plain(): return 4
    def scaled(self, k): return super().scaled(k) + 1
class Other(Mixed):
    pass
node = Node()
other = Node()
KINDS = (Base, int)
class Meta(type):
    extra = 3
    def __len__(cls): return 4
class Metaed(metaclass=Meta):
    level = 2
class Checked(type):
    def __instancecheck__(cls, o): return hasattr(o, "own")
class Check(metaclass=Checked): pass
""",
    statements=(
        "x = x * node.level",
        "note(node.scaled(3))",
        "note(node.twice)",
        "note(Node.made(), Node.plain())",
        "note(len(node))",
        "note(bool(node))",
        "note(isinstance(node, Base), isinstance(node, Mixed))",
        "note(isinstance(node, KINDS))",
        "note(issubclass(Node, Base), issubclass(Node, KINDS))",
        "note(Node.__bases__, Node.__base__)",
        "note(Node.__mro__)",
        "note(Node.mro())",
        "note(Base.__subclasses__())",
        "note(Base.__doc__, Node.__doc__)",
        "note(Node.__module__)",
        "note(Node.__name__, Node.__qualname__)",
        "note(Base.__annotations__)",
        "note(list(Node.__dict__))",
        "note(sorted(vars(node)))",
        "note(hasattr(node, 'late'), hasattr(Node, 'late'))",
        "note(getattr(Node, 'late', 0))",
        "note(repr(Node))",
        "note(str(type(node)))",
        "note(f'{Node}')",
        "note(callable(node))",
        "note(abs(node))",
        "note(node == other, node != other)",
        "note(node < other)",
        "note(node + 1)",
        "note(node[0])",
        "note(0 in node)",
        "note(list(node))",
        "note(hash(node) == hash(node))",
        "note(repr(node)[:5])",
        "note(f'{node!s:.4}')",
        "note(int(node))",
        "note(-node)",
        "note(sum([node, node], 0))",
        "note(sorted([node, other]) == [node, other])",
        "note(max(node, other) is node)",
        "note(type(node).level)",
        "note(node.__class__.__name__)",
        "note(Metaed.extra, Metaed.level, len(Metaed))",
        "note(isinstance(node, Check))",
        "note(super(Node, node).level)",
        "note(node.own)",
        "note(dir(node)[-1])",
        "note(round(node))",
        "note(node(1))",
        "with node as got:\n    note(got)",
        "match node:\n    case Base(): note('base')\n    case _: note('none')",
        "match node:\n    case Base(level): note(level)",
        "try:\n    raise Failing('a')\nexcept KeyError: note('key')\nexcept Exception: note('any')",
    ),
    changes=(
        "rng.choice([Base, Mixed, Node, Metaed]).level = value()",
        "node.level = value()",
        "node.__dict__.pop('level', None)",
        "Base.scaled = lambda self, k: k",
        "Node.scaled = lambda self, k: k + 2",
        "Node.twice = property(lambda self: 11)",
        "Node.made = classmethod(lambda cls: 12)",
        "Node.plain = staticmethod(lambda: 13)",
        "Node.__bases__ = rng.choice([(Base,), (Mixed,), (Base, Mixed), (Mixed, Base)])",
        "Fresh = type('Fresh', (rng.choice([Base, Node]),), {})",
        "Base.__doc__ = value()",
        "Node.__doc__ = value()",
        "Node.__module__ = value()",
        "Node.__name__ = rng.choice('PQR')",
        "Node.__qualname__ = rng.choice('PQR')",
        "Base.__annotations__['size'] = value()",
        "Base.__annotations__ = {'other': int}",
        "rng.choice([Base, Node]).late = value()",
        "'late' in vars(Base) and delattr(Base, 'late')",
        "Base.__len__ = lambda self: rng.randrange(2)",
        "Base.__bool__ = lambda self: False",
        "Node.__call__ = lambda self, a=0: a + 1",
        "'__call__' in vars(Node) and delattr(Node, '__call__')",
        "Node.__abs__ = lambda self: 8",
        "Node.__abs__ = lambda self: 9",
        "Node.__eq__ = lambda self, o: True",
        "Node.__hash__ = lambda self: 3",
        "Node.__lt__ = lambda self, o: rng is None",
        "Node.__gt__ = lambda self, o: False",
        "Node.__add__ = lambda self, o: 5",
        "Node.__radd__ = lambda self, o: 6",
        "Node.__getitem__ = lambda self, i: [i][i]",
        "Node.__contains__ = lambda self, i: False",
        "Node.__iter__ = lambda self: iter([7])",
        "Node.__repr__ = lambda self: 'shown'",
        "Node.__str__ = lambda self: 'told'",
        "Node.__format__ = lambda self, s: 'formed'",
        "Node.__int__ = lambda self: 3",
        "Node.__neg__ = lambda self: -3",
        "Node.__round__ = lambda self: 4",
        "Node.__getattr__ = lambda self, name: 21",
        "'__getattr__' in vars(Node) and delattr(Node, '__getattr__')",
        "Node.__getattribute__ = lambda self, n: 9 if n == 'level' else object.__getattribute__(self, n)",
        "'__getattribute__' in vars(Node) and delattr(Node, '__getattribute__')",
        "Node.__enter__ = lambda self: 1; Node.__exit__ = lambda self, *a: None",
        "Node.__enter__ = lambda self: 2; Node.__exit__ = lambda self, *a: None",
        "Node.__match_args__ = rng.choice([('own',), ('level',)]); Base.__match_args__ = Node.__match_args__",
        "node.__class__ = rng.choice([Node, type('Deep', (Node,), {})])",
        "node = rng.choice([node, Node(), Other()])",
        "other = rng.choice([node, Node()])",
        "KINDS = rng.choice([(Base, int), (str,), (Node,), (Mixed, float)])",
        "Meta.extra = value()",
        "Meta.__len__ = lambda cls: 6",
        "Checked.__instancecheck__ = lambda cls, o: False",
        "node.own = value()",
        "Failing = rng.choice([KeyError, ValueError])",
    ),
)
SUBJECTS["classes"] = Subject(
    SUBJECTS["classes"].setup + "class Failing(KeyError): pass\n",
    SUBJECTS["classes"].statements,
    (*SUBJECTS["classes"].changes, "Failing.__bases__ = rng.choice([(KeyError,), (LookupError,)])"),
)

SUBJECTS["functions"] = Subject(
    setup="""
import functools
def outer(k):
    def inner(v, a=1, *, b=2):
        "doc of inner"
        return v + a * b + k
    return inner
helper = outer(3)
def twin(v, a=1, *, b=2): return v - a - b
helper.mark = 1
part = functools.partial(twin, 5, b=1)
class Holder:
    def method(self, v): return v * 2
holder = Holder()
bound = holder.method
cell = helper.__closure__[0]
@functools.wraps(twin)
def wrapped(*args): return twin(*args)
@functools.singledispatch
def kind(v): return "any"
def compared(o): return o
""",
    statements=(
        "x = helper(x)",
        "note(helper(1))",
        "note(helper(1, b=3))",
        "note(helper.__defaults__, helper.__kwdefaults__)",
        "note(helper.__code__.co_name, helper.__code__.co_argcount)",
        "note(helper.__doc__)",
        "note(helper.__name__, helper.__qualname__)",
        "note(helper.__module__)",
        "note(helper.__annotations__)",
        "note(helper.__dict__)",
        "note(getattr(helper, 'mark', None))",
        "note(helper.__closure__[0].cell_contents)",
        "note(cell.cell_contents)",
        "note(repr(helper)[:14])",
        "note(part(1))",
        "note(part.args, part.keywords, part.func.__name__)",
        "note(bound(4))",
        "note(bound.__doc__, bound.__name__)",
        "note(bound.__func__.__name__, bound.__self__ is holder)",
        "note(repr(bound)[:20])",
        "note(holder.method(3))",
        "note(wrapped(1), wrapped.__wrapped__.__name__)",
        "note(list(map(helper, [1, 2])))",
        "note(sorted([3, 1, 2], key=compared))",
        "note(helper is twin)",
        "note(vars(helper))",
        "note(helper.__globals__ is globals())",
    ),
    changes=(
        "helper.__defaults__ = (value(),)",
        "helper.__kwdefaults__ = {'b': rng.randrange(4)}",
        "helper.__kwdefaults__['b'] = rng.randrange(4)",
        "helper.__code__ = rng.choice([outer(0).__code__, (lambda k: (lambda v, a=1, *, b=2: v + k))(0).__code__])",
        "helper.__doc__ = value()",
        "helper.__name__ = rng.choice('pqr')",
        "helper.__qualname__ = rng.choice('pqr')",
        "helper.__module__ = value()",
        "helper.__annotations__ = {'v': int}",
        "helper.__annotations__['w'] = value()",
        "helper.mark = value()",
        "helper.__dict__.pop('mark', None)",
        "cell.cell_contents = rng.randrange(5)",
        "cell.cell_contents = rng.randrange(5)",
        "helper = rng.choice([helper, outer(rng.randrange(3)), twin])",
        "part.keywords['b'] = rng.randrange(4)",
        "part.__setstate__((twin, (rng.randrange(3),), {}, None))",
        "part = functools.partial(twin, rng.randrange(3))",
        "twin.__defaults__ = (rng.randrange(3),)",
        "twin.__code__ = (lambda v, a=1, *, b=2: a).__code__",
        "Holder.method = lambda self, v: v * rng_k(rng)",
        "Holder.method.__doc__ = value()",
        "Holder.method.__name__ = rng.choice('pqr')",
        "Holder.method.__qualname__ = rng.choice('pqr')",
        "holder.method = lambda v: 0",
        "holder.__dict__.clear()",
        "bound = rng.choice([bound, holder.method, Holder().method])",
        "wrapped.__wrapped__ = rng.choice([helper, twin])",
        "compared.__code__ = (lambda o: -o).__code__",
        "compared.__code__ = (lambda o: o).__code__",
    ),
)

SUBJECTS["exceptions"] = Subject(
    setup="""
class Mine(ValueError):
    code = 3
error = Mine("first", 2)
stop = StopIteration(4)
missing = AttributeError("none", name="n", obj=1)
cause = KeyError("k")
""",
    statements=(
        "note(error.args)",
        "note(error.args[0])",
        "note(str(error))",
        "note(repr(error))",
        "note(f'{error}')",
        "note(error.__cause__)",
        "note(error.__context__)",
        "note(error.__suppress_context__)",
        "note(error.__traceback__ is None)",
        "note(getattr(error, '__notes__', None))",
        "note(error.code)",
        "note(stop.value)",
        "note(missing.name, missing.obj)",
        "note(isinstance(error, (ValueError, KeyError)))",
        "try:\n    raise error\nexcept ValueError as e: note(e.args)",
        "try:\n    raise error from cause\nexcept ValueError as e: note(e.__cause__.args)",
        "try:\n    raise Mine(1)\nexcept Mine as e: note(e.args, e.code, e.__context__)",
        "error.add_note('seen')",
        "error.args = (7,)",
        "note(len(error.args))",
    ),
    changes=(
        "error.args = (value(),)",
        "error.args = (value(), value())",
        "error.__cause__ = rng.choice([cause, None])",
        "error.__context__ = rng.choice([cause, None])",
        "error.__suppress_context__ = bool(rng.randrange(2))",
        "error.__traceback__ = None",
        "error.__notes__ = ['a']",
        "error.__dict__.pop('__notes__', None)",
        "error.code = value()",
        "Mine.code = value()",
        "stop.value = value()",
        "missing.name = value()",
        "missing.obj = value()",
        "cause.args = (value(),)",
        "error = rng.choice([error, Mine(value()), KeyError(1)])",
        "Mine.__str__ = lambda self: 'told'",
        "Mine.__bases__ = rng.choice([(ValueError,), (TypeError,)])",
    ),
)

SUBJECTS["cells"] = Subject(
    setup="""
import types
def cells():
    a, b, c = 1, 2.5, [1]
    def get(): return a, b, len(c)
    def put(v):
        nonlocal a
        a = v
    def drop():
        nonlocal b
        del b
    return get, put, drop
get, put, drop = cells()
loose = types.CellType(3)
empty = types.CellType()
made = (lambda free: (lambda: free))(0)
through = types.FunctionType(made.__code__, globals(), "through", None, (loose,))
""",
    statements=(
        "note(get())",
        "note(loose.cell_contents)",
        "note(through())",
        "note(loose == empty)",
        "note(get.__closure__[1].cell_contents)",
        "note(empty.cell_contents)",
        "put(rng_k(None))",
        "loose.cell_contents = 4",
    ),
    changes=(
        "put(value())",
        "loose.cell_contents = value()",
        "loose.cell_contents = tensor()",
        "empty.cell_contents = value()",
        "empty = types.CellType()",
        "get.__closure__[1].cell_contents = value()",
        "get.__closure__[2].cell_contents.append(1)",
        "get, put, drop = cells()",
    ),
)
