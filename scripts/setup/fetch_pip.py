"""Downloads the wheel of pip for a Python without pip, such as Debian's. `python pip.whl/pip` runs it without installing it.

Usage: fetch_pip.py FOLDER. Prints the path of the wheel. Uses the package index of pip's configuration: PIP_INDEX_URL, or
`index-url` in the files that pip reads.
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


def python_is_new_enough(link):
    minimum = re.search(r"(?:>=|&gt;=)\s*(\d+)\.(\d+)", link)
    return minimum is None or sys.version_info >= tuple(map(int, minimum.groups()))


wheels = []
for link in re.findall(r"<a\s[^>]*>", get(index).decode()):
    wheel = re.search(r'href="([^"]*/pip-([\d.]+)-py3-none-any\.whl)#sha256=([0-9a-f]{64})"', link)
    if wheel and python_is_new_enough(link):
        address, version, checksum = wheel.groups()
        wheels.append((tuple(map(int, version.split("."))), urllib.parse.urljoin(index, address), checksum))
if not wheels:
    sys.exit(f"{index} offers no pip for Python {sys.version_info.major}.{sys.version_info.minor}")

_, address, checksum = max(wheels)
content = get(address)
if hashlib.sha256(content).hexdigest() != checksum:
    sys.exit(f"{address} is damaged: its checksum is wrong")
path = os.path.join(sys.argv[1], address.rsplit("/", 1)[1])
os.makedirs(sys.argv[1], exist_ok=True)
with open(path, "wb") as file:
    file.write(content)
print(path)
