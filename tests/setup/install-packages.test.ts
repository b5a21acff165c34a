import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { whatIsAmiss } from "../../scripts/packages.mjs";
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

function createInstallation() {
  const root = temporaryFolder();
  put(join(root, "package-lock.json"), lock("4.6.7"));
  put(
    join(root, "node_modules/.package-lock.json"),
    JSON.stringify({ packages: { "node_modules/zod": { version: "4.6.7" } } }),
  );
  put(join(root, "node_modules/zod/package.json"));
  return root;
}

describe("whatIsAmiss", () => {
  it("returns nothing if every package of the lock is installed, except those of other platforms", () => {
    expect(whatIsAmiss(createInstallation())).toBeUndefined();
  });

  it("detects an interrupted npm ci, a changed lock, a new package and a missing folder", () => {
    const interrupted = createInstallation();
    rmSync(join(interrupted, "node_modules/.package-lock.json"));
    expect(whatIsAmiss(interrupted)).toBe("they are not installed, or only in part");
    const changed = createInstallation();
    put(join(changed, "package-lock.json"), lock("4.7.0"));
    expect(whatIsAmiss(changed)).toBe("package-lock.json asks for node_modules/zod 4.7.0");
    const added = createInstallation();
    put(join(added, "package-lock.json"), lock("4.6.7", { "node_modules/yaml": { version: "2.9.1" } }));
    expect(whatIsAmiss(added)).toBe("package-lock.json asks for node_modules/yaml 2.9.1");
    const missing = createInstallation();
    rmSync(join(missing, "node_modules/zod"), { recursive: true });
    expect(whatIsAmiss(missing)).toBe("node_modules/zod is missing");
  });
});
