import fc from "fast-check";
import { expect, test } from "vitest";
import { parseJson } from "../../src/base/json.js";
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
