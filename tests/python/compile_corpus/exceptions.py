"""try, exceptions with causes and contexts, groups, what fails and is caught."""

import torch

from .world import changed, vec, world


def try_except():
    def fn(x):
        try:
            raise ValueError("no")
        except (TypeError, ValueError) as error:
            return x * len(error.args[0])

    return world(fn, vec())


def try_else_finally():
    def fn(x):
        log = []
        try:
            x = x + 1
        except ValueError:
            log.append("except")
        else:
            log.append("else")
        finally:
            log.append("finally")
        return x, log

    return world(fn, vec())


def return_in_finally():
    def fn(x):
        try:
            raise ValueError
        finally:
            return x * 2  # noqa: B012

    return world(fn, vec())


def nested_try():
    def fn(x):
        try:
            try:
                raise KeyError("a")
            except ValueError:
                return x
            finally:
                x = x + 1
        except KeyError:
            return x * 2

    return world(fn, vec())


def reraise():
    def fn(x):
        try:
            try:
                raise ValueError("first")
            except ValueError:
                x = x + 1
                raise
        except ValueError as error:
            return x, str(error)

    return world(fn, vec())


def exception_escapes():
    def fn(x):
        y = x + 1
        raise RuntimeError(f"shape {y.shape[0]}")

    return world(fn, vec())


def exception_with_a_cause_escapes():
    def fn(x):
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    return world(fn, vec())


def exception_with_a_context_escapes():
    def fn(x):
        try:
            {}["missing"]
        except KeyError:
            x.no_such_attribute

    return world(fn, vec())


def exception_from_none_escapes():
    def fn(x):
        try:
            1 / 0
        except ZeroDivisionError:
            raise ValueError("clean") from None

    return world(fn, vec())


def exception_after_effects_escapes():
    log = []

    def fn(x):
        log.append(1)
        x.add_(1)
        raise ValueError("late")

    return world(fn, vec(), state=lambda: log)


def error_of_an_operator_escapes():
    return world(lambda x, y: x @ y, vec(2, 3), vec(2, 3))


def error_of_an_operator_is_caught():
    def fn(x, y):
        try:
            return x @ y
        except RuntimeError as error:
            return x, "shapes" in str(error)

    return world(fn, vec(2, 3), vec(2, 3))


def error_depends_on_data():
    table, log = torch.arange(4.0), []

    def fn(index):
        log.append(1)
        return table[index]

    w = world(fn, torch.tensor([0, 1]), state=lambda: log)
    return changed(
        w, [lambda: setattr(w, "args", (torch.tensor([0, 9]),)), lambda: setattr(w, "args", (torch.tensor([3, 2]),))]
    )


def error_that_depends_on_data_is_caught():
    table = torch.arange(4.0)

    def fn(index):
        try:
            return table[index]
        except IndexError:
            return table * 0

    w = world(fn, torch.tensor([0, 1]))
    return changed(
        w, [lambda: setattr(w, "args", (torch.tensor([0, 9]),)), lambda: setattr(w, "args", (torch.tensor([3, 2]),))]
    )


def assertion():
    limit = [5]

    def fn(x):
        assert x.shape[0] < limit[0], f"too long: {x.shape[0]}"
        return x + 1

    return world(fn, vec(), changes=[lambda: limit.__setitem__(0, 2)])


def user_exception():
    class Stop(Exception):
        def __init__(self, value):
            super().__init__("stopped")
            self.value = value

    def fn(x):
        try:
            raise Stop(x + 1)
        except Stop as stop:
            return stop.value * 2

    return world(fn, vec())


def exception_is_returned():
    def fn(x):
        try:
            raise ValueError(x.shape[0])
        except ValueError as error:
            return x, error

    return world(fn, vec())


def exception_from_a_callee_is_returned():
    def deep(x):
        raise KeyError(x.shape[0], "k")

    def fn(x):
        try:
            deep(x)
        except KeyError as error:
            return x * 2, error

    return world(fn, vec())


def exception_with_a_cause_is_returned():
    class Own(ValueError):
        pass

    def fn(x):
        try:
            try:
                x = x + {}["a"]
            except KeyError as error:
                raise Own("own", 3) from error
        except Own as error:
            error.k = x * 2
            return error

    return world(fn, vec())


def exception_with_a_context_is_kept():
    kept = []

    def fn(x):
        try:
            try:
                raise ValueError(1)
            finally:
                raise TypeError(2)
        except TypeError as error:
            kept[:] = [error]
        return x + 1

    return world(fn, vec(), state=lambda: kept)


def exception_classes_change():
    kinds = [ValueError]

    def fn(x):
        try:
            raise KeyError("k")
        except tuple(kinds):
            return x + 1
        except LookupError:
            return x - 1

    return world(fn, vec(), changes=[lambda: kinds.append(KeyError)])


def exception_group():
    def fn(x):
        try:
            raise ExceptionGroup("many", [ValueError("a"), TypeError("b")])
        except* ValueError as group:
            x = x + len(group.exceptions)
        except* TypeError:
            x = x * 3
        return x

    return world(fn, vec())


def exception_group_escapes():
    def fn(x):
        try:
            raise ExceptionGroup("many", [ValueError("a"), TypeError("b")])
        except* ValueError:
            x = x + 1

    return world(fn, vec())


def failing_pop_is_caught():
    table = {"a": 1}

    def fn(x):
        try:
            table.pop("missing")
        except KeyError:
            x = x + 1
        return x

    return world(fn, vec(), state=table, changes=[lambda: table.update(missing=2)])


def failing_write_is_caught():
    items = [1]

    def fn(x):
        try:
            items[5] = x
        except IndexError:
            x = x + 1
        return x

    return world(fn, vec(), state=items, changes=[lambda: items.extend(range(9))])


def failing_delete_is_caught():
    class Box:
        pass

    box = Box()

    def fn(x):
        try:
            del box.k
        except AttributeError:
            x = x + 1
        return x

    return world(fn, vec(), state=box, changes=[lambda: setattr(box, "k", 1)])


def failing_removal_is_caught():
    items = [1, 2]

    def fn(x):
        try:
            items.remove(9)
        except ValueError:
            x = x - 1
        return x

    return world(fn, vec(), state=items, changes=[lambda: items.append(9)])


def attribute_error_is_caught():
    class Box:
        pass

    box = Box()

    def fn(x):
        try:
            return x * box.k
        except AttributeError:
            return x

    return world(
        fn, vec(), changes=[lambda: setattr(box, "k", 3), lambda: delattr(box, "k"), lambda: setattr(Box, "k", 5)]
    )


def key_error_is_caught():
    table = {}

    def fn(x):
        try:
            return x * table["k"]
        except KeyError:
            return x

    return world(fn, vec(), changes=[lambda: table.update(k=3), table.clear])
