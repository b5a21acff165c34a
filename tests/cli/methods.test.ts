import { expect, test } from "vitest";
import type { MethodDescription } from "../../src/methods/describe-methods.js";
import { methods } from "../../src/methods/index.js";
import { invoke } from "./invoke.js";

test("temper methods lists every method with its cost", async () => {
  const { code, stdout } = await invoke(["methods"]);
  expect(code).toBe(0);
  for (const name of ["standard", ...methods.keys()]) expect(stdout).toMatch(new RegExp(`^${name} +(about )?\\d`, "m"));
});

test("temper methods NAME lists the options with values, defaults and paper", async () => {
  const { stdout } = await invoke(["methods", "rose"]);
  expect(stdout).toMatch(/^paper +Jiang et al\. 2022, ROSE/m);
  expect(stdout).toMatch(
    /^cost +GPU: 1\.3 \(second\).*; CPU: 1\.1 \(second\).* \(a step as a multiple of a standard step\)$/m,
  );
  expect(stdout).toMatch(/^variant +first, second, ensemble +ensemble +risk by sensitivity/m);
  expect(stdout).toMatch(/^updateRatio +number > 0 <= 1 +0\.6 +fraction of tensors/m);
  const described = JSON.parse((await invoke(["methods", "rose", "--json"])).stdout) as MethodDescription;
  // Every option of the schema is listed, with the default that the schema gives.
  const defaults = methods.get("rose")!.options.parse({}) as Record<string, unknown>;
  expect(Object.fromEntries(described.options.map(({ name, default: value }) => [name, value]))).toEqual(defaults);
  const adversarial = await invoke(["methods", "discrete-adversarial"]);
  expect(adversarial.stdout).toMatch(
    /^cost .*\(a step as a multiple of a standard step\); the attacks \(.*\) come on top$/m,
  );
  expect(adversarial.stdout).toMatch(/^maskedLm +string, null /m);
  expect((await invoke(["methods", "standard"])).stdout).toContain("It has no options.");
});

test("a mistyped name is an error with a suggestion", async () => {
  const { code, stderr } = await invoke(["methods", "roze"]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/unknown method.*rose/s) as string });
});
