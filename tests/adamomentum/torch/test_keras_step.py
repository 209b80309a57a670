"""A step with tensors that no torch optimizer holds, as Keras takes it."""

from types import SimpleNamespace

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import _backends
from adamomentum.torch._backends import update_slots
from adamomentum.torch._state import Slot
from adamomentum_lab.contract import gradient, parameter

DTYPES = (torch.float32, torch.bfloat16, torch.float64)


@pytest.mark.parametrize("capturable", [False, True])  # on the CPU, and on other devices
@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"nesterov": True}], ids=str)
def test_slots_are_updated_as_parameters_are(options, capturable):
    params = [parameter(5, dtype=dtype) for dtype in DTYPES]
    optimizer = AdaMomentum(params, lr=0.1, weight_decay=0.01, foreach=False, **options)
    group = {
        **optimizer.defaults,
        "lr": torch.tensor(0.1, dtype=torch.float64) if capturable else 0.1,
        "capturable": capturable,
    }
    rows = []
    for param in params:
        dtype = torch.promote_types(param.dtype, torch.float32)
        m, v, v_max = (torch.zeros(5, dtype=dtype) for _ in range(3))
        rows.append((param.detach().clone(), m, v, v_max if options.get("amsgrad") else None))
    for t in range(4):
        for param in params:
            param.grad = gradient(param, t)
        optimizer.step()
        ts = torch.full((len(rows),), float(t)).unbind()
        slots = [
            Slot(param, owner.grad, *moments, at)
            for (param, *moments), owner, at in zip(rows, params, ts, strict=True)
        ]
        update_slots(slots, group)
    for (param, *_), expected in zip(rows, params, strict=True):
        torch.testing.assert_close(param, expected.detach())


def test_slots_are_offered_to_every_backend_in_order(monkeypatch):
    taken = []
    first = SimpleNamespace(
        wants=lambda _: True,
        claim_slots=lambda slots, _: (slots[:1], slots[1:]),
        run=lambda work, _: taken.extend(work),
    )
    monkeypatch.setattr(_backends, "BACKENDS", (first, *_backends.BACKENDS))
    slots = [
        Slot(torch.ones(2), torch.ones(2), torch.zeros(2), torch.zeros(2), None, torch.tensor(0.0))
        for _ in range(2)
    ]
    update_slots(slots, AdaMomentum([parameter(1)]).defaults)
    assert [slot is slots[0] for slot in taken] == [True]
    assert [float(slot.t) for slot in slots] == [0, 1]
