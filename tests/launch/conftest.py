"""Leaves out the tests of SLURM itself where it isn't installed; see ``slurm_cluster``."""

from tests.launch import slurm_cluster

collect_ignore = [] if slurm_cluster.is_installed() else ["test_slurm.py"]
