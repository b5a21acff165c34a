import { test } from "vitest";

/** Whether this is `make test-long`, which has no time limit. */
export const isLong = process.env.TEMPER_LONG === "1";

/** A test that is too slow for `make test`. It runs only in `make test-long`, and its name says so. */
export function testLong(name: string, body: () => void | Promise<void>): void {
  test.skipIf(!isLong)(`${name} (in make test-long)`, body);
}
