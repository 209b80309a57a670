"""The paper's Penn Treebank experiments: sequences, regularisation, carried state, settings."""

import copy
import functools
import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from adamomentum_lab import contenders
from adamomentum_lab.api import default_contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.race.facts import missing_settings
from adamomentum_lab.race.plan import base_settings
from adamomentum_lab.schedules import Moment, Restarted, Step
from adamomentum_lab.training.feed import feed, in_order
from adamomentum_paper.data.files import root
from adamomentum_paper.data.penn_treebank import penn_treebank
from adamomentum_paper.workloads import _ptb
from tests.adamomentum_lab.loops import loop_of, weights

NAMES = ["ptb_lstm1", "ptb_lstm2", "ptb_lstm3"]


@functools.cache
def read_text():
    """The real text where there is one, else random words. Read once: that takes a second."""
    if (root() / "penn-treebank").is_dir():
        return penn_treebank()
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(10_000, (n,), generator=generator) for n in (5_000, 900, 900)], []


@pytest.fixture
def text(monkeypatch):
    monkeypatch.setattr(_ptb, "penn_treebank", read_text)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        # Embedding and softmax 10,000 x 400 and 10,000; a layer 4 h (x + h + 2).
        ("ptb_lstm1", 4_010_000 + 4 * 400 * 802),
        ("ptb_lstm2", 4_010_000 + 4 * 1150 * 1552 + 4 * 400 * 1552),
        ("ptb_lstm3", 4_010_000 + 4 * 1150 * 1552 + 4 * 1150 * 2302 + 4 * 400 * 1552),
    ],
)
def test_parameter_counts(name, count):
    network = find_workload(name).load()("full", "paper").model()
    assert sum(param.numel() for param in network.parameters()) == count
    assert network.embedding.weight.abs().max() <= 0.1
    assert not network.bias.any()


def test_columns_and_sequences():
    workload = find_workload("ptb_lstm1").load()("smoke")
    text = torch.arange(20 * 1000)
    source = workload.source((text,), training=True)
    batches = list(feed(source, seed=3, epoch=0))
    inputs = torch.cat([x for x, _, _ in batches])
    assert torch.equal(inputs, text.view(20, 1000).t()[:-1])
    for x, y, length in batches:
        assert torch.equal(y, x + 1)
        assert len(x) == length or x is batches[-1][0]
    assert len(batches[-1][0]) < batches[-1][2]  # the text ends; the lr goes by what was drawn
    assert workload.lr_factor(batches[-1]) == batches[-1][2] / 70
    for got, expected in zip(feed(source, 3, 0, skip=4), batches[4:], strict=True):
        assert torch.equal(got[0], expected[0])
    half = next(feed(source, 3, 0, rank=1, world=2))
    assert torch.equal(half[0], batches[0][0][:, 1::2])


def test_lengths_of_sequences():
    order = torch.Generator().manual_seed(0)
    lengths = torch.tensor([_ptb.random_length(order) for _ in range(20_000)]).double()
    short = lengths < 52
    assert short.double().mean().item() == pytest.approx(0.05, abs=0.006)
    # Cut to whole words, so half a word less than N(70, 5).
    assert lengths[~short].mean().item() == pytest.approx(69.5, abs=0.15)
    assert lengths[~short].std().item() == pytest.approx(5.0, abs=0.15)
    assert lengths[short].mean().item() == pytest.approx(34.5, abs=0.6)
    workload = find_workload("ptb_lstm1").load()("smoke")
    assert workload.lr_factor((None, None, 35)) == 0.5
    # A last word alone is left out, as in the scripts.
    batches = list(in_order(workload.source((torch.arange(20 * 72),), training=False)))
    assert [len(x) for x, _, _ in batches] == [70]


def test_the_loss_and_its_regularisation(text):
    workload = find_workload("ptb_lstm2").load()("smoke", "paper")
    torch.manual_seed(0)
    model = workload.model().eval()
    x, y, length = next(in_order(workload.source(workload.splits().train, training=False)))
    loss = workload.loss(model, (x, y, length))
    logits, dropped, raw, _ = model(x, model.zero_state(20))
    plain = functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    slowness = ((raw[1:] - raw[:-1]) ** 2).mean()
    torch.testing.assert_close(loss, plain + 2 * (dropped**2).mean() + slowness)


def test_state_is_carried_and_cut_off(text):
    workload = find_workload("ptb_lstm1").load()("smoke", "paper")
    torch.manual_seed(0)
    model = workload.model().eval()
    batches = in_order(workload.source(workload.splits().train, training=False))
    first, second = next(batches), next(batches)
    workload.loss(model, first)
    carried = workload.state
    assert not carried[0][0].requires_grad
    _, _, _, after = model(first[0], model.zero_state(20))
    assert torch.equal(carried[0][0], after[0][0])
    one = workload.loss(model, second)
    workload.state = None
    assert not torch.equal(one, workload.loss(model, second))


def test_perplexity_against_one_word_at_a_time(text, monkeypatch):
    workload = find_workload("ptb_lstm2").load()("smoke", "paper")
    torch.manual_seed(0)
    model = workload.model().eval()
    words = workload.splits().test[0][:160]
    with torch.no_grad():
        scores = workload.evaluate(model, (words,))
        state, total = model.zero_state(1), 0.0
        for now, following in itertools.pairwise(words):
            logits, _, _, state = model(now.view(1, 1), state)
            total -= float(functional.log_softmax(logits.double().flatten(), 0)[following])
    assert scores["loss"] == pytest.approx(total / 159, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(total / 159), rel=1e-4)


def test_as_run_freezes_the_recurrent_matrices(text):
    for protocol, frozen in (("as-run", True), ("paper", False), ("fair", False)):
        loop = loop_of(find_workload("ptb_lstm2").load()("smoke", protocol))
        before = copy.deepcopy(loop.model.state_dict())
        loop.run()
        for name, value in loop.model.state_dict().items():
            stays = frozen and "weight_hh" in name
            assert torch.equal(value, before[name]) == stays, (protocol, name)
    said = " ".join(find_workload("ptb_lstm2").load()("full", "as-run").caveats)
    assert "recurrent matrices stay at their initial values" in said
    assert "ON TEST" in said
    assert find_workload("ptb_lstm2").load()("full", "paper").caveats == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_run_continues_bit_for_bit_with_its_state(name, text, tmp_path):
    workload = find_workload(name).load()("smoke")
    workload.epochs = {"smoke": 2}
    whole = loop_of(workload)
    whole.run()
    per_epoch = whole.outcome.updates // 2
    updates = []
    half = per_epoch + per_epoch // 2
    stop = loop_of(
        find_workload(name).load()("smoke"),
        tmp_path,
        on_update=updates.append,
        stopped=lambda: len(updates) == half,
    )
    stop.epochs = 2
    assert stop.run().status == "stopped"
    again = find_workload(name).load()("smoke")
    again.epochs = {"smoke": 2}
    resumed = loop_of(again, tmp_path)
    assert resumed.run().status == "done"
    assert torch.equal(weights(whole), weights(resumed))
    assert whole.outcome.epochs == resumed.outcome.epochs


EPS = {  # of the paper, and of the scripts where they differ
    "adam": (1e-12, 1e-12, 1e-12, 1e-8),
    "adamw": (1e-12, 1e-12, 1e-12, 1e-8),
    "radam": (1e-12, 1e-12, 1e-12, 1e-8),
    "yogi": (1e-8, 1e-3, 1e-8, 1e-3),
    "adabound": (1e-8,) * 4,
    "adabelief": (1e-16, 1e-16, 1e-12, 1e-12),
    "adamomentum": (1e-16,) * 4,
}


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_settings_of_the_protocols(layers):
    cls = find_workload(f"ptb_lstm{layers}").load()
    for i, protocol in enumerate(("paper", "as-run")):
        for name, eps in EPS.items():
            settings = base_settings(name, cls, protocol)
            contenders.get(name).build([nn.Parameter(torch.zeros(1))], **settings)
            assert settings["eps"] == eps[i if layers == 1 else 2 + i]
            assert settings["weight_decay"] == (1.2e-6 if i else 1.2e-4)
            large = name in ("yogi", "adabound") or (name in ("adam", "adabelief") and layers > 1)
            assert settings["lr"] == (1e-2 if large else 1e-3)
        sgd = base_settings("sgdm", cls, protocol)
        assert (sgd["lr"], sgd["momentum"]) == (30.0, 0.0 if i else 0.9)
    # Under `fair` they are where the search starts, and all others start from their defaults.
    for name, stated in {"sgdm": {"lr": 30.0}, "adabound": {"final_lr": 30.0}, "adam": {}}.items():
        assert base_settings(name, cls, "fair") == {**contenders.get(name).settings, **stated}
    raced = default_contenders(cls, "fair")
    assert [one.name for one in raced] == [*contenders.STANDARD]
    assert missing_settings(raced, cls, "fair") == ()
    assert base_settings("adamomentum", cls, "as-run")["decoupled_weight_decay"] is False
    # The controls have the settings of those they control.
    adam, ours = (base_settings(name, cls, "as-run") for name in ("adam", "adamomentum"))
    assert base_settings("adam-translated", cls, "as-run") == {**adam, "lr": 1e-3}
    del ours["rectify"]
    assert base_settings("adamomentum-debiased", cls, "as-run") == ours
    assert base_settings("eadam", cls, "as-run") == ours
    outer = {**ours, "eps": contenders.get("adamomentum-outer-eps").settings["eps"]}
    assert base_settings("adamomentum-outer-eps", cls, "as-run") == outer
    workload = cls("full")
    lrs = [workload.schedule.lr(1.0, Moment(0, e, 200)) for e in (99.9, 100, 144.9, 145, 199)]
    assert lrs == pytest.approx([1, 0.1, 0.1, 0.01, 0.01])


def test_the_switch_of_the_scripts():
    restarted = Restarted(Step(at=(0.5, 0.725), factor=0.1), patience=5)
    falling = [100.0 - i for i in range(120)]

    def lr(history, epoch):
        return restarted.lr(30.0, Moment(0, epoch, 200, tuple(history)))

    assert lr(falling[:99], 99.5) == 30.0
    assert lr(falling[:100], 100) == pytest.approx(3.0)
    # Epoch 121 (0-based 120) is above the best of those more than five before it.
    stalled = [*falling, 200.0]
    assert lr(stalled[:-1], 120) == pytest.approx(3.0)
    assert lr(stalled, 121) == pytest.approx(30.0)
    assert lr([*stalled, *[300.0] * 30], 151) == pytest.approx(3.0)
    early = [*falling[:10], 200.0, *falling[10:]]
    assert lr(early[:11], 11) == 30.0
    assert lr(early[:121], 121) == pytest.approx(3.0)
    # Too few epochs to compare with.
    assert lr([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 100) == pytest.approx(3.0)
    workload = find_workload("ptb_lstm1").load()
    assert isinstance(workload("full", "as-run").schedule_of("sgdm"), Restarted)
    assert isinstance(workload("full", "as-run").schedule_of("adam"), Step)
    assert isinstance(workload("full", "paper").schedule_of("sgdm"), Step)


def test_without_its_average_asgd_is_sgd():
    """Why the scripts' switch to ASGD is a restart of the lr, with a lag of one update."""
    torch.manual_seed(0)
    start = torch.randn(50)
    one, two = (nn.Parameter(start.clone()) for _ in range(2))
    averaging = torch.optim.ASGD([one], lr=0.3, t0=0, lambd=0.0, weight_decay=1.2e-6)
    plain = torch.optim.SGD([two], lr=0.3, weight_decay=1.2e-6)
    lrs = [0.3, *(0.3 * float(factor) for factor in torch.rand(40))]
    for before, now in itertools.pairwise([0.3, *lrs]):
        gradient = torch.randn(50)
        one.grad, two.grad = gradient.clone(), gradient.clone()
        averaging.param_groups[0]["lr"], plain.param_groups[0]["lr"] = now, before
        averaging.step()
        plain.step()
    torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_one_step_of_the_full_network(name):
    workload = find_workload(name).load()("full", "paper")
    torch.manual_seed(0)
    model = workload.model()
    optimizer = contenders.get("adamomentum").build(model.parameters())
    batch = (torch.randint(10_000, (5, 2)), torch.randint(10_000, (5, 2)), 5)
    workload.loss(model, batch).backward()
    before = scalars_of(model)
    optimizer.step()
    assert torch.isfinite(scalars_of(model)).all()
    assert not torch.equal(before, scalars_of(model))


def scalars_of(model):
    return torch.cat([param.detach().flatten().clone() for param in model.parameters()])
