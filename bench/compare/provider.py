# SPDX-License-Identifier: Apache-2.0
"""What every provider is, and the two ways in which one may have nothing to time."""

import ctypes
import glob
import os
import sysconfig


class Absent(Exception):
    """The provider cannot be used on this machine; the message says what is missing."""


class Skip(Exception):
    """The provider does not serve this shape; the message says why."""


class Variant:
    """One way to do the call; of a provider's variants the fastest counts.

    launch(x, y) enqueues one call on torch's current stream: before a capture for warming up, and
    in it. `expects` is "softmax", of which the output may be multiplied by `scale`, or "copy".
    """

    def __init__(self, label, launch, expects="softmax", scale=1.0, facts=None):
        self.label = label
        self.launch = launch
        self.expects = expects
        self.scale = scale
        self.facts = facts or {}


class Provider:
    """name; open() once, which raises Absent; foresee(shapes) to come; variants(problem), which
    raises Skip; close()."""

    name = ""

    def open(self, torch):
        raise NotImplementedError

    def foresee(self, shapes):
        pass

    def variants(self, problem):
        raise NotImplementedError

    def close(self):
        pass


def open_library(names, packages=()):
    """The first of `names` that loads: where the loader looks, in CUDA's own folders, and in the
    folders of pip's nvidia packages. Raises Absent with every place tried."""
    site = sysconfig.get_paths()["purelib"]
    folders = [""]
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        folders += [os.path.join(root, "lib64")] if root else []
    for package in packages:
        folders += sorted(glob.glob(os.path.join(site, "nvidia", package, "lib")))
    tried = []
    for name in names:
        for folder in folders:
            path = os.path.join(folder, name)
            if folder and not os.path.exists(path):
                continue
            try:
                return ctypes.CDLL(path)
            except OSError as error:
                tried.append(str(error))
    raise Absent(f"no {' or '.join(names)}: {'; '.join(tried) or 'nowhere'}")
