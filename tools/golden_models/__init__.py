"""The networks that make_golden.py saves, as data.

Each is a function of a Kit (`k.Dense(3)`, `k.input((6,))`, `k.model(inputs, outputs)`), so that one list serves every Keras. A
network that a version can't build is left out there. Python 3.6 or newer; imports nothing but its lists. kit.py is that Kit,
arrays.py draws weights and inputs.
"""

from golden_models import dense, functions, graphs, recurrent, sequences, spatial
from golden_models.cases import CHAINS, GRAPHS, Case

MODELS = CHAINS + GRAPHS
__all__ = ["MODELS", "Case", "dense", "functions", "graphs", "recurrent", "sequences", "spatial"]
