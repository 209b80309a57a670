"""The pip command in the messages about a missing package."""

import json
from importlib import metadata

import pytest

from adamomentum import _install


class Distribution:
    def __init__(self, direct_url):
        self.direct_url = direct_url

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.direct_url and json.dumps(self.direct_url)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The path that the module appears to have: <tmp_path>/src/adamomentum/_install.py."""
    monkeypatch.setattr(_install, "__file__", str(tmp_path / "src" / "adamomentum" / "_install.py"))


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, "pip install 'adamomentum[lab]'"),
        (
            {"url": "file:///home/me/clone", "dir_info": {}},
            "pip install 'adamomentum[lab] @ file:///home/me/clone'",
        ),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'adamomentum[lab] @ git+https://host/x.git@abc'",
        ),
    ],
    ids=["index", "folder", "git"],
)
@pytest.mark.usefixtures("module")
def test_an_installed_package_names_its_source(monkeypatch, direct_url, expected):
    monkeypatch.setattr(metadata, "distribution", lambda _: Distribution(direct_url))
    assert _install.install_command("lab") == expected


@pytest.mark.usefixtures("module")
def test_a_clone_names_its_folder(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    assert _install.install_command("lab") == f"pip install -e '{tmp_path.resolve()}[lab]'"


@pytest.mark.usefixtures("module")
def test_a_package_without_metadata_names_the_index(monkeypatch):
    def missing(_):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "distribution", missing)
    assert _install.install_command("torch") == "pip install 'adamomentum[torch]'"
