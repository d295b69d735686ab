"""What `softhit.hierarchy` offers by name."""

import pkgutil

import pytest

import softhit.hierarchy as hierarchy


@pytest.mark.parametrize("name", hierarchy.__all__)
def test_every_offered_name_is_there(name: str) -> None:
    assert getattr(hierarchy, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = hierarchy.Nothing


def test_no_offered_name_is_that_of_a_module_which_would_hide_it() -> None:
    modules = {found.name for found in pkgutil.iter_modules(hierarchy.__path__)}
    assert modules.isdisjoint(hierarchy.__all__)
