import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findReasonToInstall } from "../../../scripts/install-packages.mjs";
import { put, temporaryFolder } from "./trees.js";

const lock = (version: string, more = {}) =>
  JSON.stringify({
    packages: {
      "": {},
      "node_modules/zod": { version },
      "node_modules/for-mac": { version: "1.0.0", optional: true },
      ...more,
    },
  });

function installed() {
  const root = temporaryFolder();
  put(join(root, "package-lock.json"), lock("4.6.7"));
  put(
    join(root, "node_modules/.package-lock.json"),
    JSON.stringify({ packages: { "node_modules/zod": { version: "4.6.7" } } }),
  );
  put(join(root, "node_modules/zod/package.json"));
  return root;
}

describe("findReasonToInstall", () => {
  it("returns nothing if every package of the lock is installed, except those of other platforms", () => {
    expect(findReasonToInstall(installed())).toBeUndefined();
  });

  it("finds an interrupted npm ci, a changed lock, a new package and a missing folder", () => {
    const interrupted = installed();
    rmSync(join(interrupted, "node_modules/.package-lock.json"));
    expect(findReasonToInstall(interrupted)).toBe("they are missing or incomplete");
    const changed = installed();
    put(join(changed, "package-lock.json"), lock("4.7.0"));
    expect(findReasonToInstall(changed)).toBe("package-lock.json requires node_modules/zod 4.7.0");
    const added = installed();
    put(join(added, "package-lock.json"), lock("4.6.7", { "node_modules/yaml": { version: "2.9.1" } }));
    expect(findReasonToInstall(added)).toBe("package-lock.json requires node_modules/yaml 2.9.1");
    const missing = installed();
    rmSync(join(missing, "node_modules/zod"), { recursive: true });
    expect(findReasonToInstall(missing)).toBe("node_modules/zod is missing");
  });
});

it("every installed package has a checksum in the lock file", () => {
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as {
    packages: Record<string, { integrity?: string; link?: boolean; optional?: boolean }>;
  };
  const unchecked = Object.entries(packages).filter(
    ([path, { integrity, link }]) => path.startsWith("node_modules/") && !link && !integrity,
  );
  expect(unchecked.filter(([path]) => existsSync(path)).map(([path]) => path)).toEqual([]);
  // The others are bindings of other platforms, which the registry of the lock file did not have.
  expect(unchecked.filter(([, { optional }]) => !optional)).toEqual([]);
});
