"""A case, and the three ways to list one: layers in a row (chains), graphs, functions."""

import zlib
from collections import namedtuple

#: expect: "ok", or "ok-or-refuse" for what npinfer may leave out. full: in all forms of files. policy: no float64 reference.
Case = namedtuple("Case", "tier name build expect note full policy")
FORMS = ("input", "built", "functional")
CHAINS, GRAPHS = [], []


def chains(tier, entries, full=(), maybe=()):
    """Add layers in a row. full: names that are saved in all forms of files; maybe: names that npinfer may refuse."""
    for name, entry in entries.items():
        build = chained(entry[0], entry[1], form_of(name), entry[2] if len(entry) > 2 else {})
        CHAINS.append(Case(tier, name, build, "ok-or-refuse" if name in maybe else "ok", "", name in full, False))


def form_of(name):
    """Which of the three forms a chain takes: fixed by its name, all three are used about as often."""
    return FORMS[zlib.crc32(name.encode()) % 3]


def chained(shape, layers, form, options):
    return lambda k: k.chain(shape, layers(k), form, **options)


def graph(tier, name=None, expect="ok", note="", full=False, policy=False):
    """Add a function as a case, under its own name with "-" for "_"."""

    def add(build):
        GRAPHS.append(Case(tier, name or build.__name__.replace("_", "-"), build, expect, note, full, policy))
        return build

    return add
