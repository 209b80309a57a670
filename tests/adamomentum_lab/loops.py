"""A training loop for a workload, and whether it resumes bit for bit."""

import multiprocessing
import random

import torch

from adamomentum import AdaMomentum
from adamomentum_lab.engine.job import execute
from adamomentum_lab.training.checkpoints import Checkpoints
from adamomentum_lab.training.supervised import Supervised


def loop_of(workload, folder=None, seed=1, build=AdaMomentum, **options):
    checkpoints = Checkpoints(folder) if folder else None

    def build_for(model):
        return build(model.parameters())

    return Supervised(workload, build_for, seed, checkpoints=checkpoints, **options)


def weights(loop):
    return torch.cat([param.detach().flatten() for param in loop.model.parameters()])


def continues(workload, folder, after):
    """Whether a run that is stopped after so many updates ends as one that is not."""
    whole = loop_of(workload)
    whole.run()
    updates = []
    stop = loop_of(
        workload, folder, on_update=updates.append, stopped=lambda: len(updates) == after
    )
    assert stop.run().status == "stopped"
    resumed = loop_of(workload, folder)
    assert resumed.run().status == "done"
    assert whole.outcome.epochs == resumed.outcome.epochs
    return torch.equal(weights(whole), weights(resumed))


def _execute(job):
    execute(job)


# Its server imports torch once; its children start in milliseconds, with no parallel region before.
FORKSERVER = multiprocessing.get_context("forkserver")


def kill_until_done(job, kills, wait=None):
    """Execute a job in processes that are killed at random instants, but for the last."""
    FORKSERVER.set_forkserver_preload(["adamomentum_lab.engine.job"])
    moment = random.Random(0)
    wait = wait or (lambda process: process.join(moment.uniform(0.02, 0.5)))
    killed = 0
    for _ in range(200):
        process = FORKSERVER.Process(target=_execute, args=(job,))
        process.start()
        if killed < kills:
            wait(process)
        else:
            process.join()
        if not process.is_alive():
            assert process.exitcode == 0
            break
        process.kill()
        process.join()
        killed += 1
    assert killed >= kills
