// Explains what to do if no libtorch could be found or installed.
import { SOURCE_NAMES, TORCH_VERSION } from "./find.mjs";
import { OLDEST } from "./inspect.mjs";

/**
 * @param {import("./find.mjs").Rejected[]} rejected
 * @param {import("./install.mjs").Attempt[]} attempts
 */
export function formatFailure(rejected, attempts) {
  const seen = rejected.map(({ path, source, reason }) => `  - ${path} (${SOURCE_NAMES[source]}): ${reason}`);
  const tried = attempts.map(({ what, reason }) => `  - ${what}: ${reason}`);
  return [
    "Temper needs libtorch, PyTorch's C++ library, and found none that works.",
    ...(seen.length > 0
      ? ["Found but not usable:", ...seen]
      : ["None was found in LIBTORCH, in a Python or in the system."]),
    ...(tried.length > 0 ? ["Tried to install:", ...tried] : []),
    "Do one of the following, then run `make setup` (or `npx temper setup`) again:",
    `  - set LIBTORCH to a folder with include/ and lib/ of libtorch ${OLDEST} or newer (see pytorch.org), or unset it`,
    "  - activate the environment of a Python that has torch",
    `  - give pip access to a package index (PIP_INDEX_URL, proxies), or install manually: python3 -m venv env && . env/bin/activate && pip install torch==${TORCH_VERSION}`,
    "  - if Python lacks pip and venv: apt-get install python3-venv, as root",
  ].join("\n");
}
