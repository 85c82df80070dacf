"""The networks that tests of bench and profile measure."""

from __future__ import annotations

from conftest import GOLDEN

DENSE = str(GOLDEN / "k35/t1-dense-inputlayer.h5")
PAIR = str(GOLDEN / "k3np/t2-multi-io.h5")
