"""Makes wheels of this folder for pip (PEP 517 and PEP 660), with nothing but Python itself: `pip install ./python` works
without a network, a compiler or setuptools. A wheel is a zip file of the package and of what METADATA.in says about it.
"""
import base64
import hashlib
import re
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'^__version__ = "(.*)"$', (HERE / "hutch" / "__init__.py").read_text(), re.M)[1]
INFO = f"hutch-{VERSION}.dist-info"
WHEEL = "Wheel-Version: 1.0\nGenerator: hutch\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = sorted(path for path in (HERE / "hutch").rglob("*") if path.suffix in (".py", ".typed"))
    return _write(wheel_directory, {path.relative_to(HERE).as_posix(): path.read_bytes() for path in package})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {"hutch-editable.pth": f"{HERE}\n".encode()})


def _write(folder, files):
    files = {**files, f"{INFO}/METADATA": (HERE / "METADATA.in").read_text().replace("@version@", VERSION).encode(),
             f"{INFO}/WHEEL": WHEEL.encode()}
    record = "".join(f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in files.items()) + f"{INFO}/RECORD,,\n"
    name = f"hutch-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in {**files, f"{INFO}/RECORD": record.encode()}.items():
            wheel.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data)
    return name


def _hash(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
