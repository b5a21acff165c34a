"""Downloads the wheel of pip for a Python without pip, such as Debian's. `python pip.whl/pip` runs it without installing it.

Usage: fetch_pip.py FOLDER. Prints the path of the wheel. Uses the package index of pip's configuration: PIP_INDEX_URL, or
`index-url` in the files that pip reads. The checksums are those of requirements/pip.txt.
"""

import configparser
import hashlib
import os
import re
import ssl
import sys
import urllib.parse
import urllib.request


def read_index():
    """The index that pip would use. The last file that names one wins, as in pip."""
    home = os.path.expanduser("~")
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf", os.path.join(home, ".pip", "pip.conf")]
    files += [os.path.join(settings, "pip", "pip.conf"), os.environ.get("PIP_CONFIG_FILE", "")]
    found = configparser.RawConfigParser()
    found.read(files)
    for section in ("install", "global"):
        if found.has_option(section, "index-url"):
            return found.get(section, "index-url")
    sys.exit("This Python has no pip, and no package index is configured. Install pip, or set PIP_INDEX_URL.")


index = (os.environ.get("PIP_INDEX_URL") or read_index()).rstrip("/") + "/pip/"
context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))


def get(url):
    with urllib.request.urlopen(url, timeout=30, context=context) as response:
        return response.read()


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "requirements", "pip.txt")) as file:
    requirement = file.read()
version = re.search(r"^pip==([\d.]+)", requirement, re.MULTILINE).group(1)
name = f"pip-{version}-py3-none-any.whl"
address = re.search(rf'href="([^"#]*/{re.escape(name)})[#"]', get(index).decode())
if address is None:
    sys.exit(f"{index} does not offer {name}")
content = get(urllib.parse.urljoin(index, address.group(1)))
if hashlib.sha256(content).hexdigest() not in re.findall(r"sha256:([0-9a-f]{64})", requirement):
    sys.exit(f"{name} from {index} has a wrong checksum. Check the index, or install pip.")
path = os.path.join(sys.argv[1], name)
os.makedirs(sys.argv[1], exist_ok=True)
with open(path, "wb") as file:
    file.write(content)
print(path)
