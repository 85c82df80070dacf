"""npinfer beside its peers: the networks, what is measured of them, and the comparison of two commits or two results.

python -m benchmarks run           measure everything, write results/MACHINE.json and the pictures
python -m benchmarks report        what a result file says, as tables
python -m benchmarks compare A B   two result files, or two commits measured in turns

Nothing here measures by itself what `npinfer bench` can: npinfer/bench takes the times.
"""
