"""Whether the files that options name can be read."""

from pathlib import Path

import pytest

from pgrelay.config.option_files import unreadable_file


def test_readable_files_and_folders_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "crl.pem").touch()
    options = {
        "ssl.ca.location": str(tmp_path),
        "ssl.crl.location": str(tmp_path / "crl.pem"),
        "ssl.key.location": "probe",
        "client.id": "/nowhere",
    }
    assert unreadable_file(options) is None


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/nowhere.pem", "No such file or directory"),
        ("/dev/null/x", "Not a directory"),
        ("a\0b", "not a valid path"),
    ],
)
def test_an_unreadable_file_is_named(path: str, why: str) -> None:
    assert unreadable_file({"client.id": "x", "ssl.ca.location": path}) == f"ssl.ca.location: {path}: {why}"


@pytest.mark.parametrize(
    "name", ["ssl.certificate.location", "ssl.crl.location", "ssl.key.location", "ssl.keystore.location"]
)
def test_a_folder_in_place_of_a_file_is_named(name: str, tmp_path: Path) -> None:
    assert unreadable_file({name: str(tmp_path)}) == f"{name}: {tmp_path}: Is a directory"
