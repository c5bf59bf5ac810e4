"""The changelog keeps its format, and the release script finds a version in it."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def changes(version: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / ".ci" / "changes", version], capture_output=True, text=True, timeout=30)


def test_unreleased_comes_first_and_other_sections_have_version_and_date() -> None:
    first, *released = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert first == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", heading) for heading in released)
    versions = [tuple(map(int, re.findall(r"\d+", heading)[:3])) for heading in released]
    assert versions == sorted(versions, reverse=True)


def test_kinds_of_changes_are_known() -> None:
    assert set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE)) <= KINDS


def test_the_release_script_prints_a_versions_changes(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "changes").symlink_to(ROOT / ".ci" / "changes")
    text = (
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-30\n- new\n\n## [1.1.0] - 2026-11-01\n- old\n"
    )
    (tmp_path / "CHANGELOG.md").write_text(text)
    assert changes("v1.2.0", tmp_path).stdout.strip() == "- new"
    assert changes("1.1.0", tmp_path).stdout.strip() == "- old"


def test_the_release_script_refuses_a_version_without_a_section() -> None:
    refused = changes("v99.0.0")
    assert refused.returncode == 1
    assert refused.stderr.startswith('CHANGELOG.md has no section "## [99.0.0] - YYYY-MM-DD"')
