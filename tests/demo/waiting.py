import time

from pgrelay.demo.workload import Workload


def run_to_end(workload: Workload) -> None:
    """Run a workload until its transactions end. Raises the error that ended it before."""
    with workload:
        while workload.running:
            time.sleep(0.01)
