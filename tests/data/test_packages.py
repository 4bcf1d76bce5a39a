"""Files are found inside packages, and damaged packages are named."""

import pytest

from data.prepare.packages import read_member


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.deb", b"not an archive", "not a Debian package"),
        ("a.whl", b"not a zip", "damaged"),
        ("a.rpm", b"", "expected a .deb"),
    ],
)
def test_a_package_we_cannot_read_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_member(tmp_path / name, "x")


def test_a_missing_member_is_named(tmp_path, debian_package):
    package = debian_package(tmp_path / "a.deb", {"usr/one": b"1"})
    assert read_member(package, "usr/one") == b"1"
    with pytest.raises(ValueError, match="has no file usr/two"):
        read_member(package, "usr/two")
