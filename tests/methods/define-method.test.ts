import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  ascc,
  createMethods,
  defineMethod,
  listBestModelMetrics,
  loadMethods,
  methods,
  resolveMethods,
  rose,
} from "../../src/methods/index.js";
import { temporaryFolder } from "../temporary.js";

const penalty = defineMethod({
  name: "penalty",
  summary: "a custom method",
  paper: "none",
  options: z.strictObject({ beta: z.number().default(0.1) }),
  create: ({ beta }) => ({ name: `penalty ${beta}` }),
});

describe("a method definition", () => {
  test("has its name, summary, paper and options", () => {
    expect([ascc.name, ascc.paper]).toEqual(["ascc", "Dong et al., ICLR 2021; RIFT eq. 8 and 9"]);
    expect(ascc.summary).toContain("convex hull");
    expect(ascc.options.parse({})).toMatchObject({ beta: 10, innerSteps: 10 });
    for (const [name, method] of methods) expect(method.name).toBe(name);
  });

  test("returns a spec with its options when called", () => {
    expect(ascc({ beta: 4 })).toEqual({ name: "ascc", options: { beta: 4 }, definition: ascc });
    expect(rose()).toEqual({ name: "rose", options: {}, definition: rose });
    expect(JSON.parse(JSON.stringify(ascc({ beta: 4 })))).toEqual({ name: "ascc", options: { beta: 4 } });
  });
});

describe("createMethods", () => {
  test("accepts custom methods, built-in methods by name, and standard", () => {
    const specs = [penalty({ beta: 2 }), { name: "mixout", options: { p: 0.5 } }, { name: "standard", options: {} }];
    expect(createMethods(specs).map(({ name }) => name)).toEqual(["penalty 2", "mixout"]);
  });

  test("adds defaults without creating a method", () => {
    expect(resolveMethods([penalty()])).toEqual([{ name: "penalty", options: { beta: 0.1 }, definition: penalty }]);
  });

  test("names an unknown method and a similar one", () => {
    expect(() => createMethods([{ name: "asc", options: {} }])).toThrow(
      /methods\[0\] \(asc\): unknown method \(did you mean "ascc"\?\)\. Use one of standard, ascc,/,
    );
  });

  test("locates a wrong option", () => {
    const locate = (i: number, name: string, path: readonly PropertyKey[] = []) =>
      `line ${i} ${name} ${path.join(".")}`;
    expect(() => createMethods([{ name: "mixout", options: { p: 2 } }], locate)).toThrow(/^line 0 mixout p: p: /);
  });
});

describe("loadMethods", () => {
  const folder = temporaryFolder();
  const zod = JSON.stringify(resolve("node_modules/zod/index.js"));

  test("imports a method from the path of a module", async () => {
    const path = join(folder, "my-method.mjs");
    writeFileSync(
      path,
      `import { z } from ${zod};
      export default {
        name: "mine", summary: "", paper: "",
        options: z.strictObject({ beta: z.number().default(1) }),
        create: ({ beta }) => ({ name: "mine " + beta }),
      };`,
    );
    const specs = await loadMethods([{ name: path, options: { beta: 3 } }, ascc()]);
    expect(specs.map(({ name }) => name)).toEqual([path, "ascc"]);
    expect(createMethods(specs).map(({ name }) => name)).toEqual(["mine 3", "ascc"]);
  });

  test("rejects a module without a method, and a path that was not loaded", async () => {
    const path = join(folder, "no-method.mjs");
    writeFileSync(path, "export default 3;");
    await expect(loadMethods([{ name: path, options: {} }])).rejects.toThrow("the default export must be a method");
    await expect(loadMethods([{ name: join(folder, "none.js"), options: {} }])).rejects.toThrow("cannot load the file");
    expect(() => createMethods([{ name: "./my-method.js", options: {} }])).toThrow("Load it with loadMethods first.");
  });
});

test("the metrics that can select a checkpoint include those of the methods", () => {
  expect(listBestModelMetrics(resolveMethods([ascc()]))).toContain("robust-accuracy");
  expect(listBestModelMetrics(resolveMethods([rose()]))).not.toContain("robust-accuracy");
});
