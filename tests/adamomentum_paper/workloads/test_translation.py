"""Translation: batches, the loss, BLEU, settings, resumed runs."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch import nn

from adamomentum_lab import contenders
from adamomentum_lab.catalog import find_workload
from adamomentum_lab.errors import LabError
from adamomentum_lab.race.plan import base_settings
from adamomentum_lab.schedules import Moment
from adamomentum_lab.training.feed import feed, in_order
from adamomentum_paper.data.bpe import LearntBPE
from adamomentum_paper.data.files import root
from adamomentum_paper.data.parallel import END, PAD, Corpus, Pairs
from adamomentum_paper.workloads import _translation, iwslt14_transformer, multi30k_transformer
from tests.adamomentum_lab.loops import loop_of, weights
from tests.adamomentum_paper.sentences import invented

NAMES = ["multi30k_transformer", "iwslt14_transformer"]
HAS_MULTI30K = (root() / "multi30k-de-en").is_dir()
HAS_IWSLT = (root() / "iwslt14.tokenized.de-en").is_dir()


@pytest.fixture
def text(monkeypatch):
    """The real text where there is some, else an invented one."""
    if not HAS_MULTI30K:
        monkeypatch.setattr(multi30k_transformer, "multi30k", lambda split: invented(400))
    if not HAS_IWSLT:
        monkeypatch.setattr(iwslt14_transformer, "iwslt14", lambda split, whole: invented(400))
        monkeypatch.setattr(iwslt14_transformer, "merges", lambda whole: "#version: 0.2\nu n\n")


# Batches


class Small(_translation.Translation):
    """On an invented language."""

    def read(self):
        train = invented(120)
        subwords = LearntBPE([*train.source, *train.target], 300)
        return Corpus(train, invented(20, 1), invented(20, 2), subwords)


@pytest.fixture
def small():
    return Small("smoke")


def test_batches_of_a_split(small):
    split = small.data().train
    rows = [
        (tuple(row.tolist()), tuple(other.tolist()))
        for source, target in in_order(split)
        for row, other in zip(source, target, strict=True)
    ]
    unpadded = Counter(
        tuple(tuple(i for i in side if i != PAD) for side in (source, target))
        for source, target in rows
    )
    expected = Counter(
        (tuple(source.tolist()), tuple(target.tolist()))
        for source, target in zip(split.source, split.target, strict=True)
    )
    assert unpadded == expected
    assert all(source[-1] == target[-1] == END for source, target in expected)
    assert len(list(in_order(split))) == len(split) > 2
    for source, target in in_order(split):
        assert max(source.numel(), target.numel()) <= 512


def shuffled(split, seed, **options):
    return list(feed(split, seed, 0, **options))


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(a, b)
        for a, b in zip(itertools.chain(*one), itertools.chain(*other), strict=True)
    )


def test_order_is_the_seeds_and_skipping_is_dropping(small, monkeypatch):
    split = small.data().train
    whole = shuffled(split, 0)
    assert same(whole, shuffled(small.data().train, 0))
    assert not same(whole, shuffled(split, 1))
    built = []
    build = Pairs.load
    monkeypatch.setattr(Pairs, "load", lambda self, i: (built.append(i), build(self, i))[1])
    assert same(whole[2:], shuffled(split, 0, skip=2))
    assert len(built) == len(whole) - 2
    assert shuffled(split, 0, skip=len(whole)) == []


def test_processes_share_every_batch(small):
    split = small.data().train
    whole = shuffled(split, 0)
    shares = [shuffled(split, 0, rank=rank, world=2) for rank in range(2)]
    for batch, one, two in zip(whole, *shares, strict=True):
        assert len(batch[0]) == len(one[0]) + len(two[0])
    lonely = Pairs.of(invented(1), small.corpus.subwords, 512)
    assert all(len(shuffled(lonely, 0, rank=rank, world=2)[0][0]) == 1 for rank in range(2))


def test_the_full_scale_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path))
    with pytest.raises(LabError, match=r"with 160,239 training pairs\. Its folder has nothing"):
        find_workload("iwslt14_transformer").load()("full").splits()


# Loss and figures


class Uniform(nn.Module):
    """Knows nothing but one favourite token."""

    def __init__(self, size, favourite):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(size))
        self.logits.data[favourite] = 2.0

    def forward(self, source, target, cache=None):
        return self.logits.expand(*target.shape, -1)


def test_smoothing_is_fairseqs_per_token(small):
    size, favourite = 9, 5
    model = Uniform(size, favourite).requires_grad_(False)
    target = torch.tensor([[5, 6, END], [5, END, PAD]])
    batch = (torch.tensor([[3, END]] * 2), target)
    log_p = model.logits.log_softmax(0)
    terms = [
        -0.9 * float(log_p[token]) - 0.1 / size * float(log_p.sum())
        for token in target.flatten().tolist()
        if token != PAD
    ]
    assert float(small.loss(model, batch)) == pytest.approx(sum(terms) / 5)


def test_the_network_is_given_the_tokens_before(small):
    asked = []

    class Listening(Uniform):
        def forward(self, source, target, cache=None):
            asked.append(target)
            return super().forward(source, target)

    batch = (torch.tensor([[3, END]]), torch.tensor([[5, 6, END]]))
    small.loss(Listening(9, 5), batch)
    assert asked[0].tolist() == [[END, 5, 6]]


def test_scores_of_a_split(small):
    split = small.data().test
    size = small.corpus.subwords.size
    with torch.no_grad():
        scores = small.evaluate(Uniform(size, END), split)
    tokens = sum(map(len, split.target))
    log_p = torch.zeros(size).index_fill(0, torch.tensor(END), 2.0).log_softmax(0)
    expected = -sum(float(log_p[row].sum()) for row in split.target) / tokens
    assert scores["loss"] == pytest.approx(expected, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(expected), rel=1e-5)
    assert scores["bleu"] < 1
    assert list(scores) == ["loss", "perplexity", "bleu", "bleu_lower"]


def test_bleu_by_hand():
    """One word of nine differs: 8/9 of words, 6/8 of pairs, 4/7 of threes, 2/6 of fours."""
    said = ["the quick brown fox jumped over the lazy dog"]
    meant = ["the quick brown fox jumps over the lazy dog"]
    expected = 100 * (8 / 9 * 6 / 8 * 4 / 7 * 2 / 6) ** 0.25
    figures = find_workload("iwslt14_transformer").load()("full").figures
    score, signature = figures["bleu"].of(said, meant)
    assert score == pytest.approx(expected) == pytest.approx(59.69, abs=0.01)
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:")
    # Too short by a third: exp(1 - 9/6); six words, of which no piece is wrong.
    short, _ = figures["bleu"].of(["the quick brown fox jumps over"], meant)
    assert short == pytest.approx(100 * math.exp(1 - 9 / 6))


def test_bleu_of_a_published_example():
    """Papineni et al. (2002), example 2: of seven words `the` two are found."""
    from sacrebleu.metrics.bleu import BLEU

    figure = find_workload("multi30k_transformer").load()("mini").figures["bleu_lower"]
    said, meant = "the the the the the the the", "The cat is on the mat"
    precisions = BLEU(**figure.options).corpus_score([said], [[meant]]).precisions
    assert precisions[0] == pytest.approx(100 * 2 / 7)


def test_bleu_of_the_same_text_is_100():
    for name in NAMES:
        for scale in ("smoke", "mini", "full"):
            for figure in find_workload(name).load()(scale).figures.values():
                text = ["it is here , i think .", "no , it is not there at all !"]
                assert figure.of(text, text)[0] == pytest.approx(100)


def test_which_figures_are_of_what():
    raw = find_workload("multi30k_transformer").load()("full").figures
    said, meant = ["Two dogs play in snow."], ["two dogs play in snow."]
    assert raw["bleu"].of(said, meant)[0] < 100
    assert raw["bleu_lower"].of(said, meant)[0] == pytest.approx(100)
    tokenised = find_workload("iwslt14_transformer").load()("smoke").figures
    score, signature = tokenised["bleu_detok"].of(
        ["it &apos;s a small one ."], ["it's a small one."]
    )
    assert score == pytest.approx(100)
    assert "tok:13a" in signature
    assert set(find_workload("iwslt14_transformer").load()("mini").figures) == set(raw)


# Settings


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_the_protocols(name):
    cls = find_workload(name).load()
    expected = {
        "adam": (1.5e-3, (0.9, 0.98), 1e-8),
        "adamw": (1.5e-3, (0.9, 0.98), 1e-8),
        "adabelief": (1.5e-3, (0.9, 0.999), 1e-16),
        "adamomentum": (5e-4, (0.9, 0.999), 1e-16),
    }
    for protocol in ("paper", "as-run"):
        assert set(cls.settings[protocol]) == {"sgdm", *expected}
        for optimizer in cls.settings[protocol]:
            settings = base_settings(optimizer, cls, protocol)
            contenders.get(optimizer).build([nn.Parameter(torch.zeros(1))], **settings)
            assert settings["weight_decay"] == 1e-4
            if optimizer == "sgdm":
                assert (settings["lr"], settings["momentum"]) == (0.1, 0.9)
            else:
                assert tuple(settings[key] for key in ("lr", "betas", "eps")) == expected[optimizer]
            if optimizer in ("adabelief", "adamomentum"):
                assert settings["decoupled_weight_decay"] is True
                assert settings["rectify"] is (protocol == "as-run")
    assert base_settings("adamomentum", cls, "fair") == contenders.get("adamomentum").settings
    assert (cls.grid, cls.epochs["full"], cls.clip) == ("transformer", 55, None)
    for scale in ("smoke", "mini", "full"):  # 5 of 55, wherever that is an epoch at least
        assert cls.averaged[scale] == max(1, round(5 / 55 * cls.epochs[scale]))
    workload = cls("full", "paper")
    assert (workload.beam, workload.length_penalty, workload.max_tokens["full"]) == (5, 1.0, 4096)
    schedule = workload.schedule_of("adam")
    assert schedule.lr(1.5e-3, Moment(7999, 1, 55)) == pytest.approx(1.5e-3)
    assert schedule.lr(1.5e-3, Moment(31_999, 9, 55)) == pytest.approx(1.5e-3 / 2)


def test_what_must_be_said():
    cls = find_workload("iwslt14_transformer").load()
    assert cls("full", "paper").caveats == ()
    assert cls("mini", "paper").caveats == ("on Tatoeba sentence pairs, a stand-in: not IWSLT'14",)
    (small,) = cls("smoke", "as-run").caveats
    assert cls("smoke", "as-run").selection == "last"
    assert "200 of IWSLT'14's 160,239" in small


def test_validation_is_for_fair_alone(small):
    assert len(small.splits().validation.text) == 20
    for protocol in ("paper", "as-run"):
        data = Small("smoke", protocol).splits()
        assert data.validation is None
        assert len(data.train.text) == 120


# Runs


def test_decoding_finds_what_was_learnt(small, tmp_path):
    """A network that has seen five sentences often enough gives their translations."""
    small.shapes = {"smoke": _translation.Shape(1, 32, 64, 2, 0.0, 0.0, 0.0)}
    torch.manual_seed(0)
    model = small.model()
    pairs = Pairs.of(invented(5), small.corpus.subwords, 512)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    (batch,) = in_order(pairs)
    for _ in range(120):
        optimizer.zero_grad()
        small.loss(model, batch).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        assert small.translations(model, pairs) == list(pairs.text.target)
        scores = small.evaluate(model, pairs)
        words = small.show(model, _translation.Data(None, None, pairs), tmp_path)
    assert scores["bleu"] == pytest.approx(100)
    written = (tmp_path / "translations.txt").read_text()
    assert written.count("translation:") == 5
    assert f"reference:   {pairs.text.target[4]}\ntranslation: {pairs.text.target[4]}\n" in written
    assert words.count("translation:") == 3
    assert "bleu: sacrebleu nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in words


@pytest.mark.parametrize("name", [NAMES[0], pytest.param(NAMES[1], marks=pytest.mark.slow)])
def test_a_run_continues_bit_for_bit(name, text, tmp_path):
    workload = find_workload(name).load()("smoke")
    workload.epochs = {"smoke": 2}
    whole = loop_of(workload)
    whole.run()
    per_epoch = whole.per_epoch
    updates = []
    stop = loop_of(
        workload,
        tmp_path,
        on_update=updates.append,
        stopped=lambda: len(updates) == per_epoch + 3,
    )
    assert stop.run().status == "stopped"
    resumed = loop_of(find_workload(name).load()("smoke"), tmp_path)
    resumed.epochs = 2
    assert resumed.run().status == "done"
    assert torch.equal(weights(whole), weights(resumed))
    assert whole.outcome.epochs == resumed.outcome.epochs
    assert {"loss", "perplexity", "bleu"} <= set(whole.outcome.epochs[-1]["validation"])
    assert (tmp_path / "translations.txt").is_file()


def test_parts_of_multi30k_are_labelled():
    load = find_workload("multi30k_transformer").load()
    assert "on 14,500 of 29,000 captions" in load("mini").caveats[-1]
    assert not load("full", "paper").caveats
