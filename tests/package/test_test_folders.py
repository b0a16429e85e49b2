"""Names of test folders: the folder tests is on the path of imports."""

from __future__ import annotations

import re

from helpers.paths import ROOT


def test_no_test_folder_hides_a_package_that_the_adapters_import():
    text = (ROOT / "pyproject.toml").read_text()
    (line,) = re.findall(
        r"^module = (\[.*\])\nignore_missing_imports", text, re.MULTILINE
    )
    packages = set(re.findall(r'"(\w+)', line))
    folders = {each.name for each in (ROOT / "tests").iterdir() if each.is_dir()}
    assert {"crewai", "anthropic"} < packages
    assert not folders & packages
