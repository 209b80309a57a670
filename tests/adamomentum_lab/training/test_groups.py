"""Parameter groups: what a workload asks for, every contender gets."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.contender import Contender
from adamomentum_lab.contenders import find
from adamomentum_lab.engine.job import Job, execute
from adamomentum_lab.engine.spec import Spec
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.facts import caveats_of
from adamomentum_lab.training.groups import groups_of
from adamomentum_lab.workload import Workload
from tests.adamomentum_lab.contenders.user_optimizers import write_lion
from tests.adamomentum_lab.problems import HEAD

GROUPED = (
    HEAD
    + """
    def parameter_groups(self, model):
        matrices = [p for p in model.parameters() if p.ndim > 1]
        vectors = [p for p in model.parameters() if p.ndim < 2]
        return [
            {"params": matrices, "lr_factor": FACTOR},
            {"params": iter(vectors), "weight_decay_factor": 0.0},
        ]
"""
)


def problem(folder, factor=0.5, name="grouped.py"):
    file = folder / name
    file.write_text(GROUPED.replace("FACTOR", str(factor)))
    return find_workload(str(file))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))


def grouped(folder, **options):
    workload = problem(folder, **options).load()("smoke")
    model = network()
    return model, groups_of(workload, model)


def one_step(contender, model, groups, **settings):
    """What a step takes from each parameter."""
    optimizer = contender.build_for(model, groups, **settings)
    before = [param.detach().clone() for param in model.parameters()]
    torch.manual_seed(1)
    for param in model.parameters():
        param.grad = torch.randn_like(param)
    optimizer.step()
    return [old - param.detach() for old, param in zip(before, model.parameters(), strict=True)]


@pytest.mark.parametrize("name", contenders.names())
def test_every_contender_gets_them(name, tmp_path):
    contender = contenders.get(name)
    settings = contender.decoupled({**contender.settings, "weight_decay": 0.1})
    plain = one_step(contender, network(), (), **{**settings, "weight_decay": 0.0})
    decayed = one_step(contender, network(), (), **settings)
    model, groups = grouped(tmp_path)
    found = one_step(contender, model, groups, **settings)
    for i, (got, param) in enumerate(zip(found, model.parameters(), strict=True)):
        wanted = 0.5 * decayed[i] if param.ndim > 1 else plain[i]
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-7)


def test_a_users_class_and_function_get_them(tmp_path):
    file = write_lion(tmp_path)
    for name in ("Lion", "two_speeds"):
        contender = find(f"{file}:{name}")
        plain = one_step(contender, network(), ())
        model, groups = grouped(tmp_path)
        found = one_step(contender, model, groups)
        for i, (got, param) in enumerate(zip(found, model.parameters(), strict=True)):
            wanted = 0.5 * plain[i] if param.ndim > 1 else plain[i]
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-7)


def test_without_groups_nothing_changes(tmp_path):
    workload = find_workload("digits_mlp").load()("smoke")
    model = workload.model()
    optimizer = contenders.get("adamw").build_for(model, groups_of(workload, model))
    assert [len(group["params"]) for group in optimizer.param_groups] == [6]


def test_an_optimizer_of_one_group_says_so(tmp_path):
    with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
        find("torch.optim.LBFGS").build_for(*grouped(tmp_path))


def test_they_follow_the_schedule_and_a_run_resumes(tmp_path):
    """Half the lr for all is the same as half the lr."""
    origin = problem(tmp_path)
    file = origin.file
    file.write_text(
        file.read_text().replace('{"params": iter(vectors), "weight_decay_factor": 0.0}',
                                 '{"params": vectors, "lr_factor": 0.5}')
    )  # fmt: skip
    origin = find_workload(str(file))

    def spec(origin, lr):
        return Spec.of(
            {**contenders.get("adam").settings, "lr": lr},
            workload=origin.name, code=origin.code, optimizer="adam", seed=1, scale="smoke",
            protocol="fair",
        )  # fmt: skip

    for name in "abc":
        (tmp_path / name).mkdir()
    halved = execute(Job(spec(origin, 1e-2), origin, tmp_path / "a"))
    (tmp_path / "plain.py").write_text(HEAD)
    plain = find_workload(str(tmp_path / "plain.py"))
    assert execute(Job(spec(plain, 5e-3), plain, tmp_path / "b")).epochs == halved.epochs
    execute(Job(spec(origin, 1e-2), origin, tmp_path / "c", epochs=1))
    again = execute(Job(spec(origin, 1e-2), origin, tmp_path / "c"))
    assert again.epochs == halved.epochs


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("[{'lr_factor': 2.0}]", "gives a group without 'params'"),
        (
            "[{'params': model.parameters(), 'lr': 1e-3}]",
            (
                "gives a group with 'lr'; there are lr_factor and weight_decay_factor, by which "
                "those of each optimizer are multiplied"
            ),
        ),
        ("[{'params': [model[0].weight]}]", "leaves out 0.bias; every parameter must be in a"),
        ("[{'params': list(model.parameters())}] * 2", "has 0.weight in two groups"),
    ],
)
def test_groups_that_cannot_be_meant(groups, words):
    class Mine(Workload):
        data = loss = model = None

        def parameter_groups(self, model):
            return eval(groups)

    with pytest.raises(LabError, match=rf"^parameter_groups\(\) of Mine .*({words})"):
        groups_of(Mine(), network())


def matrices_apart(model):
    matrices = [param for param in model.parameters() if param.ndim > 1]
    rest = [param for param in model.parameters() if param.ndim < 2]
    return [
        {"params": matrices, "part": "matrices with momentum", "momentum": 0.9},
        {"params": rest, "part": "the rest without"},
    ]


def test_a_contender_has_groups_of_its_own_and_the_record_says_so(tmp_path):
    own = Contender(
        torch.optim.SGD,
        settings={"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0},
        decay="coupled",
        groups=matrices_apart,
        name="apart",
        source="me",
        summary="mine",
    )
    model, groups = grouped(tmp_path)
    built = own.build_for(model, groups, weight_decay=0.2).param_groups
    keys = ("lr", "momentum", "weight_decay", "part")
    assert [tuple(group[key] for key in keys) for group in built] == [
        (0.05, 0.9, 0.2, "matrices with momentum"),
        (0.1, 0.0, 0.0, "the rest without"),
    ]
    workload = problem(tmp_path).load()("smoke")
    (note,) = caveats_of([own, replace(own, groups=None)], workload)
    assert note == (
        "apart trains matrices with momentum: 0.weight and 3.weight; the rest without: 0.bias and "
        "3.bias"
    )
