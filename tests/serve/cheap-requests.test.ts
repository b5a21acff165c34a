import { expect, test } from "vitest";
import { checkStructure, HttpError } from "../../src/serve/http.js";

const example = '{"texts": []}';

/** The status of the answer; null if the body passes. */
function check(body: string, maxDepth = 3, maxValues = 100): number | null {
  try {
    checkStructure(Buffer.from(body), maxDepth, maxValues, example);
    return null;
  } catch (error) {
    return (error as HttpError).status;
  }
}

test("a body with too many levels or values is rejected before it is parsed", () => {
  expect(check('{"texts": ["a", ["b", "c"]]}')).toBeNull();
  expect(check('{"texts": [[["d"]]]}')).toBe(400);
  expect(check(`{"texts": ["${"[{,".repeat(1000)}"]}`)).toBeNull();
  expect(check(`{"texts": ["\\"${"[{,".repeat(1000)}", "\\\\"]}`)).toBeNull();
  expect(check(`[${"1,".repeat(200)}1]`)).toBe(413);
  expect(check(`{${Array.from({ length: 200 }, (_, i) => `"k${i}":1`).join()}}`)).toBe(413);
  expect(check('"unterminated')).toBeNull();
});

test("the worst bodies of 16 MB are rejected at the first bytes", () => {
  const count = (body: Buffer): number => {
    let read = 0;
    const watched = new Proxy(body, {
      get(target, key) {
        if (typeof key === "string" && /^\d+$/.test(key)) read = Math.max(read, Number(key));
        const value = Reflect.get(target, key, target) as unknown;
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    expect(() => checkStructure(watched, 3, 16_400, example)).toThrow(HttpError);
    return read;
  };
  expect(count(Buffer.alloc(16 << 20, "["))).toBeLessThan(10);
  expect(count(Buffer.from('{"a":1,'.repeat(100_000)))).toBeLessThan(100);
  expect(count(Buffer.from(`{${'"a":1,'.repeat(100_000)}`))).toBeLessThan(200_000);
});
