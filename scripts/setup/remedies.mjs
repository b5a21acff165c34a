// What to say when every way to a libtorch has failed.
import { DEBIAN_PACKAGES } from "./debian.mjs";
import { SOURCE_NAMES } from "./find.mjs";
import { OLDEST } from "./inspect.mjs";
import { TORCH_VERSION } from "./install.mjs";

/**
 * @param {import("./find.mjs").Rejected[]} rejected
 * @param {import("./install.mjs").Attempt[]} attempts
 */
export function failureMessage(rejected, attempts) {
  const seen = rejected.map(({ path, source, reason }) => `  - ${path} (${SOURCE_NAMES[source]}): ${reason}`);
  const tried = attempts.map(({ what, reason }) => `  - ${what}: ${reason}`);
  return [
    "Temper needs libtorch, PyTorch's C++ library, and has none that works.",
    ...(seen.length > 0
      ? ["Found but not usable:", ...seen]
      : ["None was found: no LIBTORCH, no torch of a Python, none of the system."]),
    ...(tried.length > 0 ? ["Tried to install:", ...tried] : []),
    "Any one of these helps; run `make setup` (or `npx temper setup`) again afterwards:",
    `  - set LIBTORCH to a folder with include/ and lib/ of libtorch ${OLDEST} or newer (pytorch.org offers archives), or unset a wrong one`,
    "  - put a Python that has torch first on PATH (activate its environment)",
    `  - let pip reach a package index (PIP_INDEX_URL, proxies), or install by hand: python3 -m venv .venv && .venv/bin/pip install torch==${TORCH_VERSION}`,
    "  - where Python lacks pip and venv: apt-get install python3-venv, as root",
    `  - on Debian or Ubuntu, as root: apt-get install ${DEBIAN_PACKAGES.join(" ")}`,
  ].join("\n");
}
