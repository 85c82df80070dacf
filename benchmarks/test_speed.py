"""The same networks under pytest-benchmark (extra `bench`), for those who keep its history; benchmarks/pytest.ini keeps them in
one process:

pytest benchmarks --benchmark-autosave      then, on another commit,     pytest benchmarks --benchmark-compare
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npinfer
from benchmarks.networks import NETWORKS, write_h5

QUICK = [n for n in NETWORKS.values() if n.quick]


@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("network", QUICK, ids=lambda n: n.name)
def test_one_sample(benchmark: Any, network: Any, engine: str, tmp_path: Path) -> None:
    write_h5(network, tmp_path / "net.h5")
    model = npinfer.load(tmp_path / "net.h5", engine=engine)
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(s.shape[network.stream :]).astype(np.float32) for s in model.inputs]
    benchmark(model.bind(reuse_output=True, stream=network.stream), *xs)
