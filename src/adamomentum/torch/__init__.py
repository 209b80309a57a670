"""AdaMomentum for PyTorch."""

try:
    from adamomentum.torch._backends import backends
    from adamomentum.torch.migrate import lr_from_adam, no_decay_groups, state_dict_from_adam3
    from adamomentum.torch.optimizer import AdaMomentum
    from adamomentum.torch.settings import recommended
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    from adamomentum._install import install_command

    raise ModuleNotFoundError(
        f"adamomentum.torch needs PyTorch; install it with: {install_command('torch')}",
        name="torch",
    ) from error

__all__ = [
    "AdaMomentum",
    "backends",
    "lr_from_adam",
    "no_decay_groups",
    "recommended",
    "state_dict_from_adam3",
]
