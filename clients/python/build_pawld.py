"""Builds the package with Python's standard library (PEP 517), so that pip needs no network for it."""

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def _read(name):
    with open(os.path.join(HERE, name), "rb") as f:
        return f.read()


def _project():
    """The texts of [project], each of which is on a separate line. (Python 3.9 and 3.10 cannot read TOML.)"""
    text = _read("pyproject.toml").decode()
    return dict(re.findall(r'^([\w-]+) = "([^"]*)"$', text.split("[project]\n")[1], re.M))


def _metadata():
    p = _project()
    return (
        f"Metadata-Version: 2.1\nName: {p['name']}\nVersion: {p['version']}\nSummary: {p['description']}\nLicense: Apache-2.0\n"
        f"Requires-Python: {p['requires-python']}\nDescription-Content-Type: text/markdown\n\n"
    ).encode() + _read("README.md")


def _package():
    return ["pawld/" + name for name in sorted(os.listdir(os.path.join(HERE, "pawld"))) if name.endswith((".py", ".typed"))]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    release = "{name}-{version}".format(**_project())
    info = release + ".dist-info/"
    files = [(name, _read(name)) for name in _package()]
    files += [(info + "METADATA", _metadata()), (info + "WHEEL", b"Wheel-Version: 1.0\nGenerator: pawld\nRoot-Is-Purelib: true\nTag: py3-none-any\n")]
    record = ""
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files.append((info + "RECORD", (record + info + "RECORD,,\n").encode()))
    wheel = release + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files:
            entry = zipfile.ZipInfo(name)  # of 1980: the same files give the same wheel
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    release = "{name}-{version}".format(**_project())
    files = [(name, _read(name)) for name in ["pyproject.toml", "README.md", os.path.basename(__file__)] + _package()] + [("PKG-INFO", _metadata())]
    with tarfile.open(os.path.join(sdist_directory, release + ".tar.gz"), "w:gz") as t:
        for name, data in files:
            entry = tarfile.TarInfo(f"{release}/{name}")
            entry.size = len(data)
            t.addfile(entry, io.BytesIO(data))
    return release + ".tar.gz"
