"""`adamomentum contenders check`."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adamomentum_lab import commands

if TYPE_CHECKING:
    from adamomentum_lab.contender import Contender
    from adamomentum_lab.contract import Case

app = typer.Typer(no_args_is_help=True, help="Check optimizers of your own.")
commands.app.add_typer(app, name="contenders")


@app.callback()
def contenders() -> None:
    """Check optimizers of your own."""


@app.command(epilog="Example: adamomentum contenders check examples/lion.py:Lion")
def check(
    optimizers: Annotated[
        str, typer.Argument(help="As `adamomentum race --optimizers` takes them.")
    ],
    as_json: commands.JsonOption = False,
) -> None:
    """Check that optimizers do what torch.optim's own do: checkpoints, groups, hooks, dtypes.

    The exit status is 1 if a check fails.
    """
    from adamomentum_lab.contract import CHECKS

    found = commands.parse_or_exit(lambda: commands.find_contenders(optimizers))
    cases = commands.parse_or_exit(lambda: [case_of(contender) for contender in found])
    results: dict[str, dict[str, str | None]] = {}
    for case in cases:
        mine = results[case.name] = {}
        for one in CHECKS:
            name = one.__name__.replace("_", " ")
            mine[name] = fault(one, case)
            if not as_json:
                typer.echo(f"{case.name}: {name}: {mine[name] or 'passed'}")
        failed = sum(why is not None for why in mine.values())
        if not as_json:
            typer.echo(f"{case.name}: {len(mine) - failed} checks passed, {failed} failed")
    if as_json:
        typer.echo(json.dumps(results))
    if any(why for mine in results.values() for why in mine.values()):
        raise typer.Exit(1)


def case_of(contender: Contender) -> Case:
    """A contender with its settings, as the checks take it."""
    from adamomentum_lab.contender import has_modes
    from adamomentum_lab.contract import Case
    from adamomentum_lab.errors import LabError

    if contender.takes != "parameters" or "closure" in contender.needs:
        what = "a closure" if "closure" in contender.needs else f"the {contender.takes}"
        raise LabError(
            f"{contender.name} cannot be checked: it takes {what}, and the checks take optimizers "
            "of parameters whose step needs none."
        )

    def build(params: Any, **options: Any) -> Any:
        # Not every optimizer has the weight decay of the checks.
        known = {name: value for name, value in options.items() if name in contender.settings}
        optimizer: Any = contender.build(params, **known)
        if has_modes(optimizer):
            optimizer.train()
        return optimizer

    return Case(
        contender.name,
        build,
        takes_complex=False,  # as most optimizers of networks of real numbers
        starts_at_zero=not any(getattr(contender.optimizer, "START", {}).values()),
        has_momentum=bool({"betas", "momentum"} & contender.settings.keys()),
        has_decay="weight_decay" in contender.settings,
    )


def fault(one: Any, case: Case) -> str | None:
    """Why a check fails; None if it does not."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            one(case)
    except AssertionError as error:
        message = str(error).strip().partition("\n")[0]
        line = traceback.extract_tb(error.__traceback__)[-1].line
        return f"failed: {message or line}"
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        return f"failed: {type(error).__name__}: {first}"
    return None
