import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { UserError } from "../../src/base/errors.js";
import { parseJson } from "../../src/base/json.js";
import { validate } from "../../src/base/validate.js";
import { chooseExtent } from "../extent.js";

test("parses the same values as JSON.parse", () => {
  fc.assert(fc.property(fc.json({ maxDepth: 5 }), (text) => void expect(parseJson(text)).toEqual(JSON.parse(text))));
  const text = ' { "a" : [ 1e3 , -0.5, "\\u00e9\\n\\"" , { } , [ ] ] ,\r\n\t"__proto__": null } ';
  expect(parseJson(text)).toEqual(JSON.parse(text));
  expect(Object.getPrototypeOf(parseJson(text))).toBe(Object.prototype);
});

test("accepts the same texts as JSON.parse", () => {
  const alphabet = [...'{}[],:"\\1-0.e \n\u0001', '"a"', "\\u12", "true", "nul"];
  const accepts = (parse: (text: string) => unknown, text: string): boolean => {
    try {
      parse(text);
      return true;
    } catch {
      return false;
    }
  };
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...alphabet), { maxLength: 12 }), (parts) => {
      const text = parts.join("");
      expect(accepts(parseJson, text), text).toBe(accepts(JSON.parse, text));
    }),
    { numRuns: chooseExtent(600, 3000) },
  );
});

test.each([
  ['{\n  "a": tru\n}', 2, 8, /expected a value, found "tru"/],
  ['["abc', 1, 2, /unterminated/],
  ["[1,\n\n2", 3, 2, /expected "," or "]", found the end of the text/],
  ["", 1, 1, /found the end/],
  ["{} x", 1, 4, /expected a value, found "x"/],
  ["[".repeat(100_000), 1, 257, /deep/],
])("locates the error in %j", (text, line, column, problem) => {
  expect(() => parseJson(text)).toThrow(
    expect.objectContaining({ line, column, problem: expect.stringMatching(problem) }),
  );
});

const schema = z.strictObject({
  maxTrainSamples: z.number().optional(),
  train: z.strictObject({ warmupRatio: z.number().default(0) }).prefault({}),
  methods: z.array(z.strictObject({ updateRatio: z.number().default(0.6) })).default([]),
});

function getMessage(data: unknown, checked: z.ZodType = schema): string {
  try {
    validate(checked, data, "config.yaml");
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return (error as UserError).message;
  }
  throw new Error("the data is valid");
}

describe("unknown keys", () => {
  test("a mistyped key suggests the closest one", () => {
    expect(getMessage({ trian: {} })).toMatch(/unknown key trian \(did you mean "train"\?\); expected one of /);
  });
});

test("at most 20 problems are listed", () => {
  const numbers = z.array(z.number());
  const message = getMessage(
    Array.from({ length: 30 }, () => "x"),
    numbers,
  );
  expect(message.split("\n")).toHaveLength(21);
  expect(message).toMatch(/^config\.yaml: \[0\]: expected number, received "x"\n[\s\S]*\nand 10 more$/);
});

describe("large and deep data", () => {
  test("30,000 unknown keys are reported at once, and 20 of them are shown", () => {
    const keys = Object.fromEntries(Array.from({ length: 30_000 }, (_, i) => [`k${i}`, 1]));
    const message = getMessage(keys);
    expect(message.split("\n")).toHaveLength(21);
    expect(message).toMatch(/and 29980 more$/);
    expect(getMessage({ ["k".repeat(1e6)]: 1 }).length).toBeLessThan(300);
  });

  test("values that are deep, cyclic or long are cut off in messages", () => {
    const deep = JSON.parse(`${"[".repeat(20_000)}${"]".repeat(20_000)}`) as unknown;
    expect(getMessage({ maxTrainSamples: deep })).toBe(
      "config.yaml: maxTrainSamples: expected number, received [[[[[[[[[[…]]]]]]]]]]",
    );
    const cycle: unknown[] = [1, "a"];
    cycle.push(cycle);
    expect(getMessage({ maxTrainSamples: cycle })).toMatch(/expected number, received \[1,"a",\[1,"a",/);
    expect(getMessage({ maxTrainSamples: "x".repeat(1e6) }).length).toBeLessThan(200);
    expect(getMessage({ maxTrainSamples: { a: [1, null], b: "c" } })).toMatch(/received \{"a":\[1,null\],"b":"c"\}$/);
  });
});

test("a value of several types lists what is expected", () => {
  const either = z.object({ text: z.union([z.string(), z.array(z.string())]) });
  expect(getMessage({ text: 3 }, either)).toBe("config.yaml: text: expected string or array, received 3");
  expect(getMessage({}, either)).toBe("config.yaml: text: expected string or array, received nothing");
});
