"""Users' files as modules."""

import pickle
import sys

import pytest

from adamomentum_lab.errors import LabError
from adamomentum_lab.modules import PREFIX, import_file, import_files, imported_files


@pytest.fixture
def name(monkeypatch):
    name = f"{PREFIX}of_test_modules"
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield name
    sys.modules.pop(name, None)


def test_a_file_is_imported_under_its_name_and_found_again(name, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Thing: pass\n")
    module = import_file(name, file)
    assert sys.modules[name] is module
    assert imported_files()[name] == file
    sent = pickle.dumps(module.Thing())
    del sys.modules[name]
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(sent)
    import_files({name: file})
    assert type(pickle.loads(sent)).__name__ == "Thing"


def test_a_file_that_fails_leaves_nothing_behind(name, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        import_file(name, file)
    assert name not in sys.modules
    with pytest.raises(LabError, match=r"mine\.txt is not a Python file; its name must end in"):
        import_file(name, tmp_path / "mine.txt")
